// SPDX-License-Identifier: Apache-2.0
// Running warps: expressions, branches, and what all instructions have in common.
#include "rooftile/verify/protocol/machine.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "rooftile/lanes/program_text.h"

namespace rooftile::verify::protocol {
namespace {

using lanes::Fn;
using lanes::Ins;
using lanes::Special;
using lanes::Ty;

// Whichever lane elect.sync chooses is not the one that code names (lane 0): nothing may depend on
// the two being the same.
constexpr int kElected = 13;
constexpr int kRegisterFile = 65536, kMostRegisters = 255;

int launch_registers(const lanes::Program& p) {
  const int share = kRegisterFile / (p.threads * std::max(1, p.min_ctas_per_sm));
  return std::min(kMostRegisters / 8 * 8, share / 8 * 8);
}

}  // namespace

Machine::Machine(const Flat& flat, Terms& terms)
    : flat_(flat),
      live_(liveness(flat)),
      terms_(terms),
      warps_a_cta_(flat.program.threads / kLanes),
      ctas_(flat.program.cluster) {
  for (const lanes::SharedAlloc& a : flat.program.shared)
    for (int64_t at = 0; a.barriers && at + 8 <= a.bytes; at += 8)
      barrier_offsets_.push_back(a.offset + at);
  num_mbarriers_ = static_cast<int>(barrier_offsets_.size()) * ctas_;
  first_named_ = num_mbarriers_;
  num_agents_ = 2 * warps_a_cta_ * ctas_;
  enters_.resize(static_cast<size_t>(int64_t{warps_a_cta_} * ctas_));
  specials_.resize(enters_.size());
  for (size_t pc = 0; pc < flat.ops.size(); ++pc)
    for (size_t op = 0; op < flat.ops.size(); ++op)
      if (flat.ops[op].kind == OpKind::kInstr &&
          flat.ops[op].stmt->instr.ins == Ins::kRedGlobalRelease &&
          has_bit(live_.reaches[pc], op)) {
        if (adding_.empty()) adding_.resize(flat.ops.size() / 64 + 1);
        adding_[pc / 64] |= uint64_t{1} << (pc % 64);
      }
  last_calls_.resize(flat.nodes.size() * enters_.size());
}

State Machine::start() const {
  State s;
  const lanes::Program& p = flat_.program;
  s.warps.resize(static_cast<size_t>(int64_t{warps_a_cta_} * ctas_));
  for (Warp& w : s.warps) {
    w.slots.assign(flat_.slot_names.size(), kNothing);
    w.registers = launch_registers(p);
  }
  s.barriers.resize(static_cast<size_t>(num_mbarriers_));
  s.named.resize(static_cast<size_t>(int64_t{16} * ctas_));
  s.initialised.assign(static_cast<size_t>(ctas_), 0);
  s.free_registers.assign(
      static_cast<size_t>(ctas_),
      kRegisterFile / std::max(1, p.min_ctas_per_sm) - launch_registers(p) * p.threads);
  return s;
}

bool Machine::finished(const State& state) const {
  return std::all_of(state.warps.begin(), state.warps.end(), [](const Warp& w) { return w.done; });
}

// Whether a warp stands at an earlier step than another, of the outermost loop in which they
// differ. Loops are one where they walk the same numbers; of others there is no order.
bool Machine::behind(const Warp& a, const Warp& b) {
  const auto next = [](const Warp& w, size_t i) {
    while (i < w.frames.size() && w.frames[i].loop < 0) ++i;
    return i;
  };
  for (size_t i = next(a, 0), j = next(b, 0); i < a.frames.size() && j < b.frames.size();
       i = next(a, i + 1), j = next(b, j + 1)) {
    if (a.frames[i].loop != b.frames[j].loop) return false;
    if (a.frames[i].index != b.frames[j].index) return a.frames[i].index < b.frames[j].index;
  }
  return false;
}

// A decision is asked for only when nobody can do without, and of those who ask the last comes
// first: warps then stand as close together as they can, and states are few. (Who walks ahead past
// steps in which it has nothing to do would leave a decision a step to be remembered.)
Request Machine::run(State& state) {
  s_ = &state;
  facts_.clear();
  now_ = &follows_[state.decided];
  for (const ValueId f : flat_.facts) facts_.emplace_back(f, kNoAtom);
  for (const auto& [atom, yes] : state.decided) add_fact(atom, yes);
  if (num_agents_ > kMaxAgents)
    throw Refusal{fmt::format("{} warps are more than are modelled", state.warps.size())};
  // Who waits for a decision waits until the end of this run, whatever others do.
  std::vector<Request> requests(state.warps.size());
  for (bool moved = true; moved;) {
    moved = false;
    for (size_t w = 0; w < state.warps.size(); ++w) {
      if (state.warps[w].done || requests[w].present()) continue;
      moved = advance(static_cast<int>(w)) || moved;
      requests[w] = request_;
    }
  }
  Request shared, own, ticket;
  const Warp* last = nullptr;  // of those who share a decision; who adds to tickets asks first
  bool adder_asks = false;
  for (size_t w = 0; w < state.warps.size(); ++w) {
    const Request& request = requests[w];
    if (state.warps[w].done || !request.present()) continue;
    const bool adds = !request.ticket && adds_from(state.warps[w].pc);
    if (request.ticket) {
      if (!ticket.present()) ticket = request;
    } else if (request.leaf == kNoAtom) {
      if (!own.present() || (adds && !adds_from(state.warps[static_cast<size_t>(own.warp)].pc)))
        own = request;
    } else if (last == nullptr || (adds == adder_asks ? behind(state.warps[w], *last) : adds)) {
      shared = request;
      last = &state.warps[w];
      adder_asks = adds;
    }
  }
  if (ticket.present()) {
    const int hindmost = hindmost_waiting(state);
    if (hindmost >= 0) {
      ticket.warp = hindmost;
      return ticket;
    }
    if (!shared.present() && !own.present())
      throw Fault{Kind::kNoDeadlock,
                  "a ticket is waited for while who is to add to one before is held up",
                  ticket.warp, state.warps[static_cast<size_t>(ticket.warp)].pc};
  }
  return shared.present() ? shared : own;
}

bool Machine::adds_from(int pc) const {
  return !adding_.empty() && has_bit(adding_, static_cast<size_t>(pc));
}

// What a ticket counts comes from CTAs that may wait for tickets themselves: of lower numbers, and
// of earlier rounds (docs/decisions/0004-proofs.md, "Parts"). That all of them end needs of this
// CTA that nobody is held up who has yet to add in an earlier round than any that waits: of those
// who add, the hindmost waits itself. Where it stands for another reason, the copies may go on.
int Machine::hindmost_waiting(const State& state) const {
  const auto round = [](const Warp& w) -> const Frame* {
    for (const Frame& f : w.frames)
      if (f.kind == Frame::kUndecided) return f.loop >= 0 ? &f : nullptr;
    return nullptr;
  };
  const Frame* hindmost = nullptr;
  int waiting = -1;
  for (size_t w = 0; w < state.warps.size(); ++w) {
    const Warp& warp = state.warps[w];
    const Op& op = flat_.ops[static_cast<size_t>(warp.pc)];
    const bool waits = op.kind == OpKind::kInstr && op.stmt->instr.ins == Ins::kWaitGlobal;
    if (warp.done || (!waits && !adds_from(warp.pc))) continue;
    const Frame* here = round(warp);
    if (here == nullptr || (hindmost != nullptr && here->loop != hindmost->loop))
      throw Refusal{"rounds of those who add to tickets cannot be compared", warp.pc};
    if (hindmost != nullptr && here->index > hindmost->index) continue;
    if (hindmost == nullptr || here->index < hindmost->index) waiting = -1;
    hindmost = here;
    if (waits) waiting = static_cast<int>(w);
  }
  return waiting;
}

void Machine::answer(State& state, const Request& request, bool yes) {
  if (request.leaf == kNoAtom) {
    state.warps[static_cast<size_t>(request.warp)].answer = yes ? 1 : 0;
    return;
  }
  const auto entry = std::pair(request.leaf, yes);
  state.decided.insert(std::lower_bound(state.decided.begin(), state.decided.end(), entry), entry);
}

// Runs a warp's operations until it waits; false: it could not move.
bool Machine::advance(int w) {
  running_ = w;
  bool moved = false;
  while (!s_->warps[static_cast<size_t>(w)].done) {
    const int pc = s_->warps[static_cast<size_t>(w)].pc;
    const Op& op = flat_.ops[static_cast<size_t>(pc)];
    request_ = {};
    if (step(w, op) == Progress::kWait) return moved;
    moved = true;
  }
  return moved;
}

Machine::Progress Machine::step(int w, const Op& op) {
  Warp& warp = s_->warps[static_cast<size_t>(w)];
  switch (op.kind) {
    case OpKind::kAssign:
      assign(w, op.slot, eval(w, op.node));
      break;
    case OpKind::kLoad:
      load(w, op);
      break;
    case OpKind::kTouch:
      touch(w, op);
      break;
    case OpKind::kForget:
      for (const int slot : op.slots) warp.slots[static_cast<size_t>(slot)] = kUnknownValue;
      break;
    case OpKind::kUndeclare:
      for (const int slot : op.slots) warp.slots[static_cast<size_t>(slot)] = kNothing;
      break;
    case OpKind::kIf:
      return branch(w, op);
    case OpKind::kElse: {
      Frame& frame = warp.frames.back();
      const uint32_t rest = static_cast<uint32_t>(frame.index);
      if (rest == 0) {
        warp.pc = op.target;
        return Progress::kOn;
      }
      warp.mask = rest;
      frame.index = 0;
      break;
    }
    case OpKind::kEnd:
      warp.mask = warp.frames.back().saved;
      warp.may = warp.frames.back().saved_may;
      warp.frames.pop_back();
      break;
    case OpKind::kLoop:
      return enter_loop(w, op);
    case OpKind::kLoopTest:
      return test_loop(w, op);
    case OpKind::kLoopNext:
      next_round(w, op);
      return Progress::kOn;
    case OpKind::kInstr:
      if (instruction(w, op) == Progress::kWait) return Progress::kWait;
      break;
    case OpKind::kExit:
      finish_warp(w);
      return Progress::kOn;
    case OpKind::kRefuse:
      refuse(op, op.why);
  }
  ++warp.pc;
  return Progress::kOn;
}

// ---- expressions

ValueId Machine::special(int w, Special s) {
  auto& known = specials_[static_cast<size_t>(w)];
  if (const auto it = known.find(s); it != known.end()) return it->second;
  const int rank = cta_of(w), in_cta = w % warps_a_cta_;
  const Interval natural{0, (int64_t{1} << 31) - 1}, positive{1, natural.hi};
  ValueId v = kUnknownValue;
  switch (s) {
    case Special::kTid:
    case Special::kLane: {
      std::array<int64_t, kLanes> lane{};
      for (int l = 0; l < kLanes; ++l)
        lane[static_cast<size_t>(l)] = l + (s == Special::kTid ? in_cta * kLanes : 0);
      v = terms_.of_lanes(lane);
      break;
    }
    case Special::kWarp:
      v = terms_.constant(in_cta);
      break;
    case Special::kClusterRank:
      v = terms_.constant(rank);
      break;
    case Special::kCtaX:  // clusters lie along x
      v = ctas_ == 1
              ? terms_.symbol("cta.x", Ty::kI32, natural)
              : terms_.add(terms_.scaled(terms_.symbol("cluster.x", Ty::kI32, natural), ctas_),
                           terms_.constant(rank));
      break;
    case Special::kGridX:
      v = ctas_ == 1 ? terms_.symbol("grid.x", Ty::kI32, positive)
                     : terms_.scaled(terms_.symbol("clusters", Ty::kI32, positive), ctas_);
      break;
    case Special::kCtaY:
    case Special::kCtaZ:
      v = terms_.symbol(s == Special::kCtaY ? "cta.y" : "cta.z", Ty::kI32, natural);
      break;
    case Special::kGridY:
    case Special::kGridZ:
      v = terms_.symbol(s == Special::kGridY ? "grid.y" : "grid.z", Ty::kI32, positive);
      break;
  }
  return known[s] = v;
}

ValueId Machine::eval(int w, NodeId id) {
  const Node& n = flat_.nodes[static_cast<size_t>(id)];
  switch (n.kind) {
    case Node::kValue:
      return n.value;
    case Node::kSlot:
      return s_->warps[static_cast<size_t>(w)].slots[static_cast<size_t>(n.slot)];
    case Node::kSpecial:
      return special(w, n.special);
    case Node::kFn: {
      LastCall call;
      for (size_t i = 0; i < n.args.size(); ++i) call.args[i] = eval(w, n.args[i]);
      const auto at = static_cast<size_t>(id) * s_->warps.size() + static_cast<size_t>(w);
      LastCall& last = last_calls_[at];
      if (last.out >= 0 && last.args == call.args) return last.out;
      call.out = terms_.fn(
          n.fn, n.type, n.from,
          {call.args.begin(), call.args.begin() + static_cast<std::ptrdiff_t>(n.args.size())});
      last_calls_[at] = call;
      return call.out;
    }
    case Node::kUnknown:
      break;
  }
  return kUnknownValue;
}

void Machine::assign(int w, int slot, ValueId v) {
  Warp& warp = s_->warps[static_cast<size_t>(w)];
  ValueId& to = warp.slots[static_cast<size_t>(slot)];
  to = warp.may ? kUnknownValue : terms_.merged(warp.mask, v, to);
}

// A result that is a function of what the cluster knows: an element of a tensor that nobody writes,
// the elected lane, an address in a peer, a lane's number told to all.
void Machine::load(int w, const Op& op) {
  Warp& warp = s_->warps[static_cast<size_t>(w)];
  const lanes::Instr& i = op.stmt->instr;
  ValueId out = kUnknownValue;
  switch (i.ins) {
    case Ins::kElect: {
      std::array<int64_t, kLanes> lane{};
      lane[kElected] = 1;
      out = terms_.of_lanes(lane);
      break;
    }
    case Ins::kMapa: {
      const ValueId address = eval(w, op.args[0]), rank = eval(w, op.args[1]);
      if (terms_.known(rank, warp.mask))
        out = terms_.add(
            address, terms_.scaled(terms_.add(rank, terms_.constant(1)), int64_t{1} << kRankShift));
      break;
    }
    case Ins::kShflIdx:
      if (const ValueId v = eval(w, op.node); terms_.uniform(v)) out = v;
      break;
    default: {
      std::vector<ValueId> index;
      bool uniform = true;
      for (const NodeId n : op.args) {
        index.push_back(eval(w, n));
        uniform = uniform && terms_.uniform(index.back());
      }
      const Ty type = i.dtype == DType::kI64 ? Ty::kI64 : Ty::kI32;
      if (uniform) out = terms_.load(i.global.tensor, type, std::move(index), kAnything);
    }
  }
  if (op.guard != kNoNode)
    out = terms_.fn(Fn::kSelect, Ty::kI64, Ty::kI64,
                    {eval(w, op.guard), out, warp.slots[static_cast<size_t>(op.slot)]});
  assign(w, op.slot, out);
}

// ---- branches

Machine::Progress Machine::branch(int w, const Op& op) {
  Warp& warp = s_->warps[static_cast<size_t>(w)];
  touch(w, op);
  const ValueId condition = eval(w, op.node);
  const bool eventless = !op.slots.empty();
  uint32_t yes = 0, open = 0;
  const Value& v = terms_.value(condition);
  if (v.sum != kNoSum) {
    const Request before = request_;
    const Truth t = truth(condition);
    if (t == Truth::kUndecided && !eventless) return Progress::kWait;
    request_ = before;
    (t == Truth::kUndecided ? open : yes) = t == Truth::kNo ? 0 : warp.mask;
  } else {
    open = v.unknown & warp.mask;
    for (int l = 0; l < kLanes; ++l)
      if (v.lane[static_cast<size_t>(l)] != 0) yes |= 1u << l;
    yes &= warp.mask & ~open;
  }
  if (open != 0 && eventless) {
    for (const int slot : op.slots) warp.slots[static_cast<size_t>(slot)] = kUnknownValue;
    warp.pc = op.loop + 1;
    return Progress::kOn;
  }
  if (open != 0 && !op.local) {
    if (open != warp.mask || (!op.uniform && !std::has_single_bit(open)))
      refuse(op, "lanes may take a branch apart that has more in it than accesses to memory");
    if (warp.answer < 0) {
      request_.warp = w;
      return Progress::kWait;
    }
    if (warp.answer == 1) yes = open;
    warp.answer = -1;
    open = 0;
  }
  const uint32_t then = yes | open, rest = (warp.mask & ~yes) | open;
  if (op.uniform && then != 0 && rest != 0 && open == 0)
    fault(Kind::kUniform, {w, op, op.stmt->instr, warp.mask, false},
          "a condition that is stated to be uniform differs between lanes");
  Frame frame;
  frame.saved = warp.mask;
  frame.saved_may = warp.may;
  frame.index = static_cast<int64_t>(rest);
  warp.may = warp.may || open != 0;
  const bool has_else = op.target <= op.loop && !op.stmt->orelse.empty();
  if (then != 0) {
    warp.mask = then;
    ++warp.pc;
  } else {
    if (has_else) {
      warp.mask = rest;
      frame.index = 0;
    }
    warp.pc = op.target;
  }
  warp.frames.push_back(frame);
  return Progress::kOn;
}

// ---- instructions: what all have in common

Machine::Progress Machine::instruction(int w, const Op& op) {
  Warp& warp = s_->warps[static_cast<size_t>(w)];
  const lanes::Instr& i = op.stmt->instr;
  uint32_t mask = warp.mask;
  bool may = warp.may;
  const auto [reads, writes] =
      std::pair(lanes::ins_info(i.ins).reads, lanes::ins_info(i.ins).writes);
  const bool plain = ((reads | writes) & lanes::kShared) != 0 && i.ins != Ins::kWgmma &&
                     i.ins != Ins::kTmaLoad && i.ins != Ins::kBulkLoad && i.ins != Ins::kTmaStore;
  if (op.guard != kNoNode) {
    const ValueId guard = eval(w, op.guard);
    const Value& g = terms_.value(guard);
    if (g.sum != kNoSum) {
      const Request before = request_;
      const Truth t = truth(guard);
      if (t == Truth::kUndecided && !plain) return Progress::kWait;
      request_ = before;
      if (t == Truth::kNo) mask = 0;
      may = may || t == Truth::kUndecided;
    } else {
      for (int l = 0; l < kLanes; ++l)
        if (g.lane[static_cast<size_t>(l)] == 0 && (g.unknown >> l & 1) == 0) mask &= ~(1u << l);
      may = may || (g.unknown & mask) != 0;
      if ((g.unknown & mask) != 0 && !plain) refuse(op, "a guard of an event is not known");
    }
  }
  if (mask == 0) return Progress::kOn;
  if (may && !plain) refuse(op, "an event is perhaps not executed");
  const At at{w, op, i, mask, may};
  if (lanes::ins_info(i.ins).who != lanes::Who::kThread &&
      lanes::ins_info(i.ins).who != lanes::Who::kCluster && mask != kAllLanes)
    fault(Kind::kUniform, at,
          fmt::format("{} is executed by a part of a warp", lanes::ins_info(i.ins).name));
  switch (i.ins) {
    case Ins::kLdShared:
    case Ins::kStShared:
    case Ins::kAtomShared:
    case Ins::kLdMatrix:
    case Ins::kStMatrix:
      exec_shared(at);
      return Progress::kOn;
    case Ins::kSyncThreads:
    case Ins::kNamedSync:
    case Ins::kNamedArrive:
    case Ins::kSyncWarp:
    case Ins::kClusterArrive:
    case Ins::kClusterArriveRelease:
    case Ins::kClusterWait:
      return exec_meeting(at);
    case Ins::kWaitGlobal:
      return wait_for_ticket(at);
    case Ins::kRedGlobalRelease:  // what it tells others is in verify/lanes/meets.h
      return Progress::kOn;
    case Ins::kWgmmaWait:
      return wait_products(at);
    case Ins::kWgmma:
    case Ins::kWgmmaFence:
    case Ins::kWgmmaCommit:
      product(at);
      return Progress::kOn;
    case Ins::kRegsInc:
    case Ins::kRegsDec:
      return registers(at);
    default:
      break;
  }
  if (i.ins >= Ins::kBarInit && i.ins <= Ins::kProxyFence) return exec_barrier(at);
  exec_copy(at);
  return Progress::kOn;
}

// It ends once the others have come, whatever happens here.
Machine::Progress Machine::wait_for_ticket(const At& at) {
  Warp& warp = s_->warps[static_cast<size_t>(at.w)];
  if (warp.answer < 0) {
    request_.warp = at.w;
    request_.ticket = true;
    return Progress::kWait;
  }
  warp.answer = -1;
  return Progress::kOn;
}

int64_t Machine::lane_number(const At& at, size_t arg, int lane) {
  const ValueId v = eval(at.w, at.op.args[arg]);
  if (!terms_.known(v, 1u << lane))
    refuse(at.op, fmt::format("operand {} of {} is not known: {}", arg,
                              lanes::ins_info(at.instr.ins).name, terms_.text(v)));
  return terms_.value(v).lane[static_cast<size_t>(lane)];
}

Agent Machine::agent(int kind, int index) {
  std::vector<Agent>& known = agents_[static_cast<size_t>(kind)];
  const auto at = static_cast<size_t>(index);
  if (at >= known.size()) known.resize(at + 1, -1);
  if (known[at] >= 0) return known[at];
  if (num_agents_ + 1 > kMaxAgents) throw Refusal{"more warps and barriers than are modelled"};
  return known[at] = num_agents_++;
}

void Machine::fault(Kind kind, const At& at, std::string reason) const {
  throw Fault{kind, std::move(reason), at.w, static_cast<int>(&at.op - flat_.ops.data())};
}

void Machine::refuse(const Op& op, std::string why) const {
  throw Refusal{std::move(why), static_cast<int>(&op - flat_.ops.data())};
}

std::string Machine::place(int warp, int op) const {
  std::string out;
  if (warp >= 0) {
    if (ctas_ > 1) out = fmt::format("CTA {} ", cta_of(warp));
    out += fmt::format("warp {}", warp % warps_a_cta_);
  }
  if (op >= 0 && flat_.ops[static_cast<size_t>(op)].stmt != nullptr)
    out += fmt::format("{}`{}`", out.empty() ? "" : " at ",
                       lanes::print_head(*flat_.ops[static_cast<size_t>(op)].stmt));
  return out;
}

}  // namespace rooftile::verify::protocol
