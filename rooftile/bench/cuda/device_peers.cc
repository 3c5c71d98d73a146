// SPDX-License-Identifier: Apache-2.0
// Which library competes with which operator on a GPU: the one table.
#include "rooftile/bench/cuda/device_peers.h"

#include <array>

#include "rooftile/bench/cuda/cublaslt_gemm.h"
#include "rooftile/bench/peers/make_from_table.h"

namespace rooftile::bench {
namespace {

struct Entry {
  std::string_view op;
  Result<std::unique_ptr<DevicePeer>> (*make)(const DevicePeerRequest&);
};

constexpr std::array kPeers = {
    Entry{"gemm", cublaslt_gemm},
    Entry{"gemm_batched", cublaslt_gemm},
    Entry{"gemm_fp8", cublaslt_gemm},
};

}  // namespace

std::vector<std::unique_ptr<DevicePeer>> make_device_peers(const DevicePeerRequest& request,
                                                           std::string& why_none) {
  return make_from_table<std::vector<std::unique_ptr<DevicePeer>>>(kPeers, request, why_none);
}

bool has_device_peer(std::string_view op) { return table_has(kPeers, op); }

}  // namespace rooftile::bench
