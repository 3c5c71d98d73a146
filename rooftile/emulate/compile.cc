// SPDX-License-Identifier: Apache-2.0
// L2 -> the flat form of code.h.
#include <fmt/format.h>

#include <bit>
#include <map>
#include <set>
#include <unordered_map>

#include "rooftile/emulate/code.h"

namespace rooftile::emulate {
namespace {

using lanes::Body;
using lanes::Fn;
using lanes::Instr;
using lanes::RegRef;
using lanes::Stmt;
using lanes::StmtKind;
using lanes::Ty;
using lanes::Val;
using lanes::ValKind;
using lanes::ValNode;

struct Register {
  Ty type;
  int first;  // register number
  int count;  // 0: scalar
};

// Arrays that products read or write, by name.
void collect_product_operands(const Body& body, std::set<std::string>& out) {
  for (const Stmt& stmt : body) {
    if (stmt.kind == StmtKind::kInstr && stmt.instr.ins == lanes::Ins::kWgmma)
      for (const RegRef& ref : stmt.instr.regs) out.insert(ref.name);
    collect_product_operands(stmt.body, out);
    collect_product_operands(stmt.orelse, out);
  }
}

class Compiler {
 public:
  Compiler(Code& code, const Launch& launch) : code_(code), launch_(launch) {}

  Status run() {
    collect_product_operands(code_.program.body, product_names_);
    num_registers_ = kNumSpecialCells;
    is_product_operand_.assign(kNumSpecialCells, false);
    scopes_.emplace_back();
    body(code_.program.body);
    if (!error_.empty())
      return Diag{.code = ErrorCode::kEmuSetup,
                  .subject = code_.program.name,
                  .message = error_,
                  .fix = "lanes::verify names the statement"};
    emit({.kind = OpKind::kExit, .ends_statement = true});
    renumber();
    code_.num_registers = num_registers_;
    code_.product_operand = is_product_operand_;
    return {};
  }

 private:
  // While compiling, registers are numbers from 0 and constants are ~index; renumber() puts the
  // constants first.
  static CellId constant_id(size_t index) { return -2 - static_cast<CellId>(index); }

  void renumber() {
    const int constants = static_cast<int>(code_.constants.size());
    const auto fix = [&](CellId& id) {
      if (id >= 0)
        id += constants;
      else if (id < kNoCell)
        id = -2 - id;
    };
    for (Op& op : code_.ops) {
      fix(op.dst);
      for (CellId& id : op.in) fix(id);
    }
    for (InstrCode& i : code_.instrs) {
      fix(i.guard);
      for (auto* list : {&i.args, &i.index, &i.results, &i.regs})
        for (CellId& id : *list) fix(id);
    }
    for (auto& list : code_.lists)
      for (CellId& id : list) fix(id);
    for (Code::LoopVar& loop : code_.loops) fix(loop.cell);
  }

  int new_registers(int count, bool products) {
    const int first = num_registers_;
    num_registers_ += count;
    is_product_operand_.resize(static_cast<size_t>(num_registers_), products);
    return first;
  }

  void declare(const std::string& name, Ty type, int count) {
    const int first = new_registers(count > 0 ? count : 1, product_names_.contains(name));
    scopes_.back()[name] = {type, first, count};
  }

  const Register* find(const std::string& name) {
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope)
      if (const auto it = scope->find(name); it != scope->end()) return &it->second;
    fail("no register `" + name + "` is in scope");
    return nullptr;
  }

  void fail(const std::string& what) {
    if (error_.empty()) error_ = what;
  }

  // ---- statements

  int emit(Op op) {
    op.start = start_;
    op.stmt = stmt_;
    code_.ops.push_back(op);
    return static_cast<int>(code_.ops.size()) - 1;
  }
  int here() const { return static_cast<int>(code_.ops.size()); }

  void begin_statement(const Stmt& stmt) {
    code_.stmts.push_back(&stmt);
    stmt_ = static_cast<int>(code_.stmts.size()) - 1;
    begin_evaluation();
  }
  void begin_evaluation() {
    start_ = here();
    temps_.clear();
    next_temp_ = 0;
    touched_.clear();
  }

  void scope(const Body& statements) {
    scopes_.emplace_back();
    body(statements);
    scopes_.pop_back();
  }
  void body(const Body& statements) {
    for (const Stmt& stmt : statements) statement(stmt);
  }

