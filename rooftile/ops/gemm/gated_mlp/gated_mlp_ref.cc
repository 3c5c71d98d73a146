// SPDX-License-Identifier: Apache-2.0
#include "rooftile/ops/gemm/gated_mlp/gated_mlp_ref.h"

#include "rooftile/ops/gemm/gemm_reference.h"

namespace rooftile::ops {

GatePair gate_and_up_f64(const RefCall& call) {
  const int64_t M = call.dim("M"), I = call.dim("I"), K = call.dim("K");
  const double* x = call["x"].data.data();
  GatePair pair;
  for (NdArray* part : {&pair.activated, &pair.up})
    *part = {{M, I}, std::vector<double>(static_cast<size_t>(M * I), 0.0)};
  matmul_f64(x, call["w_gate"].data.data(), false, M, I, K, pair.activated.data.data());
  matmul_f64(x, call["w_up"].data.data(), false, M, I, K, pair.up.data.data());
  // silu, gelu and gelu_tanh are the third to fifth of activation_f64's functions.
  const int64_t activation = call.config.flag("activation") + 2;
  for (double& gate : pair.activated.data) gate = activation_f64(gate, activation);
  return pair;
}

void gated_mlp_ref(RefCall& call) {
  const GatePair pair = gate_and_up_f64(call);
  NdArray& out = call["out"];
  for (size_t i = 0; i < out.data.size(); ++i)
    out.data[i] = pair.activated.data[i] * pair.up.data[i];
}

}  // namespace rooftile::ops
