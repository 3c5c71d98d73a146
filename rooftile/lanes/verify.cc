// SPDX-License-Identifier: Apache-2.0
// The structural rules of L2, in two walks: the program as written (declarations, scopes, types,
// operands), then its unrolled form, where every index of a register array must be a constant in
// range. What a program does to memory and barriers is for the prover and the emulator.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>

#include "rooftile/lanes/lanes.h"
#include "rooftile/lanes/operands.h"
#include "rooftile/lanes/program_text.h"
#include "rooftile/lanes/value_rules.h"
#include "rooftile/lanes/verify_rolled.h"

namespace rooftile::lanes {
namespace {

struct Register {
  Ty type = Ty::kI32;
  int count = 0;  // 0: scalar
};

class Verifier {
 public:
  Verifier(const Program& program, bool constant_indices)
      : program_(program), constant_indices_(constant_indices) {}

  Status run() {
    RT_RETURN_IF_ERROR(check_launch());
    RT_RETURN_IF_ERROR(check_declarations());
    return check_body(program_.body);
  }

 private:
  using Registers = std::map<std::string, Register, std::less<>>;

  Diag fail(std::string message, std::string found, std::string expected) const {
    Diag diag;
    diag.code = ErrorCode::kLanes;
    diag.subject = program_.name;
    diag.message = std::move(message);
    diag.found = std::move(found);
    diag.expected = std::move(expected);
    if (stmt_ != nullptr) {
      diag.at = stmt_->loc;
      diag.when = "in `" + print_head(*stmt_) + "`";
    }
    return diag;
  }

  // ---- the kernel's interface ----

  Status check_launch() const {
    if (program_.threads < 32 || program_.threads > 1024 || program_.threads % 32 != 0)
      return fail("no such number of threads", std::to_string(program_.threads),
                  "whole warps, up to 1024 threads");
    if (program_.cluster < 1 || program_.cluster > 16)
      return fail("no such cluster", std::to_string(program_.cluster), "1 to 16 CTAs");
    return {};
  }

  Status check_declarations() {
    std::set<std::string, std::less<>> names;
    const auto unique = [&](const std::string& name) -> Status {
      if (!name.empty() && names.insert(name).second) return {};
      return fail("two declarations of one name", "`" + name + "`", "a name of its own");
    };
    for (const TensorUse& t : program_.tensors) RT_RETURN_IF_ERROR(unique(t.name));
    for (const TensorMapUse& m : program_.maps) {
      RT_RETURN_IF_ERROR(unique(m.name));
      RT_RETURN_IF_ERROR(check_map(m));
    }
    for (const ScalarUse& s : program_.scalars) {
      RT_RETURN_IF_ERROR(unique(s.name));
      RT_RETURN_IF_ERROR(check_scalar(s));
    }
    for (const SharedAlloc& a : program_.shared) {
      RT_RETURN_IF_ERROR(unique(a.name));
      RT_RETURN_IF_ERROR(check_alloc(a));
    }
    return {};
  }

  Status check_map(const TensorMapUse& map) const {
    const TensorUse* tensor = find(program_.tensors, map.tensor);
    if (tensor == nullptr) return fail("a map of no tensor", "`" + map.tensor + "`", "");
    const size_t rank = map.box.size();
    if (rank != tensor->shape.size() || rank < 1 || rank > 5)
      return fail("the box of `" + map.name + "` has another rank than its tensor",
                  fmt::format("{} dimensions of {}", rank, tensor->shape.size()),
                  "one extent a dimension, 1 to 5 of them");
    for (const int side : map.box)
      if (side < 1 || side > 256)
        return fail("a side of the box of `" + map.name + "`", std::to_string(side), "1 to 256");
    const int row_bytes = map.box[0] * rooftile::size_bytes(tensor->dtype);
    const int span = map.swizzle == Swizzle::kNone ? 256 * 16 : 16 << static_cast<int>(map.swizzle);
    if (row_bytes % 16 != 0 || row_bytes > span)
      return fail("the innermost side of the box of `" + map.name + "`",
                  fmt::format("{} bytes", row_bytes),
                  fmt::format("a multiple of 16 bytes, at most {}", span));
    return {};
  }