  void statement(const Stmt& stmt) {
    if (stmt.kind == StmtKind::kComment || !error_.empty()) return;
    begin_statement(stmt);
    switch (stmt.kind) {
      case StmtKind::kDecl: {
        const CellId from = stmt.value.present() ? value(stmt.value) : kNoCell;
        declare(stmt.name, stmt.type, stmt.count);
        const Register& reg = scopes_.back()[stmt.name];
        if (from == kNoCell)
          emit({.kind = OpKind::kForget,
                .ends_statement = true,
                .dst = reg.first,
                .count = stmt.count > 0 ? stmt.count : 1});
        else
          assign(reg.first, from, stmt.type);
        return;
      }
      case StmtKind::kAssign: {
        const CellId from = value(stmt.value);
        CellId to = kNoCell;
        Ty type{};
        registers(stmt.target, [&](CellId id, Ty t) { to = id, type = t; });
        return assign(to, from, type);
      }
      case StmtKind::kInstr:
        return instruction(stmt.instr);
      case StmtKind::kIf:
        return branch(stmt);
      case StmtKind::kFor:
        return for_loop(stmt);
      case StmtKind::kWhile:
        return while_loop(stmt);
      case StmtKind::kComment:
        return;
    }
  }

  void assign(CellId to, CellId from, Ty type) {
    flush_touched();
    emit({.kind = OpKind::kAssign,
          .ends_statement = true,
          .wide = type == Ty::kI64 || type == Ty::kU64,
          .num_in = 1,
          .dst = to,
          .in = {from}});
  }

  void branch(const Stmt& stmt) {
    const CellId condition = value(stmt.value);
    flush_touched();
    const int test = emit({.kind = OpKind::kIf,
                           .ends_statement = true,
                           .uniform = stmt.uniform,
                           .num_in = 1,
                           .in = {condition}});
    const int saved = stmt_;
    scope(stmt.body);
    stmt_ = saved;
    begin_evaluation();
    const int middle = emit({.kind = OpKind::kElse, .ends_statement = true});
    scope(stmt.orelse);
    stmt_ = saved;
    begin_evaluation();
    const int end = emit({.kind = OpKind::kEnd, .ends_statement = true});
    code_.ops[static_cast<size_t>(test)].target = middle + 1;
    code_.ops[static_cast<size_t>(middle)].target = end;
  }

  // Begins a loop; returns where its test starts.
  int enter_loop(const std::string& name, CellId cell) {
    code_.loops.push_back({name, cell});
    emit({.kind = OpKind::kLoop, .list = static_cast<int>(code_.loops.size()) - 1});
    begin_evaluation();
    return here();
  }
  int loop_test(CellId condition, bool uniform) {
    flush_touched();
    return emit({.kind = OpKind::kLoopTest,
                 .ends_statement = true,
                 .uniform = uniform,
                 .num_in = 1,
                 .in = {condition}});
  }
  void leave_loop(int head, int test) {
    emit({.kind = OpKind::kJump, .ends_statement = true, .target = head});
    code_.ops[static_cast<size_t>(test)].target = here();
  }

  void for_loop(const Stmt& stmt) {
    const CellId from = value(stmt.begin);
    scopes_.emplace_back();
    declare(stmt.name, Ty::kI32, 0);
    const CellId i = scopes_.back()[stmt.name].first;
    flush_touched();
    emit({.kind = OpKind::kAssign, .num_in = 1, .dst = i, .in = {from}});
    const int head = enter_loop(stmt.name, i);
    const int test =
        loop_test(pure(Fn::kLt, Ty::kI32, Ty::kPred, {i, value(stmt.end)}), stmt.uniform);
    const int saved = stmt_;
    scope(stmt.body);
    stmt_ = saved;
    begin_evaluation();
    const CellId next = pure(Fn::kAdd, Ty::kI32, Ty::kI32, {i, value(stmt.step)});
    flush_touched();
    emit({.kind = OpKind::kAssign, .num_in = 1, .dst = i, .in = {next}});
    leave_loop(head, test);
    scopes_.pop_back();
  }

  void while_loop(const Stmt& stmt) {
    const int head = enter_loop("", kNoCell);
    const int test = loop_test(value(stmt.value), stmt.uniform);
    const int saved = stmt_;
    scope(stmt.body);
    stmt_ = saved;
    begin_evaluation();
    leave_loop(head, test);
  }

  // ---- instructions

  template <class Each>
  void registers(const RegRef& ref, Each each) {
    const Register* reg = find(ref.name);
    if (reg == nullptr) return;
    if (!ref.first.present()) {
      // A whole array may be named without an index.
      const int count = reg->count > 0 ? ref.count : 1;
      for (int i = 0; i < count; ++i) each(reg->first + i, reg->type);
      return;
    }
    if (ref.first->kind != ValKind::kInt)
      return fail(fmt::format("index of `{}` is not a constant: {}", ref.name, str(ref.first)));
    const int64_t first = ref.first->integer;
    if (first < 0 || first + ref.count > reg->count)
      return fail(fmt::format("`{}[{} +: {}]` is outside its {} registers", ref.name, first,
                              ref.count, reg->count));
    for (int i = 0; i < ref.count; ++i) each(reg->first + static_cast<int>(first) + i, reg->type);
  }

