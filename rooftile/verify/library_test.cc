// SPDX-License-Identifier: Apache-2.0
// Every kernel that is shipped is proved, on every machine that there are schedules for: nothing
// refuted, nothing unknown but what the source waives. One case an operator.
#include <gtest/gtest.h>

#include "rooftile/verify/finding_text.h"
#include "rooftile/verify/shipped.h"

namespace rooftile::verify {
namespace {

class ProvedLibrary : public ::testing::TestWithParam<const OpDef*> {};

TEST_P(ProvedLibrary, NothingIsOpen) {
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
