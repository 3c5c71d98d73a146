// SPDX-License-Identifier: Apache-2.0
// The kernels that are shipped: what the operators' own choosing functions give for the sizes of
// their case lists, each kernel that takes a case and not just the first, on the machines that
// there are schedules for; each once.
#pragma once

#include <string>
#include <vector>

#include "rooftile/base/diag.h"
#include "rooftile/ops/op_def.h"
#include "rooftile/verify/prove.h"

namespace rooftile::verify {

// "sm90", and processors by what they can do, whatever this one is.
const std::vector<std::string>& proof_targets();
Result<TargetInfo> proof_target(const std::string& name);

struct ShippedKernel {
  const OpDef* op = nullptr;
  const KernelDef* kernel = nullptr;
  Config config;
  Env dims;  // of the first case that chooses it
  std::string case_text;
  Schedule schedule;
  std::string target;
};
// A Diag for a case list that cannot be read.
Result<std::vector<ShippedKernel>> shipped_kernels(const OpDef& op, const std::string& target);

// The job refers to the operator, which must outlive it.
ProofJob job_for(const ShippedKernel& shipped);

}  // namespace rooftile::verify