  void instruction(const Instr& instr) {
    InstrCode out;
    out.instr = &instr;
    if (instr.guard.present()) out.guard = value(instr.guard);
    for (const Val& arg : instr.args) out.args.push_back(arg.present() ? value(arg) : kNoCell);
    for (const Val& index : instr.global.index) out.index.push_back(index_value(index));
    for (const RegRef& ref : instr.results)
      registers(ref, [&](CellId id, Ty type) {
        out.results.push_back(id);
        out.result_types.push_back(type);
      });
    for (const RegRef& ref : instr.regs) {
      out.reg_starts.push_back(static_cast<int>(out.regs.size()));
      registers(ref, [&](CellId id, Ty type) {
        out.regs.push_back(id);
        out.reg_types.push_back(type);
      });
    }
    out.reg_starts.push_back(static_cast<int>(out.regs.size()));
    for (const auto* list : {&out.results, &out.regs})
      for (const CellId id : *list)
        out.touches_products |= is_product_operand_[static_cast<size_t>(id)];
    if (!instr.args.empty() && instr.args[0].present()) out.alloc = allocation(instr.args[0]);
    if (!instr.global.tensor.empty())
      out.tensor = index_of(code_.program.tensors, instr.global.tensor);
    if (!instr.map.empty()) out.map = index_of(code_.program.maps, instr.map);
    flush_touched();
    code_.instrs.push_back(std::move(out));
    emit({.kind = OpKind::kInstr,
          .ends_statement = true,
          .instr = static_cast<int>(code_.instrs.size()) - 1});
  }

  template <class List>
  int index_of(const List& list, const std::string& name) {
    for (size_t i = 0; i < list.size(); ++i)
      if (list[i].name == name) return static_cast<int>(i);
    fail("nothing is called `" + name + "`");
    return 0;
  }

  // Global indices are 64 bits wide to the machine.
  CellId index_value(const Val& v) {
    const CellId id = value(v);
    return v.type() == Ty::kI64 ? id : pure(Fn::kCast, v.type(), Ty::kI64, {id});
  }

  // The one shared allocation that an address names, or -1.
  int allocation(const Val& address) {
    std::set<std::string> names;
    const auto visit = [&](const auto& self, const Val& v) -> void {
      if (v->kind == ValKind::kShared) names.insert(v->name);
      for (const Val& arg : v->args) self(self, arg);
    };
    visit(visit, address);
    return names.size() == 1 ? index_of(code_.program.shared, *names.begin()) : -1;
  }

  // ---- expressions

  void flush_touched() {
    if (touched_.empty()) return;
    code_.lists.emplace_back(touched_.begin(), touched_.end());
    emit({.kind = OpKind::kTouch, .list = static_cast<int>(code_.lists.size()) - 1});
    touched_.clear();
  }

  CellId constant(Ty type, int64_t integer, double number) {
    const uint64_t bits = type == Ty::kF32 ? std::bit_cast<uint32_t>(static_cast<float>(number))
                                           : static_cast<uint64_t>(integer);
    const bool wide = type == Ty::kI64 || type == Ty::kU64;
    const auto [it, is_new] = constants_.emplace(std::pair(wide, bits), code_.constants.size());
    if (is_new) {
      Cell cell;
      for (int lane = 0; lane < kLanes; ++lane) {
        if (wide)
          cell.ul[lane] = bits;
        else
          cell.u[lane] = static_cast<uint32_t>(bits);
      }
      code_.constants.push_back(cell);
    }
    return constant_id(it->second);
  }

  CellId parameter(const ValNode& node) {
    if (node.type == Ty::kF32) {
      const auto it = launch_.floats.find(node.name);
      if (it != launch_.floats.end()) return constant(node.type, 0, it->second);
    } else if (const auto it = launch_.ints.find(node.name); it != launch_.ints.end()) {
      return constant(node.type, it->second, 0);
    }
    fail("the launch gives no value for `" + node.name + "`");
    return constant(node.type, 0, 0);
  }