  // "x.s0" is the stride of dimension 0 of tensor x.
  Status check_scalar(const ScalarUse& scalar) const {
    const size_t dot = scalar.name.find(".s");
    if (dot == std::string::npos) return {};
    const TensorUse* tensor = find(program_.tensors, scalar.name.substr(0, dot));
    const std::string digits = scalar.name.substr(dot + 2);
    const bool number = digits.size() == 1 && digits[0] >= '0' && digits[0] <= '9';
    if (tensor == nullptr || !number || digits[0] - '0' >= static_cast<int>(tensor->shape.size()))
      return fail("a stride of no dimension", "`" + scalar.name + "`", "tensor.s<dimension>");
    if (scalar.type != Ty::kI64)
      return fail("the type of stride `" + scalar.name + "`", std::string(ty_name(scalar.type)),
                  "i64");
    return {};
  }

  Status check_alloc(const SharedAlloc& alloc) const {
    const int align = alloc.align;
    if (align < 1 || align > 1024 || (align & (align - 1)) != 0)
      return fail("alignment of `" + alloc.name + "`", std::to_string(align),
                  "a power of two up to 1024");
    if (alloc.bytes < 1) return fail("shared allocation `" + alloc.name + "` is empty", "", "");
    if (alloc.barriers && (alloc.bytes % 8 != 0 || align < 8))
      return fail("mbarriers `" + alloc.name + "`",
                  fmt::format("{} bytes, aligned to {}", alloc.bytes, align),
                  "8 bytes each, aligned to 8");
    return {};
  }

  template <class T>
  static const T* find(const std::vector<T>& list, std::string_view name) {
    for (const T& entry : list)
      if (entry.name == name) return &entry;
    return nullptr;
  }

  // ---- statements ----

  Status check_body(const Body& body) {
    const Registers outer = registers_;
    for (const Stmt& stmt : body) {
      stmt_ = &stmt;
      RT_RETURN_IF_ERROR(check_stmt(stmt));
    }
    registers_ = outer;
    return {};
  }

  Status check_stmt(const Stmt& stmt) {
    switch (stmt.kind) {
      case StmtKind::kDecl:
        return check_decl(stmt);
      case StmtKind::kAssign:
        return check_assign(stmt);
      case StmtKind::kInstr:
        return check_instr(stmt.instr);
      case StmtKind::kIf:
        RT_RETURN_IF_ERROR(check_value(stmt.value, Ty::kPred, "the condition"));
        RT_RETURN_IF_ERROR(check_body(stmt.body));
        return check_body(stmt.orelse);
      case StmtKind::kFor:
        return check_for(stmt);
      case StmtKind::kWhile:
        RT_RETURN_IF_ERROR(check_value(stmt.value, Ty::kPred, "the condition"));
        return check_body(stmt.body);
      case StmtKind::kComment:
        return {};
    }
    return {};
  }

  Status declare(const std::string& name, Register reg) {
    if (name.empty() || !registers_.emplace(name, reg).second)
      return fail("register `" + name + "` is already in scope", name, "a name of its own");
    return {};
  }

  Status check_decl(const Stmt& stmt) {
    if (stmt.count < 0 || stmt.count > 1024)
      return fail("no such register array", std::to_string(stmt.count), "1 to 1024 elements");
    if (stmt.value.present()) {
      if (stmt.count > 0) return fail("an array has no initial value", str(stmt.value), "");
      RT_RETURN_IF_ERROR(check_value(stmt.value, stmt.type, "the initial value"));
    }
    return declare(stmt.name, {stmt.type, stmt.count});
  }

  Status check_assign(const Stmt& stmt) {
    Register reg;
    RT_RETURN_IF_ERROR(check_reg(stmt.target, &reg));
    if (stmt.target.count != 1)
      return fail("one value is assigned to several registers", std::to_string(stmt.target.count),
                  "1");
    return check_value(stmt.value, reg.type, "the value");
  }

