// SPDX-License-Identifier: Apache-2.0
// A kernel that is broken in each way must fail, with the reason that fits.
#include "rooftile/check/judge.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "rooftile/check/case_inputs.h"

namespace rooftile::check {
namespace {

using testing::HasSubstr;

// y = 2 x, and z += x: an output and an updated tensor.
OpDef twice() {
  const Expr T = Expr::sym("T"), H = Expr::sym("H");
  OpDef op("test", "twice", "twice x");
  op.out({.name = "y", .shape = {T, H}, .same_dtype_as = "x", .may_alias = {"x"}})
      .in({.name = "x", .shape = {T, H}, .dtypes = {DType::kF32}})
      .inout({.name = "z", .shape = {T, H}, .dtypes = {DType::kF32}})
      .reference([](RefCall& call) {
        for (size_t i = 0; i < call["x"].data.size(); ++i) {
          call["y"].data[i] = 2 * call["x"].data[i];
          call["z"].data[i] += call["x"].data[i];
        }
      });
  return op;
}

float* element(Arguments& arguments, const char* name, int64_t row, int64_t column) {
  const TensorView view = arguments.tensor(name).view();
  return static_cast<float*>(view.data) + row * view.strides[0] + column * view.strides[1];
}

void correct(Arguments& arguments) {
  const TensorView x = arguments.tensor("x").view();
  for (int64_t row = 0; row < x.shape[0]; ++row)
    for (int64_t column = 0; column < x.shape[1]; ++column) {
      const float value = *element(arguments, "x", row, column);
      *element(arguments, "z", row, column) += value;
      *element(arguments, "y", row, column) = 2 * value;
    }
}

class Judge : public testing::Test {
 protected:
  Judge() : op_(twice()) {
    Case test_case;
    test_case.values = {{"T", "5"}, {"H", "7"}};
    auto call = resolve_case(op_, test_case);
    EXPECT_TRUE(call.ok());
    inputs_ = *call;
    EXPECT_TRUE(make_inputs(op_, inputs_, 1).ok());
    expected_ = inputs_;
    op_.reference_fn(expected_);
  }

  // The verdict on a correct kernel with something done to its result.
  Verdict spoiled(const std::function<void(Arguments&)>& spoil) {
    return judge({op_, inputs_, expected_, {1e-6, 1e-6, 1e-6, ""}},
                 [&](Arguments& arguments) -> Status {
                   correct(arguments);
                   spoil(arguments);
                   return {};
                 });
  }

