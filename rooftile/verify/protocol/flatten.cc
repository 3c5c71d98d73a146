// SPDX-License-Identifier: Apache-2.0
// L2 -> the flat form of flatten.h: which registers matter (a fixpoint over the statements), groups
// of registers that products use, then the operations.
#include "rooftile/verify/protocol/flatten.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>

#include "rooftile/lanes/program_text.h"

namespace rooftile::verify::protocol {
namespace {

using lanes::Body;
using lanes::Fn;
using lanes::Ins;
using lanes::Instr;
using lanes::RegRef;
using lanes::Stmt;
using lanes::StmtKind;
using lanes::Ty;
using lanes::Val;
using lanes::ValKind;

bool local_access(Ins ins) {
  return ins == Ins::kLdShared || ins == Ins::kStShared || ins == Ins::kLdMatrix ||
         ins == Ins::kStMatrix || ins == Ins::kAtomShared;
}

// Instructions that the protocol is made of. The rest moves numbers.
bool is_event(Ins ins) {
  switch (ins) {
    case Ins::kLdGlobal:
    case Ins::kStGlobal:
    case Ins::kRedGlobal:
    case Ins::kAtomGlobal:
    case Ins::kPrefetchL2:
    case Ins::kPrefetchMap:
    case Ins::kMapa:
    case Ins::kElect:
    case Ins::kShflXor:
    case Ins::kShflIdx:
    case Ins::kShflUp:
    case Ins::kVoteAny:
    case Ins::kRedux:
    case Ins::kMmaSync:
    case Ins::kPin:
    case Ins::kFence:
    case Ins::kGridWait:
    case Ins::kGridLaunchNext:
      return false;
    default:
      return true;
  }
}

// How many of the arguments address or steer; the others are coordinates in tensors.
size_t steering_args(const Instr& i) {
  switch (i.ins) {
    case Ins::kTmaStore:
      return 1;
    case Ins::kTmaLoad:
      return 2;
    case Ins::kTmaLoadMulticast:
      return 3;
    case Ins::kCpAsync:
      return 1;
    default:
      return i.args.size();
  }
}

std::string register_name(const std::string& name, int64_t index) {
  return fmt::format("{}[{}]", name, index);
}

class Flattener {
 public:
  Flattener(const lanes::Program& program, Terms& terms) : terms_(terms) {
    out_.program = lanes::unrolled(program);
  }

  Result<Flat> run(const std::vector<Expr>& facts) {
    set_bounds(facts);
    state_facts(facts);
    find_groups(out_.program.body);
    if (out_.program.shared.size() > 64) return refused("more than 64 allocations");
    if (out_.group_names.size() > 64) return refused("more than 64 groups of product registers");
    for (size_t before = ~size_t{0}; before != relevant_.size();) {
      before = relevant_.size();
      mark_body(out_.program.body);
    }
    emit_body(out_.program.body);
    out_.ops.push_back({.kind = OpKind::kExit});
    return std::move(out_);
  }

 private:
  Diag refused(const std::string& why) const {
    Diag diag;
    diag.code = ErrorCode::kLanes;
    diag.subject = out_.program.name;
    diag.message = why;
    return diag;
  }

  // ---- bounds of parameters

  void set_bounds(const std::vector<Expr>& facts) {
    std::set<std::string> dims;
    for (const lanes::TensorUse& t : out_.program.tensors)
      for (const Expr& side : t.shape) collect_symbols(side, dims);
    for (const std::string& name : dims) bound(name, 0, kOpen);
    for (const Expr& fact : facts) learn(fact);
  }
  void bound(const std::string& name, int64_t lo, int64_t hi) {
    Interval& b = bounds_.emplace(name, kAnything).first->second;
    b = {std::max(b.lo, lo), std::min(b.hi, hi)};
  }
  void learn(const Expr& fact) {
    const auto& args = fact.args();
    switch (fact.kind()) {
      case ExprKind::kAnd:
        for (const Expr& arg : args) learn(arg);
        return;
      case ExprKind::kLe:
      case ExprKind::kLt: {
        const int64_t less = fact.kind() == ExprKind::kLt ? 1 : 0;
        if (args[0].is_const() && args[1].kind() == ExprKind::kSym)
          bound(args[1].name(), args[0].value() + less, kOpen);
        if (args[1].is_const() && args[0].kind() == ExprKind::kSym)
          bound(args[0].name(), -kOpen, args[1].value() - less);
        return;
      }
      case ExprKind::kEq:
        for (size_t i = 0; i < 2; ++i)
          if (args[i].is_const() && args[1 - i].kind() == ExprKind::kSym)
            bound(args[1 - i].name(), args[i].value(), args[i].value());
        return;
      default:
        return;
    }
  }
  ValueId parameter(const std::string& name, Ty type) {
    const auto it = bounds_.find(name);
    if (type == Ty::kF32 || it == bounds_.end()) return terms_.symbol(name, type, kAnything);
    if (it->second.lo == it->second.hi) return terms_.constant(it->second.lo);
    return terms_.symbol(name, type, it->second);
  }