  Status check_for(const Stmt& stmt) {
    RT_RETURN_IF_ERROR(check_value(stmt.begin, Ty::kI32, "the begin"));
    RT_RETURN_IF_ERROR(check_value(stmt.end, Ty::kI32, "the end"));
    RT_RETURN_IF_ERROR(check_value(stmt.step, Ty::kI32, "the step"));
    if (stmt.step->kind == ValKind::kInt && stmt.step->integer < 1)
      return fail("a loop that does not move on", str(stmt.step), "a step of 1 or more");
    if (constant_indices_ && stmt.unroll == Unroll::kYes)
      return fail("the bounds of an unrolled loop are not constant",
                  fmt::format("{} .. {} by {}", str(stmt.begin), str(stmt.end), str(stmt.step)),
                  "constants, once the loops around are unrolled");
    const Registers outer = registers_;
    RT_RETURN_IF_ERROR(declare(stmt.name, {Ty::kI32, 0}));
    RT_RETURN_IF_ERROR(check_body(stmt.body));
    registers_ = outer;
    return {};
  }

  // ---- values and registers ----

  Status check_value(const Val& value, Ty type, const std::string& what) const {
    if (!value.present()) return fail(what + " is absent", "", std::string(ty_name(type)));
    if (value.type() != type)
      return fail("the type of " + what, fmt::format("{} {}", ty_name(value.type()), str(value)),
                  std::string(ty_name(type)));
    return check_tree(value);
  }

  Status check_tree(const Val& value) const {
    switch (value->kind) {
      case ValKind::kVar:
        return check_use(value->name, value.type(), false);
      case ValKind::kElem: {
        RT_RETURN_IF_ERROR(check_use(value->name, value.type(), true));
        const Register& reg = registers_.find(value->name)->second;
        return check_index(value->name, value->args[0], 1, reg.count);
      }
      case ValKind::kParam: {
        const ScalarUse* scalar = find(program_.scalars, value->name);
        if (scalar == nullptr) return fail("no such parameter", "`" + value->name + "`", "");
        if (scalar->type == value.type()) return {};
        return fail("the type of parameter `" + value->name + "`",
                    std::string(ty_name(value.type())), std::string(ty_name(scalar->type)));
      }
      case ValKind::kShared:
        if (find(program_.shared, value->name) != nullptr) return {};
        return fail("no such shared allocation", "`" + value->name + "`", "");
      case ValKind::kFn: {
        const std::string error = type_error(value->fn, value.type(), value->args);
        if (!error.empty()) return fail("an ill-typed expression", error, "");
        if (value->fn == Fn::kMatrixDesc && value->args[3]->kind != ValKind::kInt)
          return fail("the swizzle of a matrix descriptor is not constant", str(value->args[3]),
                      "a Swizzle as a number");
        for (const Val& arg : value->args) RT_RETURN_IF_ERROR(check_tree(arg));
        return {};
      }
      default:
        return {};
    }
  }

  Status check_use(const std::string& name, Ty type, bool array) const {
    const auto it = registers_.find(name);
    if (it == registers_.end())
      return fail("a register is used where it is not in scope", "`" + name + "`", "");
    const Register& reg = it->second;
    if (array != (reg.count > 0))
      return fail(array ? "a scalar register is indexed" : "a register array is used whole",
                  "`" + name + "`", "");
    if (reg.type == type) return {};
    return fail("register `" + name + "` has another type", std::string(ty_name(type)),
                std::string(ty_name(reg.type)));
  }

  Status check_index(const std::string& name, const Val& index, int count, int size) const {
    if (!index.present() || (index.type() != Ty::kI32 && index.type() != Ty::kU32))
      return fail("the index of `" + name + "`", index.present() ? str(index) : "absent",
                  "a 32-bit integer");
    RT_RETURN_IF_ERROR(check_tree(index));
    if (index->kind != ValKind::kInt) {
      if (!constant_indices_) return {};
      return fail("the index of `" + name + "` is not constant after unrolling", str(index),
                  "a constant: registers cannot be addressed");
    }
    if (index->integer >= 0 && index->integer + count <= size) return {};
    return fail("registers outside array `" + name + "`",
                count == 1 ? std::to_string(index->integer)
                           : fmt::format("{} .. {}", index->integer, index->integer + count - 1),
                fmt::format("0 .. {}", size - 1));
  }

