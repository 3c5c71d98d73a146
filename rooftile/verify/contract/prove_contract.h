// SPDX-License-Identifier: Apache-2.0
// The contract against the host code that is generated from it, both ways.
//
//   contract.implies  whatever the launcher lets through meets every assumption that the proofs of
//                     the program and its lanes make
//   contract.admits   whatever meets the contract is let through, and on a GPU one of the variants
//                     takes it
//
// The launcher's side is host::host_checks, the list that its text is printed from; what is not in
// the list is not checked.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "rooftile/codegen/gpu/lower.h"
#include "rooftile/codegen/host/host_checks.h"
#include "rooftile/ir/ir.h"
#include "rooftile/verify/verdict.h"

namespace rooftile::verify {

struct ContractQuestion {
  const ir::Program* proved = nullptr;    // what prove_tile was asked about
  const ir::Program* launched = nullptr;  // what the launcher was made for (operands may be packed)
  bool on_gpu = false;
  std::vector<codegen::GpuNeeds> variants;  // on a GPU: in the order in which they are tried
  // Dims that the schedule fixes: another call gets another kernel.
  std::map<std::string, int64_t> fixed_dims;
};

// `checks` null: those of the launcher as it is.
std::vector<Finding> prove_contract(const ContractQuestion& question,
                                    const std::vector<host::HostCheck>* checks = nullptr);

}  // namespace rooftile::verify