  // ---- what holds in every launch, as terms

  std::optional<ValueId> term(const Expr& e) {
    std::vector<ValueId> args;
    for (const Expr& arg : e.args()) {
      const std::optional<ValueId> v = term(arg);
      if (!v) return std::nullopt;
      args.push_back(*v);
    }
    const auto fn = [&](Fn f) { return terms_.fn(f, Ty::kI32, Ty::kI32, args); };
    switch (e.kind()) {
      case ExprKind::kConst:
        return terms_.constant(e.value());
      case ExprKind::kSym:
        for (const lanes::ScalarUse& s : out_.program.scalars)
          if (s.name == e.name()) return parameter(e.name(), s.type);
        return terms_.symbol(e.name(), Ty::kI64, {1, kOpen});  // SMS
      case ExprKind::kAdd:
        return fn(Fn::kAdd);
      case ExprKind::kSub:
        return fn(Fn::kSub);
      case ExprKind::kMul:
        return fn(Fn::kMul);
      case ExprKind::kFloorDiv:
        return fn(Fn::kFloorDiv);
      case ExprKind::kMod:
        return fn(Fn::kFloorMod);
      case ExprKind::kMin:
        return fn(Fn::kMin);
      case ExprKind::kMax:
        return fn(Fn::kMax);
      default:
        return std::nullopt;
    }
  }
  // less + gap <= more
  void state(const Expr& less, const Expr& more, int64_t gap) {
    const std::optional<ValueId> a = term(less), b = term(more);
    if (a && b) out_.facts.push_back(terms_.add(terms_.add(*b, *a, -1), terms_.constant(-gap)));
  }
  // The number of a CTA, or of its cluster, is below that of all of them.
  void state_below(const Expr& count, ValueId number) {
    if (count.kind() == ExprKind::kMin) {
      for (const Expr& arg : count.args()) state_below(arg, number);
    } else if (const std::optional<ValueId> v = term(count)) {
      out_.facts.push_back(terms_.add(terms_.add(*v, number, -1), terms_.constant(-1)));
    }
  }
  void state_facts(const std::vector<Expr>& facts) {
    for (const Expr& fact : facts) {
      if (fact.kind() == ExprKind::kLe) state(fact.args()[0], fact.args()[1], 0);
      if (fact.kind() == ExprKind::kLt) state(fact.args()[0], fact.args()[1], 1);
    }
    const lanes::Program& p = out_.program;
    const Interval natural{0, (int64_t{1} << 31) - 1};
    if (p.cluster == 1) {
      state_below(p.grid_x, terms_.symbol("cta.x", Ty::kI32, natural));
    } else if (p.grid_x.kind() == ExprKind::kMul) {
      for (size_t i = 0; i < 2; ++i)
        if (p.grid_x.args()[i].is_const(p.cluster))
          state_below(p.grid_x.args()[1 - i], terms_.symbol("cluster.x", Ty::kI32, natural));
    }
  }

  // ---- registers of products