  Status check_reg(const RegRef& ref, Register* out) const {
    const auto it = registers_.find(ref.name);
    if (it == registers_.end())
      return fail("a register is used where it is not in scope", "`" + ref.name + "`", "");
    *out = it->second;
    if (ref.first.present() != (out->count > 0))
      return fail(ref.first.present() ? "a scalar register is indexed"
                                      : "a register array needs the first index",
                  "`" + ref.name + "`", "");
    if (ref.count < 1 || (!ref.first.present() && ref.count != 1))
      return fail("no such run of registers", fmt::format("{} of `{}`", ref.count, ref.name), "");
    return ref.first.present() ? check_index(ref.name, ref.first, ref.count, out->count) : Status();
  }

  // ---- instructions ----

  Status check_instr(const Instr& i) const {
    if (i.guard.present()) RT_RETURN_IF_ERROR(check_value(i.guard, Ty::kPred, "the guard"));
    const Operands& rule = operands(i.ins);
    RT_RETURN_IF_ERROR(check_needs(i, rule.needs));
    RT_RETURN_IF_ERROR(check_regs(i, rule.results, i.results, "results"));
    RT_RETURN_IF_ERROR(check_regs(i, rule.regs, i.regs, "register operands"));
    RT_RETURN_IF_ERROR(check_args(i, rule.args));
    return check_immediates(i);
  }

  // What operand letter `letter` of operands.def takes: how many registers of which types.
  struct Wanted {
    std::vector<Ty> types;
    int count = 1;
  };
  static std::optional<Wanted> wanted(const Instr& i, char letter) {
    switch (letter) {
      case 'r': {
        const RawRegs raw = raw_regs(i.dtype, i.global.width);
        if (raw.count == 0) return std::nullopt;
        if (raw.count == 1 && i.global.width == 1) return Wanted{{raw.type}, 1};
        return Wanted{{raw.type, Ty::kU32}, raw.count};
      }
      case 'm':
        if (i.bytes == 1 || i.bytes == 2) return Wanted{{Ty::kU32}, 1};
        if (i.bytes == 4) return Wanted{{Ty::kU32, Ty::kI32, Ty::kF32}, 1};
        if (i.bytes == 8) return Wanted{{Ty::kU32, Ty::kI32, Ty::kF32, Ty::kI64, Ty::kU64}, 2};
        if (i.bytes == 16) return Wanted{{Ty::kU32, Ty::kI32, Ty::kF32}, 4};
        return std::nullopt;
      case 'e':
        return Wanted{{element_type(i.dtype)}, 1};
      case 'u':
        return Wanted{{Ty::kU32}, 1};
      case 'p':
        return Wanted{{Ty::kPred}, 1};
      case 'x':
        return Wanted{{Ty::kU32, Ty::kI32}, 1};
      case 'w':
        return Wanted{{Ty::kU32, Ty::kI32, Ty::kF32}, 1};
      case 'n':
        return Wanted{{Ty::kU32}, i.n};
      case '2':
        return Wanted{{Ty::kU32}, 2};
      case '4':
      case 'F':
        return Wanted{{Ty::kU32}, 4};
      case 'q':
        return Wanted{{Ty::kU32, Ty::kI32, Ty::kF32}, 4};
      case 'a':
        return Wanted{{accumulator_type(i.dtype)}, i.n / 2};
      case 'd':
        return Wanted{{accumulator_type(i.dtype)}, 4};
      default:
        return std::nullopt;
    }
  }

