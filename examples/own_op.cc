// SPDX-License-Identifier: Apache-2.0
// An operator of your own, in one file: declared, written as a tile program, compiled, called and
// checked.
//
//   out[t, c] = max(0, x[t, c] * scale[c] + bias[c]) / ||row||_2     a fused scale, bias, ReLU and
//   row normalisation
//
// The declaration is a full contract: the generated launcher checks every argument against it.
#include <cmath>
#include <cstdio>
#include <random>
#include <vector>

#include "rooftile/api.h"
#include "rooftile/ops/op_def.h"

namespace {

using rooftile::Config;
using rooftile::DType;
using rooftile::Expr;
using rooftile::OpDef;
using rooftile::TensorView;
namespace dsl = rooftile::dsl;

// The algorithm. Rows are independent; how they are blocked, vectorised and threaded is not said
// here.
void scale_relu_norm_rows(dsl::Kernel& k, const Config&) {
  const dsl::Index tokens = k.dim("T"), channels = k.dim("C");
  k.tiles({"row", tokens}, [&](dsl::Index row) {
    dsl::Tile x = k.load(k["x"](row, dsl::all), "x");  // [C] f32
    dsl::Tile y = dsl::max(x * k.load(k["scale"](dsl::all)) + k.load(k["bias"](dsl::all)), 0.0);
    dsl::Tile inverse_norm = dsl::rsqrt(dsl::sum(y * y) + k.scalar("eps"));  // [1]
    k.store(k["out"](row, dsl::all), y * inverse_norm);
  });
}

OpDef scale_relu_norm() {
  const Expr tokens = Expr::sym("T"), channels = Expr::sym("C");
  return OpDef("own", "scale_relu_norm", "relu(x * scale + bias), each row scaled to unit length")
      .out(
          {.name = "out", .shape = {tokens, channels}, .dtypes = {DType::kF32}, .may_alias = {"x"}})
      .in({.name = "x", .shape = {tokens, channels}, .dtypes = {DType::kF32}})
      .in({.name = "scale", .shape = {channels}, .dtypes = {DType::kF32}})
      .in({.name = "bias", .shape = {channels}, .dtypes = {DType::kF32}})
      .attr({.name = "eps", .default_value = 1e-12, .min = 0, .max = 1, .has_range = true})
      .kernel({.name = "row", .build = scale_relu_norm_rows});
}

// The same in double precision, one element at a time.
double worst_error(const std::vector<float>& out, const std::vector<float>& x,
                   const std::vector<float>& scale, const std::vector<float>& bias, size_t tokens,
                   size_t channels) {
  double worst = 0;
  for (size_t t = 0; t < tokens; ++t) {
    std::vector<double> y(channels);
    double square = 1e-12;
    for (size_t c = 0; c < channels; ++c) {
      y[c] = std::fmax(0.0, double{x[t * channels + c]} * double{scale[c]} + double{bias[c]});
      square += y[c] * y[c];
    }
    for (size_t c = 0; c < channels; ++c)
      worst = std::fmax(worst, std::fabs(double{out[t * channels + c]} - y[c] / std::sqrt(square)));
  }
  return worst;
}

}  // namespace

int main() {
  constexpr size_t kTokens = 37, kChannels = 200;  // nothing here is a multiple of a vector
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  auto fill = [&](size_t count) {
    std::vector<float> values(count);
    for (float& v : values) v = normal(random);
    return values;
  };
  std::vector<float> x = fill(kTokens * kChannels), scale = fill(kChannels), bias = fill(kChannels);
  std::vector<float> out(x.size(), NAN);

  const TensorView x_view(x.data(), DType::kF32, {kTokens, kChannels});
  const TensorView out_view(out.data(), DType::kF32, {kTokens, kChannels});
  const TensorView scale_view(scale.data(), DType::kF32, {kChannels});
  const TensorView bias_view(bias.data(), DType::kF32, {kChannels});

  const OpDef& op = rooftile::keep(scale_relu_norm());
  rooftile::Status status = rooftile::call(
      op, {{"out", out_view}, {"x", x_view}, {"scale", scale_view}, {"bias", bias_view}},
      {{"eps", 1e-12}});
  if (!status.ok()) {
    std::fprintf(stderr, "%s\n", status.str().c_str());
    return 1;
  }
  const double error = worst_error(out, x, scale, bias, kTokens, kChannels);
  std::printf("scale_relu_norm of %zu x %zu: worst error %.2e\n", kTokens, kChannels, error);
  if (!(error < 1e-6)) return 1;

  // The contract came with the declaration: an output over part of an input is refused.
  const TensorView overlapping(x.data() + 1, DType::kF32, {kTokens - 1, kChannels});
  const TensorView fewer_rows(x.data(), DType::kF32, {kTokens - 1, kChannels});
  status = rooftile::call(
      op, {{"out", overlapping}, {"x", fewer_rows}, {"scale", scale_view}, {"bias", bias_view}});
  std::printf("\n%s\n", status.str().c_str());
  return status.ok() ? 1 : 0;
}