  void find_groups(const Body& body) {
    for (const Stmt& s : body) {
      if (s.kind == StmtKind::kInstr && s.instr.ins == Ins::kWgmma)
        for (const RegRef& ref : s.instr.regs) add_group(ref);
      find_groups(s.body);
      find_groups(s.orelse);
    }
  }
  // Runs that overlap are one group.
  void add_group(const RegRef& ref) {
    const int64_t first = ref.first.present() ? ref.first->integer : 0;
    int group = -1;
    for (int64_t i = first; i < first + ref.count; ++i)
      if (const auto it = groups_.find(register_name(ref.name, i)); it != groups_.end())
        group = it->second;
    if (group < 0) {
      group = static_cast<int>(out_.group_names.size());
      out_.group_names.push_back(fmt::format("{}[{} +: {}]", ref.name, first, ref.count));
    }
    for (int64_t i = first; i < first + ref.count; ++i) groups_[register_name(ref.name, i)] = group;
  }
  uint64_t groups_of(const RegRef& ref) const {
    uint64_t out = 0;
    const int64_t first = ref.first.present() ? ref.first->integer : 0;
    for (int64_t i = first; i < first + ref.count; ++i)
      if (const auto it = groups_.find(register_name(ref.name, i)); it != groups_.end())
        out |= uint64_t{1} << it->second;
    return out;
  }
  uint64_t touched(const Val& v) const {
    if (!v.present() || groups_.empty()) return 0;
    uint64_t out = 0;
    if (v->kind == ValKind::kElem) out |= groups_of({v->name, v->args[0], 1});
    for (const Val& arg : v->args) out |= touched(arg);
    return out;
  }
  uint64_t touched(const Stmt& s) const {
    uint64_t out = touched(s.value) | touched(s.begin) | touched(s.end) | touched(s.step);
    if (s.kind == StmtKind::kAssign) out |= groups_of(s.target);
    if (s.kind == StmtKind::kInstr && s.instr.ins != Ins::kPin && s.instr.ins != Ins::kWgmma) {
      for (const RegRef& ref : s.instr.results) out |= groups_of(ref);
      for (const RegRef& ref : s.instr.regs) out |= groups_of(ref);
      for (const Val& v : s.instr.args) out |= touched(v);
      for (const Val& v : s.instr.global.index) out |= touched(v);
      out |= touched(s.instr.guard);
    }
    for (const Body* body : {&s.body, &s.orelse})
      for (const Stmt& inner : *body) out |= touched(inner);
    return out;
  }

  // ---- which registers matter

  bool has_event(const Stmt& s) {
    if (const auto it = event_.find(&s); it != event_.end()) return it->second;
    bool out = (s.kind == StmtKind::kInstr && is_event(s.instr.ins)) || s.kind == StmtKind::kWhile;
    for (const Body* body : {&s.body, &s.orelse})
      for (const Stmt& inner : *body) out = has_event(inner) || out;
    return event_[&s] = out;
  }
  bool only_local(const Body& body) const {
    return std::all_of(body.begin(), body.end(), [&](const Stmt& s) {
      if (s.kind == StmtKind::kWhile) return false;
      if (s.kind == StmtKind::kInstr && is_event(s.instr.ins) && !local_access(s.instr.ins))
        return false;
      return only_local(s.body) && only_local(s.orelse);
    });
  }
  void mark(const Val& v) {
    if (!v.present()) return;
    if (v->kind == ValKind::kVar) relevant_.insert(v->name);
    if (v->kind == ValKind::kElem) relevant_.insert(register_name(v->name, v->args[0]->integer));
    for (const Val& arg : v->args) mark(arg);
  }
  std::string target_of(const RegRef& ref, int64_t offset = 0) const {
    return ref.first.present() ? register_name(ref.name, ref.first->integer + offset) : ref.name;
  }
  bool relevant(const std::string& reg) const { return relevant_.count(reg) > 0; }
  void assigned(const Body& body, std::set<std::string>& out) const {
    for (const Stmt& s : body) {
      if (s.kind == StmtKind::kAssign) out.insert(target_of(s.target));
      if (s.kind == StmtKind::kDecl || s.kind == StmtKind::kFor) out.insert(s.name);
      if (s.kind == StmtKind::kInstr)
        for (const RegRef& ref : s.instr.results)
          for (int i = 0; i < ref.count; ++i) out.insert(target_of(ref, i));
      assigned(s.body, out);
      assigned(s.orelse, out);
    }
  }
  bool steers(const Stmt& s) {
    if (has_event(s)) return true;
    std::set<std::string> names;
    assigned({s}, names);
    return std::any_of(names.begin(), names.end(), [&](const auto& n) { return relevant(n); });
  }
  void mark_body(const Body& body) {
    for (const Stmt& s : body) mark_stmt(s);
  }
  void mark_stmt(const Stmt& s) {
    switch (s.kind) {
      case StmtKind::kDecl:
        if (s.count == 0 && relevant(s.name)) mark(s.value);
        return;
      case StmtKind::kAssign:
        if (relevant(target_of(s.target))) mark(s.value);
        return;
      case StmtKind::kInstr:
        return mark_instr(s.instr);
      case StmtKind::kIf:
      case StmtKind::kFor:
        if (!steers(s)) return;
        for (const Val* v : {&s.value, &s.begin, &s.end, &s.step}) mark(*v);
        mark_body(s.body);
        return mark_body(s.orelse);
      default:
        return;
    }
  }
  void mark_instr(const Instr& i) {
    bool wanted = is_event(i.ins);
    for (const RegRef& ref : i.results)
      for (int k = 0; k < ref.count; ++k) wanted = wanted || relevant(target_of(ref, k));
    if (!wanted) return;
    mark(i.guard);
    const size_t args = is_event(i.ins) ? steering_args(i) : i.args.size();
    for (size_t a = 0; a < args; ++a) mark(i.args[a]);
    if (i.ins == Ins::kLdGlobal)
      for (const Val& v : i.global.index) mark(v);
    if (i.ins == Ins::kShflIdx)
      for (const RegRef& ref : i.regs) relevant_.insert(target_of(ref));
  }

