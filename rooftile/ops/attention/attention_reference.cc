// SPDX-License-Identifier: Apache-2.0
#include "rooftile/ops/attention/attention_reference.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace rooftile::ops {

double RowAttention::operator()(double* o) const {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  std::fill_n(o, depth, 0.0);
  if (last < first) return -kInf;
  const double scale = call->attr("scale"), cap = call->attr("softcap");
  std::vector<double> weights;
  double largest = -kInf;
  for (int64_t key = first; key <= last; ++key) {
    const double* row = k(key);
    double logit = 0;
    for (int64_t d = 0; d < depth; ++d) logit += q[d] * row[d];
    logit *= scale;
    if (call->config.flag("softcap_on") != 0) logit = cap * std::tanh(logit / cap);
    weights.push_back(logit);
    largest = std::max(largest, logit);
  }
  double total = 0;
  for (double& weight : weights) total += weight = std::exp(weight - largest);
  double denominator = total;
  if (call->has("sink")) denominator += std::exp((*call)["sink"]({head}) - largest);
  for (int64_t key = first; key <= last; ++key) {
    const double probability = weights[static_cast<size_t>(key - first)] / denominator;
    const double* row = v(key);
    for (int64_t d = 0; d < depth; ++d) o[d] += probability * row[d];
  }
  return largest + std::log(total);
}

}  // namespace rooftile::ops
