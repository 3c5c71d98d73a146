// SPDX-License-Identifier: Apache-2.0
// Is there a call that meets the contract? Clauses that contradict each other would prove anything.
//
// Sizes that meet the conditions are found by arithmetic, index tensors are filled, and the call so
// made is looked at clause by clause (example_call.h): what is found is a call, and no argument.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "rooftile/ir/ir.h"
#include "rooftile/verify/verdict.h"

namespace rooftile::verify {

struct ContractModel {
  // proved: `call` meets everything. refuted: nothing can, with the clauses at odds in `reason`.
  Verdict verdict = Verdict::kUnknown;
  Prover prover = Prover::kNone;
  Env call;
  std::string reason;
};

// A call in which no dim is 0, if there is one: empty calls say nothing of a kernel. `conditions`
// hold beside the contract; what `given` has is kept.
ContractModel contract_model(const ir::Program& program, const std::vector<Expr>& conditions = {},
                             const Env& given = {});

// A call whose dims are as large as they can be up to `most`; nullopt: none was found.
std::optional<Env> roomy_call(const ir::Program& program, const std::vector<Expr>& conditions,
                              int64_t most);

}  // namespace rooftile::verify