  // ---- expressions

  NodeId add(Node n) {
    out_.nodes.push_back(std::move(n));
    return static_cast<NodeId>(out_.nodes.size() - 1);
  }
  int slot(const std::string& reg) {
    const auto [it, is_new] = slots_.emplace(reg, static_cast<int>(out_.slot_names.size()));
    if (is_new) out_.slot_names.push_back(reg);
    return it->second;
  }
  NodeId node(const Val& v) {
    if (!v.present()) return kNoNode;
    if (const auto it = node_of_.find(&*v); it != node_of_.end()) return it->second;
    return node_of_[&*v] = add(make_node(v));
  }
  Node make_node(const Val& v) {
    Node n;
    n.type = v.type();
    n.kind = Node::kValue;
    switch (v->kind) {
      case ValKind::kInt:
        n.value = terms_.constant(v->integer);
        return n;
      case ValKind::kFloat:
        n.value = terms_.float_constant(v->number);
        return n;
      case ValKind::kParam:
        n.value = parameter(v->name, v.type());
        return n;
      case ValKind::kShared:
        for (size_t a = 0; a < out_.program.shared.size(); ++a)
          if (out_.program.shared[a].name == v->name) n.allocation = static_cast<int>(a);
        n.value = terms_.constant(kWindow +
                                  out_.program.shared[static_cast<size_t>(n.allocation)].offset);
        return n;
      case ValKind::kVar:
      case ValKind::kElem: {
        const std::string reg =
            v->kind == ValKind::kVar ? v->name : register_name(v->name, v->args[0]->integer);
        n.kind = relevant(reg) ? Node::kSlot : Node::kUnknown;
        if (n.kind == Node::kSlot) n.slot = slot(reg);
        return n;
      }
      case ValKind::kSpecial:
        n.kind = Node::kSpecial;
        n.special = v->special;
        return n;
      case ValKind::kFn:
        n.kind = Node::kFn;
        n.fn = v->fn;
        n.from = v->args[v->fn == Fn::kSelect ? 1 : 0].type();
        for (const Val& arg : v->args) n.args.push_back(node(arg));
        return n;
    }
    return n;
  }
  // ---- operations

  Op& emit(OpKind kind, const Stmt* stmt) {
    Op op;
    op.kind = kind;
    op.stmt = stmt;
    out_.ops.push_back(std::move(op));
    return out_.ops.back();
  }
  int here() const { return static_cast<int>(out_.ops.size()); }
  void touch(const Stmt& s) {
    const uint64_t groups = touched(s);
    if (groups == 0) return;
    if (!out_.ops.empty() && out_.ops.back().kind == OpKind::kTouch && label_ != here()) {
      out_.ops.back().touched |= groups;
      return;
    }
    emit(OpKind::kTouch, &s).touched = groups;
  }
  void forget(std::vector<int> slots, const Stmt& s) {
    if (!slots.empty()) emit(OpKind::kForget, &s).slots = std::move(slots);
  }

  void emit_body(const Body& body) {
    std::vector<int> declared;
    for (const Stmt& s : body) {
      emit_stmt(s);
      if (s.kind == StmtKind::kDecl && s.count == 0 && relevant(s.name))
        declared.push_back(slot(s.name));
    }
    if (!declared.empty() && &body != &out_.program.body)
      emit(OpKind::kUndeclare, &body.back()).slots = std::move(declared);
  }

