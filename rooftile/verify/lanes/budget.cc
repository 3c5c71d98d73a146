// SPDX-License-Identifier: Apache-2.0
#include "rooftile/verify/lanes/budget.h"

#include <algorithm>
#include <set>

namespace rooftile::verify {
namespace {

using lanes::Ins;
using lanes::Instr;

constexpr int kMostThreads = 1024, kMostCluster = 16, kNamedBarriers = 16;
constexpr int64_t kSharedOfCta = 232448, kSharedOfSm = 233472, kSharedReserved = 1024;
constexpr int kRegistersOfSm = 65536, kMostRegisters = 255;

// Registers a thread at launch: what __launch_bounds__ leaves, in steps of 8.
int launch_registers(const lanes::Program& program) {
  const int threads = std::max(1, program.threads) * std::max(1, program.min_ctas_per_sm);
  return std::min(kMostRegisters + 1, kRegistersOfSm / threads / 8 * 8);
}

}  // namespace

void Budget::instruction(Walk& walk, const lanes::Stmt& stmt) {
  const Instr& instr = stmt.instr;
  switch (instr.ins) {
    case Ins::kRegsInc:
    case Ins::kRegsDec:
      return registers(walk, stmt);
    case Ins::kNamedSync:
    case Ins::kNamedArrive: {
      const Expr id = walk.value(instr.args[0]);
      walk.require(Kind::kBudget, Expr(0) <= id && id < Expr(kNamedBarriers),
                   "0 <= " + id.str() + " < " + std::to_string(kNamedBarriers));
      if (instr.n <= 0 || instr.n % 32 != 0 || instr.n > walk.program().threads)
        walk.report().broken(Kind::kBudget, stmt, Prover::kConstant,
                             "a barrier of " + std::to_string(instr.n) + " threads, of " +
                                 std::to_string(walk.program().threads));
      return;
    }
    default:
      return;
  }
}

void Budget::registers(Walk& walk, const lanes::Stmt& stmt) {
  const int n = stmt.instr.n, before = launch_registers(walk.program());
  const bool more = stmt.instr.ins == Ins::kRegsInc;
  if (n % 8 != 0 || n < 24 || n > 256)
    return walk.report().broken(Kind::kBudget, stmt, Prover::kConstant,
                                "setmaxnreg takes a multiple of 8 from 24 to 256");
  if (!walk.loops().empty())
    return walk.report().unknown(Kind::kBudget, stmt, "registers change hands in a loop");
  if (more ? n < before : n > before)
    return walk.report().broken(
        Kind::kBudget, stmt, Prover::kConstant,
        "goes the other way: a thread starts with " + std::to_string(before) + " registers");
  const Interval threads = walk.symbols().range(Expr::sym("tid"));
  for (const Change& other : changes_)
    if (!meet(other.threads, threads).empty())
      return walk.report().unknown(Kind::kBudget, stmt, "a group changes its registers twice");
  changes_.push_back({threads, n});
  walk.report().proved(Kind::kBudget, stmt, Prover::kConstant);
}

void Budget::finish(Walk& walk) {
  const lanes::Program& p = walk.program();
  Report& report = walk.report();
  report.kernel(Kind::kBudget, std::to_string(p.threads) + " threads",
                p.threads >= 1 && p.threads <= kMostThreads && p.threads % 32 == 0,
                Prover::kConstant, "a CTA has 32 to 1024 threads, whole warps");
  // What is given up at the start, and what is taken.
  const int64_t before = launch_registers(p);
  int64_t taken = before * p.threads;
  for (const Change& change : changes_)
    taken += (change.registers - before) * (change.threads.hi - change.threads.lo + 1);
  report.kernel(Kind::kBudget, std::to_string(taken) + " registers",
                taken * p.min_ctas_per_sm <= kRegistersOfSm && taken <= before * p.threads,
                Prover::kConstant,
                "setmaxnreg asks for " + std::to_string(taken) + " registers of " +
                    std::to_string(before * p.threads));
  int64_t end = 0;
  bool apart = true;
  std::vector<const lanes::SharedAlloc*> allocs;
  for (const lanes::SharedAlloc& alloc : p.shared) allocs.push_back(&alloc);
  std::sort(allocs.begin(), allocs.end(),
            [](const auto* a, const auto* b) { return a->offset < b->offset; });
  for (const lanes::SharedAlloc* alloc : allocs) {
    apart = apart && alloc->offset >= end && alloc->offset % alloc->align == 0;
    end = alloc->offset + alloc->bytes;
  }
  report.kernel(Kind::kBudget, std::to_string(p.shared_bytes) + " bytes of shared memory",
                apart && end <= p.shared_bytes && p.shared_bytes <= kSharedOfCta &&
                    (p.shared_bytes + kSharedReserved) * p.min_ctas_per_sm <= kSharedOfSm,
                Prover::kConstant,
                apart ? "more than a CTA or, with the CTAs asked for, a multiprocessor has"
                      : "allocations overlap, or are not aligned");
  if (p.cluster == 1) return;
  const bool whole = walk.questions().divides().multiple(p.grid_x, p.cluster) ||
                     walk.questions().holds(p.grid_x % Expr(p.cluster) == Expr(0));
  report.kernel(Kind::kBudget, "clusters of " + std::to_string(p.cluster) + " CTAs",
                p.cluster <= kMostCluster && whole, Prover::kInterval,
                "more than a cluster has, or the grid is no multiple: " + p.grid_x.str());
}

}  // namespace rooftile::verify
