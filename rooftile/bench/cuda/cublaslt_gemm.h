// SPDX-License-Identifier: Apache-2.0
// cuBLASLt as the peer of gemm, gemm_batched and gemm_fp8.
#pragma once

#include "rooftile/bench/cuda/cublaslt.h"
#include "rooftile/bench/cuda/device_peers.h"

namespace rooftile::bench {

Result<std::unique_ptr<DevicePeer>> cublaslt_gemm(const DevicePeerRequest& request);

// What the library would be asked for; RT-C015 with the reason where it cannot compute exactly
// this.
Result<MatmulShape> cublaslt_shape(const OpDef& op, const RefCall& call);

// The fastest of the algorithms that the library proposes for a product, each timed a few times
// over all sets: what its documentation tells those to do who call one shape many times.
Result<size_t> fastest_algorithm(const cuda::Device& device, cuda::abi::Stream stream,
                                 Matmul& matmul, const std::vector<MatmulOperands>& sets,
                                 void* workspace);

}  // namespace rooftile::bench