  void emit_stmt(const Stmt& s) {
    switch (s.kind) {
      case StmtKind::kComment:
        return;
      case StmtKind::kDecl:
        if (s.value.present()) touch(s);
        if (s.count == 0 && s.value.present() && relevant(s.name)) emit_assign(s, s.name, s.value);
        return;
      case StmtKind::kAssign:
        touch(s);
        if (relevant(target_of(s.target))) emit_assign(s, target_of(s.target), s.value);
        return;
      case StmtKind::kInstr:
        return emit_instr(s);
      case StmtKind::kWhile: {
        emit(OpKind::kRefuse, &s).why = "a loop whose end only its body knows";
        return;
      }
      default:
        break;
    }
    if (!steers(s)) return touch(s);
    if (s.kind == StmtKind::kIf) return emit_if(s);
    emit_for(s);
  }
  void emit_assign(const Stmt& s, const std::string& reg, const Val& v) {
    const NodeId n = node(v);
    Op& op = emit(OpKind::kAssign, &s);
    op.slot = slot(reg);
    op.node = n;
  }

  // Whether an `if` does nothing but give registers other values, which its condition does not
  // read.
  bool only_assigns(const Stmt& s) const {
    if (!s.uniform || !s.orelse.empty()) return false;
    std::set<std::string> given;
    for (const Stmt& inner : s.body) {
      const bool scalar = inner.kind == StmtKind::kDecl ? inner.count == 0 && inner.value.present()
                                                        : inner.kind == StmtKind::kAssign;
      if (!scalar) return false;
      if (inner.kind == StmtKind::kAssign) given.insert(target_of(inner.target));
    }
    const std::function<bool(const Val&)> reads = [&](const Val& v) {
      if (v->kind == ValKind::kElem) return true;
      if (v->kind == ValKind::kVar) return given.count(v->name) > 0;
      return std::any_of(v->args.begin(), v->args.end(), reads);
    };
    return !reads(s.value);
  }
  void emit_selects(const Stmt& s) {
    touch(s);
    for (const Stmt& inner : s.body) {
      const std::string reg = inner.kind == StmtKind::kDecl ? inner.name : target_of(inner.target);
      if (!relevant(reg)) continue;
      Val value = inner.value;
      if (inner.kind == StmtKind::kAssign) {
        const Val before = inner.target.first.present()
                               ? lanes::elem(value.type(), inner.target.name, inner.target.first)
                               : lanes::var(value.type(), reg);
        value = kept_.emplace_back(lanes::select(s.value, value, before));
      }
      emit_assign(inner, reg, value);
    }
  }

  // An `if` without events is a choice of values: its registers are selected, not branched on.
  void emit_if(const Stmt& s) {
    if (only_assigns(s)) return emit_selects(s);
    const NodeId condition = node(s.value);
    const int at = here();
    Op& op = emit(OpKind::kIf, &s);
    op.node = condition;
    op.uniform = s.uniform;
    op.local = only_local(s.body) && only_local(s.orelse);
    op.touched = touched(s.value);
    if (!has_event(s)) {
      op.slots = written_slots(s);
      op.touched = touched(s);  // it may be passed over as a whole
    }
    emit_body(s.body);
    int end = here();
    if (!s.orelse.empty()) {
      Op& otherwise = emit(OpKind::kElse, &s);
      otherwise.uniform = s.uniform;
      otherwise.local = only_local(s.body) && only_local(s.orelse);
      out_.ops[static_cast<size_t>(at)].target = here();
      label_ = here();
      emit_body(s.orelse);
      out_.ops[static_cast<size_t>(end)].target = here();
    } else {
      out_.ops[static_cast<size_t>(at)].target = here();
    }
    out_.ops[static_cast<size_t>(at)].loop = here();  // where a skipped one goes on: its kEnd
    emit(OpKind::kEnd, &s);
  }
  // Whether rounds of a loop differ in its variable alone.
  bool keeps_registers(const Stmt& s) const {
    std::set<std::string> names, declared;
    assigned(s.body, names);
    declared_in(s.body, declared);
    return std::none_of(names.begin(), names.end(), [&](const std::string& n) {
      return relevant(n) && declared.count(n) == 0;
    });
  }
  static void declared_in(const Body& body, std::set<std::string>& out) {
    for (const Stmt& s : body) {
      if (s.kind == StmtKind::kDecl || s.kind == StmtKind::kFor) out.insert(s.name);
      declared_in(s.body, out);
      declared_in(s.orelse, out);
    }
  }
  std::vector<int> written_slots(const Stmt& s) {
    std::set<std::string> names;
    assigned({s}, names);
    std::vector<int> out;
    for (const std::string& n : names)
      if (relevant(n)) out.push_back(slot(n));
    return out;
  }