  Status check_regs(const Instr& i, std::string_view rule, const std::vector<RegRef>& refs,
                    const std::string& what) const {
    const std::string name(ins_info(i.ins).name);
    if (rule == "*") {
      for (const RegRef& ref : refs) {
        Register reg;
        RT_RETURN_IF_ERROR(check_reg(ref, &reg));
      }
      return {};
    }
    const size_t most = rule.size();
    const size_t least = most - (rule.ends_with('F') ? 1 : 0);
    if (refs.size() < least || refs.size() > most)
      return fail(fmt::format("{} has another number of {}", name, what),
                  std::to_string(refs.size()), std::to_string(least));
    for (size_t k = 0; k < refs.size(); ++k) {
      Register reg;
      RT_RETURN_IF_ERROR(check_reg(refs[k], &reg));
      std::optional<Wanted> want = wanted(i, rule[k]);
      if (!want)
        return fail(
            name + " of this size does not exist",
            fmt::format("{} x {}, {} bytes", i.global.width, rooftile::name(i.dtype), i.bytes),
            "1 element, or 4, 8 or 16 bytes");
      bool fits = false;
      for (const Ty type : want->types) {
        const int count = want->count * 4 / std::max(4, size_bytes(type));
        fits |= reg.type == type && refs[k].count == (want->count == 1 ? 1 : count);
      }
      if (!fits)
        return fail(fmt::format("register operand {} of {}", k, name),
                    fmt::format("{} x {} `{}`", refs[k].count, ty_name(reg.type), refs[k].name),
                    fmt::format("{} x {}", want->count, ty_name(want->types[0])));
    }
    return {};
  }

  Status check_needs(const Instr& i, std::string_view needs) const {
    if (needs.find('g') != std::string_view::npos) RT_RETURN_IF_ERROR(check_global(i));
    if (needs.find('m') != std::string_view::npos) {
      const TensorMapUse* map = find(program_.maps, i.map);
      if (map == nullptr) return fail("no such tensor map", "`" + i.map + "`", "");
      RT_RETURN_IF_ERROR(check_declared_access(i, *find(program_.tensors, map->tensor)));
    }
    if (needs.find('b') != std::string_view::npos && i.bytes < 1)
      return fail("the number of bytes is missing", std::to_string(i.bytes), "1 or more");
    return {};
  }

  // Whether a tensor is written decides through which cache it is read: it has to be declared.
  Status check_declared_access(const Instr& i, const TensorUse& tensor) const {
    const InsInfo& info = ins_info(i.ins);
    if ((info.writes & kGlobal) != 0 && !tensor.written)
      return fail("`" + tensor.name + "` is written", std::string(info.name), "`written` is set");
    return {};
  }

  Status check_global(const Instr& i) const {
    const TensorUse* tensor = find(program_.tensors, i.global.tensor);
    if (tensor == nullptr) return fail("no such tensor", "`" + i.global.tensor + "`", "");
    if (i.global.index.size() != tensor->shape.size())
      return fail("`" + tensor->name + "` is indexed with another number of indices",
                  std::to_string(i.global.index.size()), std::to_string(tensor->shape.size()));
    if (i.dtype != tensor->dtype)
      return fail("`" + tensor->name + "` is accessed as another dtype",
                  std::string(rooftile::name(i.dtype)), std::string(rooftile::name(tensor->dtype)));
    RT_RETURN_IF_ERROR(check_declared_access(i, *tensor));
    for (const Val& index : i.global.index) {
      if (!index.present() || (index.type() != Ty::kI32 && index.type() != Ty::kI64))
        return fail("an index of `" + tensor->name + "`", index.present() ? str(index) : "absent",
                    "i32 or i64");
      RT_RETURN_IF_ERROR(check_tree(index));
    }
    return {};
  }

  // Letters to argument types, the tail of coordinates by the rank of the map.
  Status check_args(const Instr& i, std::string_view rule) const {
    std::vector<char> letters;
    for (const char letter : rule) {
      if (letter == 'D' && i.regs.size() > 1) continue;
      const size_t times = letter == 'c' ? find(program_.maps, i.map)->box.size() : 1;
      letters.insert(letters.end(), times, letter);
    }
    if (i.args.size() != letters.size())
      return fail(fmt::format("{} has another number of arguments", ins_info(i.ins).name),
                  std::to_string(i.args.size()), std::to_string(letters.size()));
    for (size_t k = 0; k < letters.size(); ++k) {
      const Val& arg = i.args[k];
      const char letter = letters[k];
      const std::string what = fmt::format("argument {}", k);
      const bool loose = letter == 'i' && arg.present() && arg.type() == Ty::kI32;
      const Ty type = letter == 'c' || loose           ? Ty::kI32
                      : letter == 'p'                  ? Ty::kPred
                      : letter == 'd' || letter == 'D' ? Ty::kU64
                                                       : Ty::kU32;
      RT_RETURN_IF_ERROR(check_value(arg, type, what));
    }
    return {};
  }

