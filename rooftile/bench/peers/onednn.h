// SPDX-License-Identifier: Apache-2.0
// oneDNN as a peer: one maker an operator family. Each returns RT-C015 with the reason when oneDNN
// cannot compute exactly what is asked for.
#pragma once

#include "rooftile/bench/peers/peers.h"

namespace rooftile::bench {

Result<std::unique_ptr<Peer>> onednn_gemm(const PeerRequest& request);  // gemm, gemm_batched
Result<std::unique_ptr<Peer>> onednn_gated_mlp(
    const PeerRequest& request);  // two products, joined by post-operations
Result<std::unique_ptr<Peer>> onednn_softmax(const PeerRequest& request);
Result<std::unique_ptr<Peer>> onednn_layer_norm(const PeerRequest& request);

}  // namespace rooftile::bench
