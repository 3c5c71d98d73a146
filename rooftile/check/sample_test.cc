// SPDX-License-Identifier: Apache-2.0
#include "rooftile/check/sample.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "rooftile/check/case_inputs.h"

namespace rooftile::check {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

RefCall resolved(const OpDef& op, const std::string& text) {
  auto call = resolve_case(op, *parse_case(text));
  EXPECT_TRUE(call.ok()) << call.diag().str();
  return *call;
}

std::vector<std::string> dims_of(const std::string& name, const std::string& text) {
  const OpDef& op = *find_op(name);
  return independent_dims(op, resolved(op, text), 3);
}

TEST(Sample, RowsAndColumnsOfAProduct) {
  EXPECT_THAT(dims_of("gemm", "M=512 N=4095 K=4095"), ElementsAre("M", "N"));
  EXPECT_THAT(dims_of("gemm", "M=33 N=65 K=129 layout=nn bias=1 c=1"), ElementsAre("M", "N"));
  EXPECT_THAT(dims_of("gemm_batched", "B=3 M=64 N=64 K=64"), ElementsAre("B", "M", "N"));
}

TEST(Sample, RowsOfAReductionOverColumns) {
  EXPECT_THAT(dims_of("softmax", "T=40 V=50"), ElementsAre("T"));
  EXPECT_THAT(dims_of("layer_norm", "T=40 H=50 bias=1"), ElementsAre("T"));
}

// A query of a causal call sees keys by its position: leaving out its neighbours moves it.
TEST(Sample, QueriesOfCausalAttentionAreNot) {
  EXPECT_THAT(dims_of("attention_prefill", "Tq=16 Tk=16 Hq=1 Hkv=1 D=8 causal=1"), IsEmpty());
}

TEST(Sample, APartHasTheResultsOfTheWhole) {
  const OpDef& op = *find_op("gemm");
  RefCall whole = resolved(op, "M=5 N=7 K=11 layout=nn bias=1");
  ASSERT_TRUE(make_inputs(op, whole, 1).ok());
  const Chosen chosen = {{"M", {0, 4}}, {"N", {1, 2, 6}}};
  auto part = part_of(op, whole, chosen);
  ASSERT_TRUE(part);
  EXPECT_THAT((*part)["b"].shape, ElementsAre(11, 3));
  op.reference_fn(whole);
  op.reference_fn(*part);
  for (int64_t i = 0; i < 2; ++i)
    for (int64_t j = 0; j < 3; ++j)
      EXPECT_EQ((*part)["d"]({i, j}), whole["d"]({chosen.at("M")[static_cast<size_t>(i)],
                                                  chosen.at("N")[static_cast<size_t>(j)]}));
}

TEST(Sample, WantedPositionsComeFirst) {
  const OpDef& op = *find_op("gemm");
  const RefCall call = resolved(op, "M=10 N=100 K=4");
  const Chosen chosen = choose_indices(*op.arg("d"), call, {"M", "N"}, {3 * 100 + 57, 412}, 4);
  EXPECT_THAT(chosen.at("M"), ElementsAre(0, 3, 4, 6));
  EXPECT_THAT(chosen.at("N"), ElementsAre(0, 12, 33, 57));
}

TEST(Sample, FewIndicesAreAllTaken) {
  const OpDef& op = *find_op("gemm");
  const Chosen chosen =
      choose_indices(*op.arg("d"), resolved(op, "M=3 N=1 K=4"), {"M", "N"}, {}, 64);
  EXPECT_THAT(chosen.at("M"), ElementsAre(0, 1, 2));
  EXPECT_THAT(chosen.at("N"), ElementsAre(0));
}

}  // namespace
}  // namespace rooftile::check
