// SPDX-License-Identifier: Apache-2.0
#include <array>

#include "rooftile/bench/peers/onednn.h"
#include "rooftile/bench/peers/openblas_gemm.h"
#include "rooftile/bench/peers/peer_table.h"

namespace rooftile::bench {

std::span<const PeerEntry> peer_table() {
  static constexpr std::array kPeers = {
      PeerEntry{"gemm", onednn_gemm},         PeerEntry{"gemm", openblas_gemm},
      PeerEntry{"gemm_batched", onednn_gemm}, PeerEntry{"gated_mlp", onednn_gated_mlp},
      PeerEntry{"softmax", onednn_softmax},   PeerEntry{"layer_norm", onednn_layer_norm},
  };
  return kPeers;
}

}  // namespace rooftile::bench
