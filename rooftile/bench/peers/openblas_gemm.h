// SPDX-License-Identifier: Apache-2.0
// OpenBLAS as a peer: sgemm.
#pragma once

#include "rooftile/bench/peers/peers.h"

namespace rooftile::bench {

Result<std::unique_ptr<Peer>> openblas_gemm(const PeerRequest& request);

}  // namespace rooftile::bench