  Status check_immediates(const Instr& i) const {
    const std::string name(ins_info(i.ins).name);
    const auto range = [&](bool ok, const char* expected) -> Status {
      return ok ? Status() : fail(name + " has no such n", std::to_string(i.n), expected);
    };
    switch (i.ins) {
      case Ins::kWaitGlobal:
        if (i.dtype == DType::kI32 && i.global.width == 1) return {};
        return fail(name, std::string(rooftile::name(i.dtype)), "one i32");
      case Ins::kRedGlobal:
      case Ins::kRedGlobalRelease:
      case Ins::kAtomGlobal:
      case Ins::kAtomShared: {
        const std::string error = atomic_error(i.op, i.dtype, i.ins == Ins::kAtomShared);
        return error.empty() ? Status() : fail(name, error, "");
      }
      case Ins::kRedux:
        if (i.op == Fn::kAdd || i.op == Fn::kMin || i.op == Fn::kMax || i.op == Fn::kAnd ||
            i.op == Fn::kOr || i.op == Fn::kXor)
          return {};
        return fail(name, std::string(fn_info(i.op).name), "add, min, max, and, or, xor");
      case Ins::kCpAsync: {
        const int bytes = i.global.width * rooftile::size_bytes(i.dtype);
        if (bytes == 4 || bytes == 8 || bytes == 16) return {};
        return fail(name, fmt::format("{} bytes", bytes), "4, 8 or 16 bytes");
      }
      case Ins::kBulkLoad:
        if (i.bytes % 16 == 0) return {};
        return fail(name, fmt::format("{} bytes", i.bytes), "a multiple of 16 bytes");
      case Ins::kLdMatrix:
      case Ins::kStMatrix:
        return range(i.n == 1 || i.n == 2 || i.n == 4, "1, 2 or 4 matrices");
      case Ins::kWgmma: {
        const std::string error = wgmma_error(i);
        return error.empty() ? Status() : fail("no such product", error, "");
      }
      case Ins::kMmaSync:
        if (i.dtype == DType::kBf16 || i.dtype == DType::kF16 || i.dtype == DType::kI8) return {};
        return fail(name, std::string(rooftile::name(i.dtype)), "bf16, f16 or i8");
      case Ins::kNamedSync:
      case Ins::kNamedArrive:
        return range(i.n >= 32 && i.n <= program_.threads && i.n % 32 == 0,
                     "whole warps, no more than the CTA has");
      case Ins::kRegsInc:
      case Ins::kRegsDec:
        return range(i.n >= 24 && i.n <= 256 && i.n % 8 == 0, "24 to 256 registers, by 8");
      case Ins::kWgmmaWait:
        return range(i.n >= 0 && i.n <= 7, "0 to 7 groups");
      case Ins::kShflXor:
      case Ins::kShflIdx:
      case Ins::kShflUp:
        return range(i.n >= 0 && i.n <= 32 && (i.n & (i.n - 1)) == 0,
                     "a power of two up to 32; 0 stands for 32");
      default:
        return range(i.n >= 0, "0 or more");
    }
  }

  const Program& program_;
  const bool constant_indices_;
  const Stmt* stmt_ = nullptr;
  Registers registers_;
};

}  // namespace

Status verify_rolled(const Program& program) { return Verifier(program, false).run(); }

Status verify(const Program& program) {
  RT_RETURN_IF_ERROR(verify_rolled(program));
  return Verifier(unrolled(program), true).run();
}

}  // namespace rooftile::lanes