  void emit_for(const Stmt& s) {
    const NodeId begin = node(s.begin), end = node(s.end), step = node(s.step);
    relevant_.insert(s.name);
    Op& op = emit(OpKind::kLoop, &s);
    op.slot = slot(s.name);
    op.begin = begin;
    op.end = end;
    op.step = step;
    op.loop = out_.num_loops++;
    op.local = only_local(s.body) && keeps_registers(s);
    const int start = here() - 1;
    if (!has_event(s)) op.slots = written_slots(s);
    op.touched = has_event(s) ? 0 : touched(s);
    const int test = here();
    label_ = test;
    emit(OpKind::kLoopTest, &s).loop = start;
    emit_body(s.body);
    Op& next = emit(OpKind::kLoopNext, &s);
    next.target = test;
    next.loop = start;
    out_.ops[static_cast<size_t>(test)].target = here();
    out_.ops[static_cast<size_t>(start)].target = here();
    label_ = here();
  }

  void emit_instr(const Stmt& s) {
    const Instr& i = s.instr;
    if (i.ins != Ins::kWgmma) touch(s);
    if (!is_event(i.ins)) return emit_result(s);
    std::vector<NodeId> args;
    for (size_t a = 0; a < steering_args(i); ++a) args.push_back(node(i.args[a]));
    const NodeId guard = node(i.guard);
    Op& op = emit(OpKind::kInstr, &s);
    op.args = std::move(args);
    op.guard = guard;
    const lanes::InsInfo& info = lanes::ins_info(i.ins);
    const bool shared = ((info.reads | info.writes) & (lanes::kShared | lanes::kPeer)) != 0;
    out_.async_shared |= shared && info.proxy == lanes::Proxy::kAsync;
    if (i.ins == Ins::kWgmma) {
      op.sums = groups_of(i.regs[0]);
      if (i.regs.size() > 1) op.fragments = groups_of(i.regs[1]);
    }
    for (const RegRef& ref : i.results)
      for (int k = 0; k < ref.count; ++k)
        if (relevant(target_of(ref, k))) op.slots.push_back(slot(target_of(ref, k)));
  }

  // Results that steer: of elect, mapa, and of loads of single elements; anything else is unknown.
  void emit_result(const Stmt& s) {
    const Instr& i = s.instr;
    std::vector<int> slots;
    for (const RegRef& ref : i.results)
      for (int k = 0; k < ref.count; ++k)
        if (relevant(target_of(ref, k))) slots.push_back(slot(target_of(ref, k)));
    if (slots.empty()) return;
    const bool readable = i.ins == Ins::kLdGlobal && i.results.size() == 1 &&
                          i.results[0].count == 1 && i.global.width == 1 &&
                          constant(i.global.tensor);
    const bool exchange = i.ins == Ins::kElect || i.ins == Ins::kMapa || i.ins == Ins::kShflIdx;
    if (!readable && !exchange) return forget(std::move(slots), s);
    std::vector<NodeId> args;
    for (const Val& v : i.ins == Ins::kLdGlobal ? i.global.index : i.args) args.push_back(node(v));
    const NodeId guard = node(i.guard);
    const NodeId source =
        i.ins == Ins::kShflIdx ? node(kept_.emplace_back(register_value(i.regs[0]))) : kNoNode;
    Op& op = emit(OpKind::kLoad, &s);
    op.args = std::move(args);
    op.guard = guard;
    op.node = source;
    op.slot = slots[0];
  }
  static Val register_value(const RegRef& ref) {
    return ref.first.present() ? lanes::elem(Ty::kI32, ref.name, ref.first)
                               : lanes::var(Ty::kI32, ref.name);
  }
  // Whether the elements stay what they are while the kernel runs: launchers refuse outputs that
  // overlap other arguments.
  bool constant(const std::string& tensor) const {
    for (const lanes::TensorUse& t : out_.program.tensors)
      if (t.name == tensor) return !t.written;
    return false;
  }

  Terms& terms_;
  Flat out_;
  std::map<std::string, Interval> bounds_;
  std::set<std::string> relevant_;
  std::map<std::string, int> groups_, slots_;
  std::unordered_map<const Stmt*, bool> event_;
  std::unordered_map<const lanes::ValNode*, NodeId> node_of_;
  std::vector<Val> kept_;  // so that node_of_ never meets the address of one that is gone
  int label_ = -1;  // an operation that jumps lead to: nothing is merged into what stands before it
};

}  // namespace

Result<Flat> flatten(const lanes::Program& program, const std::vector<Expr>& facts, Terms& terms) {
  return Flattener(program, terms).run(facts);
}

}  // namespace rooftile::verify::protocol