  CellId special(lanes::Special s) {
    switch (s) {
      case lanes::Special::kTid:
        return kTidCell;
      case lanes::Special::kLane:
        return kLaneCell;
      case lanes::Special::kWarp:
        return kWarpCell;
      case lanes::Special::kCtaX:
        return kCtaXCell;
      case lanes::Special::kCtaY:
        return kCtaYCell;
      case lanes::Special::kCtaZ:
        return kCtaZCell;
      case lanes::Special::kGridX:
        return constant(Ty::kI32, code_.grid[0], 0);
      case lanes::Special::kGridY:
        return constant(Ty::kI32, code_.grid[1], 0);
      case lanes::Special::kGridZ:
        return constant(Ty::kI32, code_.grid[2], 0);
      case lanes::Special::kClusterRank:
        return kRankCell;
    }
    return kTidCell;
  }

  CellId shared_address(const std::string& name) {
    const int index = index_of(code_.program.shared, name);
    if (!error_.empty()) return constant(Ty::kU32, 0, 0);
    return constant(Ty::kU32,
                    kWindowStart + code_.program.shared[static_cast<size_t>(index)].offset, 0);
  }

  CellId value(const Val& v) {
    switch (v->kind) {
      case ValKind::kInt:
        return constant(v->type, v->integer, 0);
      case ValKind::kFloat:
        return constant(Ty::kF32, 0, v->number);
      case ValKind::kVar:
      case ValKind::kElem: {
        CellId out = 0;
        const RegRef ref{v->name, v->kind == ValKind::kElem ? v->args[0] : Val(), 1};
        registers(ref, [&](CellId id, Ty) { out = id; });
        if (is_product_operand_[static_cast<size_t>(out)]) touched_.insert(out);
        return out;
      }
      case ValKind::kSpecial:
        return special(v->special);
      case ValKind::kParam:
        return parameter(*v);
      case ValKind::kShared:
        return shared_address(v->name);
      case ValKind::kFn:
        return function(*v);
    }
    return 0;
  }

  CellId function(const ValNode& node) {
    // Shared subexpressions of one statement are computed once.
    if (const auto it = temps_.find(&node); it != temps_.end()) return it->second;
    std::vector<CellId> in;
    in.reserve(node.args.size());
    for (const Val& arg : node.args) in.push_back(value(arg));
    const Ty from = node.args[node.fn == Fn::kSelect ? 1 : 0].type();
    const CellId out = pure(node.fn, from, node.type, in);
    temps_[&node] = out;
    return out;
  }

  CellId pure(Fn f, Ty from, Ty to, const std::vector<CellId>& in) {
    const PureFn apply = pure_fn(f, from, to);
    if (apply == nullptr) {
      fail(fmt::format("no {} from {} to {}", lanes::fn_info(f).name, ty_name(from), ty_name(to)));
      return 0;
    }
    if (next_temp_ == temp_cells_.size()) temp_cells_.push_back(new_registers(1, false));
    Op op{.kind = f == Fn::kSelect ? OpKind::kSelect : OpKind::kPure};
    op.num_in = static_cast<int>(in.size());
    for (size_t i = 0; i < in.size(); ++i) op.in[i] = in[i];
    op.dst = temp_cells_[next_temp_++];
    op.fn = apply;
    emit(op);
    return op.dst;
  }

  Code& code_;
  const Launch& launch_;
  std::string error_;
  std::vector<std::map<std::string, Register, std::less<>>> scopes_;
  std::set<std::string> product_names_;
  std::vector<bool> is_product_operand_;
  std::map<std::pair<bool, uint64_t>, size_t> constants_;
  std::unordered_map<const ValNode*, CellId> temps_;
  std::vector<CellId> temp_cells_;
  size_t next_temp_ = 0;
  std::set<CellId> touched_;
  int num_registers_ = 0;
  int start_ = 0, stmt_ = 0;
};

}  // namespace

Result<Code> compile(const lanes::Program& program, const Launch& launch) {
  Code code;
  code.program = lanes::unrolled(program);
  Env env;
  for (const auto& [name, value] : launch.ints) env[name] = value;
  env["SMS"] = launch.sms;
  const Expr extents[3] = {program.grid_x, program.grid_y, program.grid_z};
  for (int axis = 0; axis < 3; ++axis) {
    const std::optional<int64_t> extent = evaluate(extents[axis], env);
    if (!extent || *extent < 1)
      return Diag{.code = ErrorCode::kEmuSetup,
                  .subject = program.name,
                  .message = "the grid has no extent",
                  .found = extents[axis].str() + (extent ? fmt::format(" = {}", *extent) : "")};
    code.grid[axis] = *extent;
  }
  RT_RETURN_IF_ERROR(Compiler(code, launch).run());
  return code;
}

}  // namespace rooftile::emulate
