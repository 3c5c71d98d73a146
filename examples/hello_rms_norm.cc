// SPDX-License-Identifier: Apache-2.0
// The typed interface: RMSNorm of two rows, and what a mistake looks like.
#include <cmath>
#include <cstdio>
#include <vector>

#include "rooftile/ops.h"

int main() {
  using rooftile::DType;
  using rooftile::TensorView;
  constexpr int64_t kTokens = 2, kHidden = 8;
  std::vector<float> x(kTokens * kHidden), weight(kHidden, 1.0f), out(kTokens * kHidden);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i) - 7.5f;

  const TensorView x_view(x.data(), DType::kF32, {kTokens, kHidden});
  const TensorView weight_view(weight.data(), DType::kF32, {kHidden});
  const TensorView out_view(out.data(), DType::kF32, {kTokens, kHidden});

  rooftile::Status status = rooftile::ops::rms_norm(out_view, x_view, weight_view, {.eps = 1e-6f});
  if (!status.ok()) {
    std::fprintf(stderr, "%s\n", status.str().c_str());
    return 1;
  }
  // With unit weights, every row now has a mean square of 1.
  for (int64_t token = 0; token < kTokens; ++token) {
    float mean_square = 0;
    for (int64_t h = 0; h < kHidden; ++h) {
      const float y = out[static_cast<size_t>(token * kHidden + h)];
      mean_square += y * y / kHidden;
    }
    std::printf("row %d: mean square %.6f\n", static_cast<int>(token),
                static_cast<double>(mean_square));
    if (!(std::fabs(mean_square - 1.0f) < 1e-4f)) return 1;
  }

  const TensorView short_weight(weight.data(), DType::kF32, {kHidden - 1});
  status = rooftile::ops::rms_norm(out_view, x_view, short_weight);
  std::printf("\na weight that is too short is refused, and nothing is written:\n%s\n",
              status.str().c_str());
  return status.ok() ? 1 : 0;
}
