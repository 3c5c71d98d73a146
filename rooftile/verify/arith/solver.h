// SPDX-License-Identifier: Apache-2.0
// The solver: Z3, behind builders that know integers only (z3_solver.cc, the one place that
// includes it), or none (no_solver.cc), for programs carried to machines without it: all is unknown
// then.
//
// Linear integer arithmetic with alternatives; products, quotients and elements of index
// tensors arrive as plain integers, with their axioms among the formulas. A fresh context a
// question, a fixed seed and a resource limit: the answer depends on the question alone. Measured
// (Z3 4.8.12): its own timeout is ignored in some blow-ups and the resource limit is not; a
// watchdog interrupts what should outlive both.
#pragma once

#include <string>
#include <vector>

#include "rooftile/verify/arith/axioms.h"
#include "rooftile/verify/arith/terms.h"

namespace rooftile::verify::arith {

struct SolverAnswer {
  enum class Status : uint8_t { kEmpty, kModel, kUnknown } status = Status::kUnknown;
  Model model;
  std::string reason;  // unknown: why
  uint64_t work = 0;   // of the limit
};

// Never throws. `rlimit` is Z3's unit of work.
SolverAnswer ask_solver(const std::vector<Formula>& formulas, uint64_t rlimit);
std::string solver_version();  // of what answers; part of what cached verdicts depend on

}  // namespace rooftile::verify::arith
