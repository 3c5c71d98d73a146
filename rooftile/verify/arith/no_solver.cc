// SPDX-License-Identifier: Apache-2.0
// Built instead of z3_solver.cc where ROOFTILE_SOLVER is off.
#include "rooftile/verify/arith/solver.h"

namespace rooftile::verify::arith {

SolverAnswer ask_solver(const std::vector<Formula>& /*formulas*/, uint64_t /*rlimit*/) {
  return {SolverAnswer::Status::kUnknown, {}, "this program was built without the solver"};
}

std::string solver_version() { return "none"; }

}  // namespace rooftile::verify::arith
