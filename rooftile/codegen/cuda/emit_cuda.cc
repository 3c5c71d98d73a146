// SPDX-License-Identifier: Apache-2.0
#include "rooftile/codegen/cuda/emit_cuda.h"

#include <fmt/format.h>

#include "rooftile/codegen/cuda/instr_text.h"
#include "rooftile/codegen/cuda/value_text.h"
#include "rooftile/lanes/operands.h"
#include "rooftile/lanes/value_rules.h"
#include "rooftile/lanes/verify_rolled.h"

namespace rooftile::codegen {
namespace {

using cuda::Names;
using cuda::Prelude;
using cuda::ValueText;
using lanes::Body;
using lanes::Program;
using lanes::Special;
using lanes::Stmt;
using lanes::StmtKind;

using NameSet = std::set<std::string, std::less<>>;

// Names that a variable must not have: keywords, types and functions of CUDA C++ that texts use.
NameSet reserved_names() {
  NameSet out;
  std::string_view words =
      "alignas alignof and asm auto bool break case catch char class const constexpr continue "
      "decltype default delete do double else enum explicit extern false float for friend goto if "
      "inline int long mutable namespace new noexcept not nullptr operator or private protected "
      "public register return short signed sizeof static struct switch template this throw true "
      "try typedef typename union unsigned using virtual void volatile while xor "
      "i8 u8 u16 i32 u32 i64 u64 TensorMap threadIdx blockIdx blockDim gridDim warpSize "
      "min max abs fmaf fminf fmaxf fabsf floorf rsqrtf expf exp2f logf log2f tanhf erff sinf cosf "
      "smem smem_base";
  while (!words.empty()) {
    const size_t space = std::min(words.find(' '), words.size());
    out.emplace(words.substr(0, space));
    words.remove_prefix(std::min(space + 1, words.size()));
  }
  return out;
}

std::string_view element_text(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return "float";
    case DType::kBf16:
    case DType::kF16:
      return "u16";
    case DType::kI8:
      return "i8";
    case DType::kI32:
      return "i32";
    case DType::kU32:
      return "u32";
    case DType::kI64:
      return "i64";
    default:
      return "u8";
  }
}

std::string special_value(Special special, Prelude& prelude) {
  switch (special) {
    case Special::kTid:
      return "threadIdx.x";
    case Special::kLane:
      return "threadIdx.x & 31";
    case Special::kWarp:
      // The shuffle tells ptxas that the warp agrees: roles and rings then live in uniform
      // registers.
      return "__shfl_sync(0xffffffffu, threadIdx.x >> 5, 0)";
    case Special::kCtaX:
      return "blockIdx.x";
    case Special::kCtaY:
      return "blockIdx.y";
    case Special::kCtaZ:
      return "blockIdx.z";
    case Special::kGridX:
      return "gridDim.x";
    case Special::kGridY:
      return "gridDim.y";
    case Special::kGridZ:
      return "gridDim.z";
    case Special::kClusterRank:
      return prelude.use({.name = "cluster_ctarank",
                          .operands = cuda::parse_operands("result u32 r"),
                          .ptx = "mov.u32 $r, %%cluster_ctarank;"}) +
             "()";
  }
  return "";
}

// Registers that are written after their declaration; the others are const in the text.
void collect_assigned(const Body& body, NameSet& out) {
  for (const Stmt& stmt : body) {
    if (stmt.kind == StmtKind::kAssign) out.insert(stmt.target.name);
    for (const lanes::RegRef& ref : stmt.instr.results) out.insert(ref.name);
    const lanes::Ins ins = stmt.instr.ins;
    if (ins == lanes::Ins::kPin || ins == lanes::Ins::kWgmma)  // read and written
      for (const lanes::RegRef& ref : stmt.instr.regs) out.insert(ref.name);
    collect_assigned(stmt.body, out);
    collect_assigned(stmt.orelse, out);
  }
}

// One attempt at the text, with variables kept off `reserved`.
class Emitter {
 public:
  Emitter(const Program& program, NameSet reserved)
      : program_(program), names_(std::move(reserved)), values_(program, prelude_, names_) {
    collect_assigned(program.body, assigned_);
    values_.set_data(cuda::data_registers(program.body));
  }

  std::string text() {
    // Parameters have the first claim on names.
    const std::string head = signature();
    depth_ = 1;
    body(program_.body);
    std::string out = locals() + text_;
    return prelude_.text() + head + " {\n" + out + "}\n";
  }

