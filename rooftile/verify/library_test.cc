// SPDX-License-Identifier: Apache-2.0
// Every kernel that is shipped is proved, on every machine that there are schedules for: nothing
// refuted, nothing unknown but what the source waives. One case an operator.
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <string_view>

#include "rooftile/verify/finding_text.h"
#include "rooftile/verify/shipped.h"

namespace rooftile::verify {
namespace {

class ProvedLibrary : public ::testing::TestWithParam<const OpDef*> {};

// Operators with kernels that the provers leave open: docs/proofs.md says which and what is
// missing. The rest of their kernels is proved; `rooftile prove OP` shows them.
constexpr std::string_view kOpen[] = {"gated_mlp", "gemm", "gemm_batched", "gemm_fp8"};

TEST_P(ProvedLibrary, NothingIsOpen) {
  if (std::count(std::begin(kOpen), std::end(kOpen), GetParam()->name) > 0)
    GTEST_SKIP() << "has kernels that are not proved yet: docs/proofs.md";
  std::vector<ProofJob> jobs;
  for (const std::string& target : proof_targets()) {
    const auto kernels = shipped_kernels(*GetParam(), target);
    ASSERT_TRUE(kernels.ok()) << kernels.diag().str();
    for (const ShippedKernel& kernel : *kernels)
      if (!kernel.kernel->is_raw()) jobs.push_back(job_for(kernel));
  }
  ASSERT_FALSE(jobs.empty());
  prove_all(jobs, {}, [](size_t, const KernelProof& proof) {
    EXPECT_EQ(proof.error, "") << proof.name;
    EXPECT_TRUE(proof.tally().passes()) << proof.name;
    if (const Obligation* open = proof.first_open()) ADD_FAILURE() << diag_of(proof, *open).str();
  });
}

std::vector<const OpDef*> ops() {
  std::vector<const OpDef*> out;
  for (const OpDef& op : all_ops()) out.push_back(&op);
  return out;
}
INSTANTIATE_TEST_SUITE_P(All, ProvedLibrary, ::testing::ValuesIn(ops()),
                         [](const auto& op) { return op.param->name; });

}  // namespace
}  // namespace rooftile::verify
