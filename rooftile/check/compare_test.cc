// SPDX-License-Identifier: Apache-2.0
#include "rooftile/check/compare.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace rooftile::check {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

NdArray array(std::vector<double> values) {
  return {{static_cast<int64_t>(values.size())}, std::move(values)};
}

TEST(Compare, MeasuresAbsoluteRelativeAndNormErrors) {
  const Comparison c = compare(array({3, 4.5}), array({3, 4}), {1, 1, 1, ""});
  EXPECT_TRUE(c.pass);
  EXPECT_DOUBLE_EQ(c.max_abs, 0.5);
  EXPECT_DOUBLE_EQ(c.max_rel, 0.5 / 4);
  EXPECT_DOUBLE_EQ(c.norm_err, 0.5 / 5);
}

TEST(Compare, FloorsTheRelativeErrorAtTheRootMeanSquare) {
  // 0.001 where the reference is zero, in a result of size 1.
  const Comparison c = compare(array({1, 0.001}), array({1, 0}), {1, 1, 1, ""});
  EXPECT_NEAR(c.max_rel, 0.001 / std::sqrt(0.5), 1e-12);
}

TEST(Compare, ElementwiseBoundIsAbsolutePlusRelative) {
  EXPECT_TRUE(compare(array({10.2}), array({10}), {0.1, 0.01, 0, ""}).pass);
  const Comparison c = compare(array({1, 10.21}), array({1, 10}), {0.1, 0.01, 0, ""});
  EXPECT_FALSE(c.pass);
  EXPECT_EQ(c.first_bad, 1);
}

TEST(Compare, NormBoundFailsWhatTheElementwiseOneLetsThrough) {
  EXPECT_FALSE(compare(array({1.1, 1.1}), array({1, 1}), {0.2, 0, 0.05, ""}).pass);
}

TEST(Compare, ZeroToleranceIsExact) {
  EXPECT_TRUE(compare(array({7, -3}), array({7, -3}), {}).pass);
  EXPECT_FALSE(compare(array({7, -3}), array({7, std::nextafter(-3.0, 0.0)}), {}).pass);
}

TEST(Compare, NaNPassesOnlyWhereTheReferenceIsNaN) {
  const Tolerance loose{1e9, 1e9, 1e9, ""};
  EXPECT_TRUE(compare(array({NAN, 1}), array({NAN, 1}), loose).pass);
  EXPECT_FALSE(compare(array({NAN, 1}), array({2, 1}), loose).pass);
  EXPECT_FALSE(compare(array({2, 1}), array({NAN, 1}), loose).pass);
}

TEST(Compare, InfinityPassesOnlyAgainstTheSameInfinity) {
  const Tolerance loose{kInfinity, 1e9, 1e9, ""};
  EXPECT_TRUE(compare(array({kInfinity}), array({kInfinity}), loose).pass);
  EXPECT_FALSE(compare(array({kInfinity}), array({-kInfinity}), loose).pass);
  EXPECT_FALSE(compare(array({kInfinity}), array({1e30}), loose).pass);
  EXPECT_FALSE(compare(array({1e30}), array({kInfinity}), loose).pass);
}

TEST(Compare, EmptyAndShapes) {
  EXPECT_TRUE(compare(NdArray{{0, 4}, {}}, NdArray{{0, 4}, {}}, {}).pass);
  EXPECT_FALSE(compare(NdArray{{4, 0}, {}}, NdArray{{0, 4}, {}}, {}).pass);
  EXPECT_EQ(coordinate(23, {2, 3, 4}), "[1, 2, 3]");
  EXPECT_EQ(coordinate(0, {}), "[]");
}

}  // namespace
}  // namespace rooftile::check