  // Names of variables that turned out to be helpers too.
  NameSet clashes() const {
    NameSet out;
    for (const std::string& name : names_.given())
      if (prelude_.defines(name)) out.insert(name);
    return out;
  }

 private:
  // ---- the frame of the kernel ----

  std::string parameter_text(const KernelParam& param) {
    const std::string& name = names_(param.name);
    switch (param.kind) {
      case KernelParam::Kind::kTensorMap:
        prelude_.use_tensor_maps();
        return "const __grid_constant__ TensorMap " + name;
      case KernelParam::Kind::kPointer:
        for (const lanes::TensorUse& t : program_.tensors)
          if (t.name == param.name)
            return fmt::format("{}{}*{} {}", t.written ? "" : "const ", element_text(t.dtype),
                               t.unaliased && !t.written ? " __restrict__" : "", name);
        return "";
      default:
        return fmt::format("{} {}", cuda::type_text(param.type), name);
    }
  }

  std::string signature() {
    std::string out = fmt::format("extern \"C\" __global__ void __launch_bounds__({}, {})",
                                  program_.threads, program_.min_ctas_per_sm);
    if (program_.cluster > 1) out += fmt::format(" __cluster_dims__({}, 1, 1)", program_.cluster);
    out += "\n" + program_.name + "(";
    const std::vector<KernelParam> params = kernel_params(program_);
    for (size_t i = 0; i < params.size(); ++i)
      out += (i == 0 ? "\n    " : ",\n    ") + parameter_text(params[i]);
    return out + ")";
  }

  // Variables of ours: addresses of shared allocations, and special registers, if they are used.
  std::string locals() {
    std::string out;
    if (!values_.shared().empty()) {
      out +=
          "  extern __shared__ __align__(1024) u8 smem[];\n"
          "  const u32 smem_base = (u32)__cvta_generic_to_shared(smem);\n";
      for (const lanes::SharedAlloc& alloc : program_.shared)
        if (values_.shared().contains(alloc.name))
          out +=
              fmt::format("  const u32 {} = smem_base + {}u;\n", names_(alloc.name), alloc.offset);
    }
    for (const Special special : values_.specials())
      out += fmt::format("  const i32 {} = {};\n", names_.own(ValueText::special_name(special)),
                         special_value(special, prelude_));
    return out;
  }

  // ---- statements ----

  // A call that is too long is broken between its arguments.
  void line(const std::string& text) {
    std::string indent(static_cast<size_t>(2 * depth_), ' ');
    if (indent.size() + text.size() <= 100 || text.starts_with("//")) {
      text_ += indent + text + "\n";
      return;
    }
    std::string current = indent;
    int parens = 0;
    for (size_t i = 0; i < text.size(); ++i) {
      current += text[i];
      parens += text[i] == '(' ? 1 : text[i] == ')' ? -1 : 0;
      if (parens != 1 || text[i] != ',') continue;
      // Whether the next argument still fits.
      size_t end = i + 1;
      for (int inner = 1; end < text.size(); ++end) {
        inner += text[end] == '(' ? 1 : text[end] == ')' ? -1 : 0;
        if (inner == 0 || (inner == 1 && text[end] == ',')) break;
      }
      if (current.size() + (end - i) <= 100) continue;
      text_ += current + "\n";
      current = indent + "   ";  // the blank after the comma follows
    }
    text_ += current + "\n";
  }

  void block(const std::string& head, const Body& inner, const std::string& tail = "}") {
    line(head + " {");
    ++depth_;
    body(inner);
    --depth_;
    line(tail);
  }

  void body(const Body& statements) {
    for (size_t i = 0; i < statements.size(); ++i) {
      const Stmt& stmt = statements[i];
      if (i + 1 < statements.size() && gives(stmt, statements[i + 1])) {
        // bool first; first = elect_one();  ->  bool first = elect_one();
        values_.declare(stmt.name, stmt.type);
        line(std::string(cuda::type_text(stmt.type)) + " " +
             cuda::instr_text(statements[++i].instr, prelude_, values_)[0]);
      } else {
        statement(stmt);
      }
    }
  }

  // Whether `next` is an instruction that returns the first value of the register declared.
  static bool gives(const Stmt& stmt, const Stmt& next) {
    if (stmt.kind != StmtKind::kDecl || stmt.count > 0 || stmt.value.present()) return false;
    if (next.kind != StmtKind::kInstr || next.instr.guard.present()) return false;
    return next.instr.results.size() == 1 && next.instr.results[0].name == stmt.name;
  }