  OpDef op_;
  RefCall inputs_, expected_;
};

TEST_F(Judge, PassesACorrectKernel) {
  const Verdict verdict = spoiled([](Arguments&) {});
  EXPECT_TRUE(verdict.pass()) << verdict.comparison.reason;
  EXPECT_LT(verdict.comparison.max_abs, 1e-6);
  EXPECT_EQ(verdict.results.size(), 2u);
}

TEST_F(Judge, RefusesAWrongValue) {
  const Verdict verdict = spoiled([](Arguments& a) { *element(a, "y", 3, 2) += 0.01f; });
  EXPECT_FALSE(verdict.pass());
  EXPECT_THAT(verdict.comparison.reason, HasSubstr("outside the tolerance"));
  EXPECT_EQ(verdict.output, "y");
  EXPECT_EQ(verdict.comparison.first_bad, 3 * 7 + 2);
  EXPECT_NEAR(verdict.comparison.got - verdict.comparison.want, 0.01, 1e-5);
}

TEST_F(Judge, RefusesNaNAndInfinity) {
  Verdict verdict = spoiled([](Arguments& a) { *element(a, "y", 0, 0) = std::nanf(""); });
  EXPECT_THAT(verdict.comparison.reason, HasSubstr("NaN"));
  verdict = spoiled(
      [](Arguments& a) { *element(a, "z", 4, 6) = std::numeric_limits<float>::infinity(); });
  EXPECT_THAT(verdict.comparison.reason, HasSubstr("infinity"));
  EXPECT_EQ(verdict.output, "z");
}

TEST_F(Judge, RefusesAnElementNeverWritten) {
  const Verdict verdict =
      judge({op_, inputs_, expected_, {1e-6, 1e-6, 1e-6, ""}}, [&](Arguments& arguments) -> Status {
        const float before = *element(arguments, "y", 4, 6);
        correct(arguments);
        *element(arguments, "y", 4, 6) = before;
        return {};
      });
  EXPECT_FALSE(verdict.pass());
  EXPECT_EQ(verdict.comparison.reason, "never written");
  EXPECT_EQ(verdict.comparison.first_bad, 4 * 7 + 6);
}

TEST_F(Judge, RefusesWritesPastEitherEnd) {
  Verdict verdict = spoiled([](Arguments& a) { element(a, "y", 4, 6)[1] = 0; });
  EXPECT_THAT(verdict.comparison.reason, HasSubstr("wrote outside the tensor"));
  EXPECT_THAT(verdict.comparison.reason, HasSubstr("after the last element"));
  verdict = spoiled([](Arguments& a) { element(a, "y", 0, 0)[-1] = 0; });
  EXPECT_THAT(verdict.comparison.reason, HasSubstr("before the first element"));
}

TEST_F(Judge, RefusesWritesBetweenRows) {
  // Within the tensor when it is compact: only the padded layout shows it.
  const Verdict verdict = spoiled([](Arguments& a) {
    const TensorView y = a.tensor("y").view();
    if (y.strides[0] > y.shape[1]) element(a, "y", 1, 6)[1] = 0;
  });
  EXPECT_THAT(verdict.comparison.reason, HasSubstr("padding between rows"));
  EXPECT_EQ(verdict.layout, "padded");
}

TEST_F(Judge, RefusesAChangedInput) {
  const Verdict verdict = spoiled([](Arguments& a) {
    if (a.aliases.empty()) *element(a, "x", 2, 2) = 0;
  });
  EXPECT_EQ(verdict.comparison.reason, "changed an input");
}

TEST_F(Judge, RefusesResultsThatDifferBetweenRuns) {
  // Both within the tolerance, but not the same bits.
  int run = 0;
  const Verdict verdict = spoiled([&](Arguments& a) {
    float* value = element(a, "y", 2, 3);
    if (run++ % 2 == 1) *value = std::nextafter(*value, 1e9f);
  });
  EXPECT_EQ(verdict.comparison.reason, "two runs on the same inputs differ");
  EXPECT_EQ(verdict.comparison.first_bad, 2 * 7 + 3);
}

TEST_F(Judge, RefusesAKernelThatIgnoresStrides) {
  const Verdict verdict =
      judge({op_, inputs_, expected_, {1e-6, 1e-6, 1e-6, ""}}, [&](Arguments& arguments) -> Status {
        const TensorView x = arguments.tensor("x").view();
        auto* from = static_cast<float*>(x.data);
        auto* to = static_cast<float*>(arguments.tensor("y").data());
        auto* sum = static_cast<float*>(arguments.tensor("z").data());
        for (int64_t i = 0; i < x.numel(); ++i) sum[i] += from[i], to[i] = 2 * from[i];
        return {};
      });
  EXPECT_FALSE(verdict.pass());
  EXPECT_EQ(verdict.layout, "padded");
}

TEST_F(Judge, RefusesAKernelThatCannotWorkInPlace) {
  const Verdict verdict =
      judge({op_, inputs_, expected_, {1e-6, 1e-6, 1e-6, ""}}, [&](Arguments& arguments) -> Status {
        const TensorView x = arguments.tensor("x").view();
        for (int64_t row = 0; row < x.shape[0]; ++row)
          for (int64_t column = 0; column < x.shape[1]; ++column)
            *element(arguments, "y", row, column) = 0;
        correct(arguments);
        return {};
      });
  EXPECT_FALSE(verdict.pass());
  EXPECT_EQ(verdict.layout, "in place");
}

TEST_F(Judge, PassesOnTheKernelsOwnError) {
  Diag refusal;
  refusal.code = ErrorCode::kStride;
  refusal.message = "a stride it does not take";
  const Verdict verdict =
      judge({op_, inputs_, expected_, {}}, [&](Arguments&) -> Status { return refusal; });
  EXPECT_THAT(verdict.comparison.reason, HasSubstr("RT-C006"));
}

}  // namespace
}  // namespace rooftile::check
