// SPDX-License-Identifier: Apache-2.0
// Rows in parts that a second phase joins give what whole rows give, for values that are no numbers
// or no ordinary ones too: in a part of their own, in several, everywhere.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "rooftile/check/case_inputs.h"
#include "rooftile/check/compare.h"
#include "rooftile/ir/interp.h"
#include "rooftile/ops/op_def.h"

namespace rooftile {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr int64_t kRows = 200, kColumns = 37, kPart = 8;

// Rows of few different values, so that there are ties, and of some that are special.
NdArray special_rows() {
  std::mt19937 random(5);
  NdArray x;
  x.shape = {kRows, kColumns};
  for (int64_t row = 0; row < kRows; ++row) {
    const double special[] = {-kInfinity, -kInfinity, kInfinity, kNan};
    const auto mean = random() % 4;  // which of them this row has
    const auto share = random() % 3;
    for (int64_t column = 0; column < kColumns; ++column) {
      const bool is_special = share == 2 || (share == 1 && random() % 8 == 0);
      x.data.push_back(is_special ? special[mean] : static_cast<double>(random() % 7) - 3);
    }
    if (row % 5 == 0)  // whole parts of -inf before the first number
      std::fill_n(x.data.end() - kColumns, 2 * kPart + 1, -kInfinity);
  }
  return x;
}

void expect_parts_like_rows(const std::string& name, const std::string& dtype) {
  const OpDef& op = *find_op(name);
  const auto kernel = std::find_if(op.kernels.begin(), op.kernels.end(),
                                   [](const KernelDef& k) { return k.name == "parts"; });
  ASSERT_NE(kernel, op.kernels.end());
  auto call = check::resolve_case(op, *check::parse_case("T=200 V=37 dtype=" + dtype));
  ASSERT_TRUE(call.ok()) << call.diag().str();
  ASSERT_TRUE(check::make_inputs(op, *call, 1).ok());
  (*call)["x"] = special_rows();
  RefCall expected = *call;
  op.reference_fn(expected);

  auto program = op.build(*kernel, call->config);
  ASSERT_TRUE(program.ok()) << program.diag().str();
  Env env = call->dims;
  env["BV"] = kPart;
  ir::FloatAttrs floats;
  for (const AttrDef& attr : op.attrs) floats[attr.name] = call->attr(attr.name);
  ir::InterpTensors tensors = call->tensors;
  tensors.erase("out");
  const Status status = ir::interpret(*program, env, floats, tensors,
                                      {.numerics = ir::InterpOptions::Numerics::kFloat64});
  ASSERT_TRUE(status.ok()) << status.str();
  const check::Comparison c =
      check::compare(tensors["out"], expected["out"], {1e-12, 1e-12, 0, ""});
  EXPECT_TRUE(c.pass) << check::coordinate(c.first_bad, expected["out"].shape) << ": " << c.reason
                      << ", got " << c.got << ", reference " << c.want;
}

TEST(RowParts, ArgmaxOfTiesInfinitiesAndNans) {
  for (const char* dtype : {"bf16", "f16", "f32"}) expect_parts_like_rows("argmax", dtype);
}
TEST(RowParts, SoftmaxOfInfinitiesAndNans) {
  for (const char* dtype : {"bf16", "f32"}) expect_parts_like_rows("softmax", dtype);
}

}  // namespace
}  // namespace rooftile