  void statement(const Stmt& stmt) {
    switch (stmt.kind) {
      case StmtKind::kDecl:
        return declaration(stmt);
      case StmtKind::kAssign:
        return line(fmt::format("{} = {};", values_.reg(stmt.target), values_(stmt.value)));
      case StmtKind::kInstr:
        for (const std::string& text : cuda::instr_text(stmt.instr, prelude_, values_)) line(text);
        return;
      case StmtKind::kIf:
        return branch(stmt);
      case StmtKind::kFor:
        return loop(stmt);
      case StmtKind::kWhile:
        return block("while (" + values_(stmt.value) + ")", stmt.body);
      case StmtKind::kComment:
        return comment(stmt.text);
    }
  }

  void declaration(const Stmt& stmt) {
    values_.declare(stmt.name, stmt.type);
    std::string text = fmt::format("{} {}", cuda::type_text(stmt.type), names_(stmt.name));
    if (stmt.count > 0) text += fmt::format("[{}]", stmt.count);
    if (stmt.value.present()) {
      if (!assigned_.contains(stmt.name)) text = "const " + text;
      text += " = " + values_(stmt.value);
    }
    line(text + ";");
  }

  void branch(const Stmt& stmt) {
    std::string condition = values_(stmt.value);
    if (stmt.unlikely) condition = "__builtin_expect(" + condition + ", 0)";
    if (stmt.orelse.empty()) return block("if (" + condition + ")", stmt.body);
    block("if (" + condition + ")", stmt.body, "} else {");
    ++depth_;
    body(stmt.orelse);
    --depth_;
    line("}");
  }

  void loop(const Stmt& stmt) {
    values_.declare(stmt.name, lanes::Ty::kI32);
    const std::string& i = names_(stmt.name);
    const std::string step = stmt.step.is_int(1) ? "++" + i : i + " += " + values_(stmt.step);
    line(stmt.unroll == lanes::Unroll::kYes ? "#pragma unroll" : "#pragma unroll 1");
    block(fmt::format("for (i32 {0} = {1}; {0} < {2}; {3})", i, values_(stmt.begin),
                      values_(stmt.end, 10), step),
          stmt.body);
  }

  void comment(const std::string& text) {
    size_t begin = 0;
    while (begin <= text.size()) {
      const size_t end = std::min(text.find('\n', begin), text.size());
      line("// " + text.substr(begin, end - begin));
      begin = end + 1;
    }
  }

  const Program& program_;
  Prelude prelude_;
  Names names_;
  ValueText values_;
  NameSet assigned_;
  std::string text_;
  int depth_ = 0;
};

KernelParam scalar_param(const lanes::ScalarUse& scalar) {
  const bool stride = scalar.name.find(".s") != std::string::npos;
  const KernelParam::Kind kind = stride                           ? KernelParam::Kind::kStride
                                 : scalar.type == lanes::Ty::kF32 ? KernelParam::Kind::kAttribute
                                                                  : KernelParam::Kind::kDim;
  return {kind, scalar.name, scalar.type, lanes::size_bytes(scalar.type)};
}

}  // namespace

std::vector<KernelParam> kernel_params(const Program& program) {
  std::vector<KernelParam> out;
  for (const lanes::TensorMapUse& m : program.maps)
    out.push_back({KernelParam::Kind::kTensorMap, m.name, lanes::Ty::kU64, 128});
  for (const lanes::TensorUse& t : program.tensors)
    out.push_back({KernelParam::Kind::kPointer, t.name, lanes::Ty::kU64, 8});
  for (const KernelParam::Kind kind :
       {KernelParam::Kind::kStride, KernelParam::Kind::kDim, KernelParam::Kind::kAttribute})
    for (const lanes::ScalarUse& s : program.scalars)
      if (const KernelParam param = scalar_param(s); param.kind == kind) out.push_back(param);
  return out;
}

Result<std::string> emit_cuda(const Program& program) {
  RT_RETURN_IF_ERROR(lanes::verify_rolled(program));
  for (const lanes::SharedAlloc& alloc : program.shared)
    if (alloc.offset < 0) {
      Diag diag;
      diag.code = ErrorCode::kLanes;
      diag.subject = program.name;
      diag.message = "shared allocation `" + alloc.name + "` has no place";
      diag.fix = "call plan_shared first";
      return diag;
    }
  NameSet reserved = reserved_names();
  reserved.insert(program.name);
  while (true) {
    Emitter emitter(program, reserved);
    std::string text = emitter.text();
    const NameSet clashes = emitter.clashes();
    if (clashes.empty()) return text;
    reserved.insert(clashes.begin(), clashes.end());
  }
}

}  // namespace rooftile::codegen
