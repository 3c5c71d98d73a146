// SPDX-License-Identifier: Apache-2.0
// Scheduling, and the control flow of strands.
#include "rooftile/emulate/machine.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

namespace rooftile::emulate {
namespace {

using lanes::Who;

// An SM's registers, and what a thread may have at launch.
constexpr int kRegisterFile = 65536;
constexpr int kMostRegisters = 255;

int launch_registers(const lanes::Program& program) {
  const int share = kRegisterFile / (program.threads * std::max(1, program.min_ctas_per_sm));
  return std::min(kMostRegisters / 8 * 8, share / 8 * 8);
}

}  // namespace

Machine::Machine(const Code& code, GlobalMemory& memory, const Launch& launch, Stats& stats)
    : code_(code),
      memory_(memory),
      launch_(launch),
      stats_(stats),
      num_constants_(static_cast<int>(code.constants.size())),
      warps_a_cta_(code.program.threads / kLanes),
      rng_(launch.seed * 0x9E3779B97F4A7C15ull + 1) {
  // Each seed is a style of adversary as well as an order: late or early arrivals, short or long
  // turns.
  constexpr int kLanding[] = {0, 10, 40, 85};
  constexpr int kTurns[] = {2, 12, 120};
  landing_percent_ = kLanding[random(4)];
  longest_turn_ = kTurns[random(3)];
}

// ---- scheduling

Status Machine::run() {
  const int64_t clusters = code_.grid[0] * code_.grid[1] * code_.grid[2] / code_.program.cluster;
  if (launch_.only_cluster < 0)
    for (int64_t id = clusters; id-- > 0;) waiting_.push_back(id);
  else if (launch_.only_cluster < clusters)
    waiting_.push_back(launch_.only_cluster);
  // Hardware starts CTAs in no promised order.
  if (chance(50)) std::shuffle(waiting_.begin(), waiting_.end(), rng_);
  try {
    while (!waiting_.empty() || !resident_.empty()) {
      while (!waiting_.empty() && static_cast<int>(resident_.size()) < std::max(1, launch_.sms)) {
        start_cluster(waiting_.back());
        waiting_.pop_back();
      }
      if (!turn()) return deadlock();
      stats_.too_long = stats_.statements > launch_.max_statements;
      if (stats_.too_long)
        throw Fault{.code = ErrorCode::kEmuDeadlock,
                    .message = "the kernel does not end",
                    .found = fmt::format("{} statements executed", stats_.statements)};
    }
  } catch (const Fault& fault) {
    return report(fault, blamed_warp_, blamed_strand_, blamed_stmt_);
  }
  return {};
}

void Machine::start_cluster(int64_t id) {
  const int size = code_.program.cluster;
  auto cluster = std::make_unique<Cluster>(size, warps_a_cta_);
  cluster->id = static_cast<int>(id);
  cluster->earlier_grids = cluster->agents.add(AgentKind::kGrids, 0, 0);
  const int64_t across = code_.grid[0] / size;
  for (int rank = 0; rank < size; ++rank) {
    auto cta = std::make_unique<Cta>();
    cta->cluster = cluster.get();
    cta->rank = rank;
    cta->x = id % across * size + rank;
    cta->y = id / across % code_.grid[1];
    cta->z = id / across / code_.grid[1];
    cta->shared = std::make_unique<SharedMemory>(code_.program.shared_bytes, &cluster->agents);
    cta->groups.resize(static_cast<size_t>((warps_a_cta_ + 3) / 4));
    cta->running = warps_a_cta_;
    cta->free_registers = kRegisterFile / std::max(1, code_.program.min_ctas_per_sm) -
                          launch_registers(code_.program) * code_.program.threads;
    cluster->running += warps_a_cta_;
    for (int w = 0; w < warps_a_cta_; ++w) start_warp(*cta, w);
    cluster->ctas.push_back(std::move(cta));
    ++stats_.ctas;
  }
  resident_.push_back(std::move(cluster));
}

void Machine::start_warp(Cta& cta, int index) {
  auto warp = std::make_unique<Warp>();
  const size_t registers = static_cast<size_t>(code_.num_registers);
  warp->cta = &cta;
  warp->index = index;
  warp->cells.resize(registers);
  warp->valid.assign(registers, 0);
  warp->busy.assign(registers, 0);
  warp->touched.assign(registers, 0);
  warp->clock.init(cta.cluster->agents.reads(cta.rank, index));
  warp->strands.emplace_back();
  warp->elected = static_cast<int>(random(kLanes));
  warp->registers_a_thread = launch_registers(code_.program);
  for (int lane = 0; lane < kLanes; ++lane) {
    warp->cells[kTidCell].i[lane] = index * kLanes + lane;
    warp->cells[kLaneCell].i[lane] = lane;
    warp->cells[kWarpCell].i[lane] = index;
    warp->cells[kCtaXCell].i[lane] = static_cast<int32_t>(cta.x);
    warp->cells[kCtaYCell].i[lane] = static_cast<int32_t>(cta.y);
    warp->cells[kCtaZCell].i[lane] = static_cast<int32_t>(cta.z);
    warp->cells[kRankCell].i[lane] = cta.rank;
  }
  for (int s = 0; s < kNumSpecialCells; ++s) warp->valid[static_cast<size_t>(s)] = kAllLanes;
  runnable_.push_back(warp.get());
  cta.warps.push_back(std::move(warp));
}

// One warp goes on, then things land. Each warp in turn is the one that everybody else overtakes.
bool Machine::turn() {
  ++stats_.turns;
  if (chance(1)) std::shuffle(runnable_.begin(), runnable_.end(), rng_);
  bool advanced = false;
  const size_t last = runnable_.size() - 1;  // the laggard
  const size_t start = last > 0 ? random(static_cast<uint32_t>(last)) : 0;
  for (size_t i = 0; i < runnable_.size() && !advanced; ++i) {
    Warp& warp = *runnable_[i == last ? last : (start + i) % last];
    advanced = advance(warp, 1 + static_cast<int>(random(static_cast<uint32_t>(longest_turn_))));
  }
  if (!advanced) return land_something();
  while (chance(landing_percent_) && land_something()) {
  }
  return true;
}

bool Machine::advance(Warp& warp, int statements) {
  Cluster& cluster = *warp.cta->cluster;
  const size_t count = warp.strands.size();
  const size_t start = count > 1 ? random(static_cast<uint32_t>(count)) : 0;
  const int given = statements;
  for (size_t i = 0; i < count && statements > 0 && !warp.done; ++i) {
    const size_t strand = (start + i) % count;
    if (warp.strands[strand].alive && warp.strands[strand].children == 0)
      advance_strand(warp, strand, statements);
  }
  stats_.statements += given - statements;
  const bool advanced = statements < given;
  if (warp.done) finish_warp(warp);
  if (cluster.running == 0 && cluster.copies.empty()) finish_cluster(cluster);
  return advanced;
}

// Runs statements until the budget is spent or the strand waits, forks or ends.
bool Machine::advance_strand(Warp& warp, size_t index, int& budget) {
  const int given = budget;
  while (budget > 0) {
    Strand& strand = warp.strands[index];
    const Op& op = code_.ops[static_cast<size_t>(strand.pc)];
    switch (op.kind) {
      case OpKind::kPure: {
        const Cell* operands[4];
        uint32_t known = kAllLanes;
        for (int i = 0; i < op.num_in; ++i) {
          operands[i] = &in(warp, op.in[i]);
          known &= valid(warp, op.in[i]);
        }
        op.fn(out(warp, op.dst), operands);
        valid_out(warp, op.dst) = known;
        ++strand.pc;
        break;
      }
      case OpKind::kSelect: {
        const Cell* operands[4] = {&in(warp, op.in[0]), &in(warp, op.in[1]), &in(warp, op.in[2])};
        uint32_t chosen = 0;
        for (int lane = 0; lane < kLanes; ++lane) chosen |= operands[0]->u[lane] << lane;
        const uint32_t known = valid(warp, op.in[0]) & ((chosen & valid(warp, op.in[1])) |
                                                        (~chosen & valid(warp, op.in[2])));
        op.fn(out(warp, op.dst), operands);
        valid_out(warp, op.dst) = known;
        ++strand.pc;
        break;
      }
      case OpKind::kInstr: {
        const bool over = execute(warp, index, op);
        Strand& after = warp.strands[index];
        if (!over) {
          after.pc = op.start;
          after.blocked = true;
          return budget < given;
        }
        after.blocked = after.entered = false;
        ++after.pc;
        break;
      }
      default:
        control(warp, index, op);
        if (warp.done || !warp.strands[index].alive || warp.strands[index].children > 0) {
          --budget;
          return true;
        }
    }
    if (op.ends_statement) --budget;
  }
  return true;
}

void Machine::finish_warp(Warp& warp) {
  std::erase(runnable_, &warp);
  Cta& cta = *warp.cta;
  --cta.cluster->running;
  cluster_complete_if_due(*cta.cluster);
  if (--cta.running > 0) return;
  // The CTA's shared memory goes away: stores must be known to have read it, and whatever peers or
  // copies still owe it must be known to have come.
  for (const auto& each : cta.warps)
    for (const auto& [lane, bulk] : each->bulk)
      if (bulk.waited < std::max(bulk.committed, bulk.stored))
        throw Fault{
            .code = ErrorCode::kEmuExit,
            .message = "a CTA ends while bulk stores may still read its shared memory",
            .found = fmt::format("warp {}, lane {}: {} of {} groups waited for{}", each->index,
                                 lane, bulk.waited, std::max(bulk.committed, bulk.stored),
                                 bulk.stored > bulk.committed ? ", the last not committed" : ""),
            .expected = "cp.async.bulk.wait_group.read 0 before the end",
            .fix = "wait for the reads of all groups, by the thread that committed them"};
  Clock known;
  for (const auto& each : cta.warps) known.join(each->clock.release(kAllLanes));
  for (const auto& [offset, barrier] : cta.barriers) {
    const bool copies_known =
        barrier.last_issue == 0 || known.covers(Stamp(barrier.agent, barrier.last_issue, 0, 0));
    const Stamp* owed = nullptr;
    for (const Stamp& arrival : barrier.remote_arrivals)
      if (!known.covers(arrival)) owed = &arrival;
    if (copies_known && owed == nullptr) continue;
    throw Fault{.code = ErrorCode::kEmuExit,
                .message = copies_known
                               ? "a CTA ends without having waited for an arrival of a peer"
                               : "a CTA ends without having waited for bytes on their way to it",
                .found = barrier_text(cta, barrier) +
                         (owed != nullptr ? ", arrival by " + who_text(*cta.cluster, *owed) : ""),
                .fix = "wait for the barrier's last phase, or for the cluster, before the end"};
  }
}

void Machine::finish_cluster(Cluster& cluster) {
  std::erase_if(resident_, [&](const auto& c) { return c.get() == &cluster; });
}

// ---- control

void Machine::touch(Warp& warp, CellId id, bool write) {
  const size_t reg = static_cast<size_t>(id - num_constants_);
  if (warp.busy[reg] > warp.products_known)
    throw Fault{
        .code = ErrorCode::kEmuProduct,
        .message = fmt::format("a register of a running product is {}", write ? "written" : "read"),
        .found = fmt::format("product {} of warp {}, known to be complete up to {}", warp.busy[reg],
                             warp.index, warp.products_known),
        .expected = "wgmma.wait_group first",
        .fix = "wait for the product's group, or leave fewer groups running"};
  warp.touched[reg] = warp.wgmma_fences + 1;
}

void Machine::assign(Warp& warp, const Strand& strand, const Op& op) {
  if (code_.product_operand[static_cast<size_t>(op.dst - num_constants_)])
    touch(warp, op.dst, true);
  const Cell& from = in(warp, op.in[0]);
  Cell& to = out(warp, op.dst);
  uint32_t& known = valid_out(warp, op.dst);
  if (strand.mask == kAllLanes) {
    to = from;
    known = valid(warp, op.in[0]);
    return;
  }
  for (uint32_t lanes = strand.mask; lanes != 0; lanes &= lanes - 1) {
    const int lane = std::countr_zero(lanes);
    if (op.wide)
      to.ul[lane] = from.ul[lane];
    else
      to.u[lane] = from.u[lane];
  }
  known = (known & ~strand.mask) | (valid(warp, op.in[0]) & strand.mask);
}

uint32_t Machine::condition(const Warp& warp, const Strand& strand, const Op& op) {
  const Cell& cell = in(warp, op.in[0]);
  const uint32_t unknown = strand.mask & ~valid(warp, op.in[0]);
  if (unknown != 0)
    throw Fault{.code = ErrorCode::kEmuUninit,
                .message = "a condition depends on a register that holds nothing",
                .lane = std::countr_zero(unknown)};
  uint32_t taken = 0;
  for (int lane = 0; lane < kLanes; ++lane) taken |= (cell.u[lane] & 1) << lane;
  taken &= strand.mask;
  if (op.uniform && taken != 0 && taken != strand.mask)
    throw Fault{.code = ErrorCode::kEmuConvergence,
                .message = "a condition that is stated to be uniform differs between lanes",
                .found = fmt::format("true in lanes {:#010x} of {:#010x}", taken, strand.mask)};
  return taken;
}

void Machine::branch(Warp& warp, size_t index, const Op& op) {
  Strand& strand = warp.strands[index];
  const uint32_t taken = condition(warp, strand, op);
  const uint32_t rest = strand.mask & ~taken;
  strand.frames.push_back({Frame::kIf, strand.mask});
  if (rest == 0) {
    ++strand.pc;
  } else if (taken == 0) {
    strand.pc = op.target;
  } else if (code_.ops[static_cast<size_t>(op.target)].kind == OpKind::kEnd) {
    strand.mask = taken;
    ++strand.pc;
  } else {
    // Both sides go on independently; this strand goes on when both have come to the end.
    const int then = strand.pc + 1;
    strand.children = 2;
    strand.pc = code_.ops[static_cast<size_t>(op.target) - 1].target;
    for (const auto& [mask, pc] : {std::pair(taken, then), std::pair(rest, op.target)}) {
      Strand child;
      child.mask = mask;
      child.pc = pc;
      child.parent = static_cast<int>(index);
      child.frames.push_back({Frame::kFork, mask});
      const auto free = std::find_if(warp.strands.begin(), warp.strands.end(),
                                     [](const Strand& s) { return !s.alive; });
      if (free != warp.strands.end())
        *free = std::move(child);
      else
        warp.strands.push_back(std::move(child));
    }
  }
}

void Machine::retire_strand(Warp& warp, size_t index) {
  Strand& strand = warp.strands[index];
  strand.alive = false;
  --warp.strands[static_cast<size_t>(strand.parent)].children;
}

void Machine::control(Warp& warp, size_t index, const Op& op) {
  Strand& strand = warp.strands[index];
  blamed_warp_ = &warp;
  blamed_strand_ = &strand;
  blamed_stmt_ = op.stmt;
  switch (op.kind) {
    case OpKind::kTouch:
      for (const CellId id : code_.lists[static_cast<size_t>(op.list)]) touch(warp, id, false);
      break;
    case OpKind::kAssign:
      assign(warp, strand, op);
      break;
    case OpKind::kForget:
      for (int i = 0; i < op.count; ++i) valid_out(warp, op.dst + i) &= ~strand.mask;
      break;
    case OpKind::kIf:
      return branch(warp, index, op);
    case OpKind::kElse:
      strand.pc = op.target;
      return;
    case OpKind::kEnd:
      if (strand.frames.back().kind == Frame::kFork) return retire_strand(warp, index);
      strand.mask = strand.frames.back().saved;
      strand.frames.pop_back();
      break;
    case OpKind::kLoop:
      strand.frames.push_back({Frame::kLoop, strand.mask, op.list});
      break;
    case OpKind::kLoopTest: {
      const uint32_t on = condition(warp, strand, op);
      if (on == 0) {
        strand.mask = strand.frames.back().saved;
        strand.frames.pop_back();
        strand.pc = op.target;
        return;
      }
      strand.mask = on;
      break;
    }
    case OpKind::kJump:
      strand.pc = op.target;
      return;
    case OpKind::kExit:
      if (warp.products_issued > warp.products_known)
        throw Fault{.code = ErrorCode::kEmuProduct,
                    .message = "a warp ends while products are running",
                    .found = fmt::format("{} issued, {} known to be complete", warp.products_issued,
                                         warp.products_known),
                    .expected = "wgmma.wait_group 0 at the end"};
      warp.done = true;
      return;
    default:
      break;
  }
  ++strand.pc;
}

// ---- instructions: what all have in common

bool Machine::execute(Warp& warp, size_t index, const Op& op) {
  Strand& strand = warp.strands[index];
  const InstrCode& code = code_.instrs[static_cast<size_t>(op.instr)];
  blamed_warp_ = &warp;
  blamed_strand_ = &strand;
  blamed_stmt_ = op.stmt;
  uint32_t mask = strand.mask;
  if (code.guard != kNoCell) {
    const uint32_t unknown = mask & ~valid(warp, code.guard);
    if (unknown != 0)
      throw Fault{.code = ErrorCode::kEmuUninit,
                  .message = "a guard depends on a register that holds nothing",
                  .lane = std::countr_zero(unknown)};
    const Cell& guard = in(warp, code.guard);
    for (int lane = 0; lane < kLanes; ++lane) mask &= ~((~guard.u[lane] & 1) << lane);
  }
  if (mask == 0) return true;
  const At at{warp, strand, code, *code.instr, mask, op.stmt};
  check_convergence(at);
  if (code.touches_products && code.instr->ins != lanes::Ins::kWgmma &&
      code.instr->ins != lanes::Ins::kPin) {
    for (const CellId id : code.results)
      if (code_.product_operand[static_cast<size_t>(id - num_constants_)]) touch(warp, id, true);
    for (const CellId id : code.regs)
      if (code_.product_operand[static_cast<size_t>(id - num_constants_)]) touch(warp, id, false);
  }
  return dispatch(at);
}

void Machine::check_convergence(const At& at) {
  const Who who = lanes::ins_info(at.instr.ins).who;
  if (who == Who::kThread || who == Who::kCluster || at.mask == kAllLanes) return;
  throw Fault{.code = ErrorCode::kEmuConvergence,
              .message = fmt::format("{} is executed by a part of a warp",
                                     lanes::ins_info(at.instr.ins).name),
              .found = fmt::format("lanes {:#010x}", at.mask),
              .expected = "all 32 lanes",
              .fix = "move it out of the branch that the lanes do not share"};
}

void Machine::need(const At& at, CellId id, const char* what) const {
  const uint32_t unknown = at.mask & ~valid(at.warp, id);
  if (unknown == 0) return;
  throw Fault{.code = ErrorCode::kEmuUninit,
              .message = fmt::format("{} is a register that holds nothing", what),
              .lane = std::countr_zero(unknown)};
}

const Cell& Machine::arg(const At& at, size_t index) const {
  const CellId id = at.code.args[index];
  need(at, id, "an operand");
  return in(at.warp, id);
}

uint32_t Machine::uniform_arg(const At& at, size_t index) const {
  const Cell& cell = arg(at, index);
  const int first = std::countr_zero(at.mask);
  for (uint32_t lanes = at.mask; lanes != 0; lanes &= lanes - 1) {
    const int lane = std::countr_zero(lanes);
    if (cell.u[lane] != cell.u[first])
      throw Fault{.code = ErrorCode::kEmuConvergence,
                  .message = "an operand that must be uniform differs between lanes",
                  .found = fmt::format("{} in lane {}, {} in lane {}", cell.u[first], first,
                                       cell.u[lane], lane)};
  }
  return cell.u[first];
}

void Machine::set_result(const At& at, size_t index, int lane, uint64_t bits) const {
  Cell& cell = out(at.warp, at.code.results[index]);
  const lanes::Ty type = at.code.result_types[index];
  if (type == lanes::Ty::kI64 || type == lanes::Ty::kU64)
    cell.ul[lane] = bits;
  else
    cell.u[lane] = static_cast<uint32_t>(bits);
}

void Machine::results_written(const At& at) const {
  for (const CellId id : at.code.results) valid_out(at.warp, id) |= at.mask;
}

bool Machine::dispatch(const At& at) {
  using lanes::Ins;
  const Ins ins = at.instr.ins;
  if (ins <= Ins::kPrefetchL2) return exec_global(at);
  if (ins == Ins::kLdMatrix || ins == Ins::kStMatrix) return exec_matrix(at);
  if (ins <= Ins::kMapa) return exec_shared(at);
  if (ins >= Ins::kCpAsync && ins <= Ins::kCpArrive) return exec_thread_copy(at);
  if (ins <= Ins::kPrefetchMap) return exec_tensor_copy(at);  // st.async among them
  if (ins <= Ins::kFence) return exec_barrier(at);
  if (ins <= Ins::kClusterWait) return exec_meeting(at);
  if (ins <= Ins::kRedux) return exec_lanes(at);
  if (ins <= Ins::kMmaSync) return exec_product(at);
  return exec_registers(at);
}

}  // namespace rooftile::emulate
