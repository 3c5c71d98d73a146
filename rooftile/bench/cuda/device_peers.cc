// SPDX-License-Identifier: Apache-2.0
// Which library competes with which operator on a GPU: the one table.
#include "rooftile/bench/cuda/device_peers.h"

#include <array>

#include "rooftile/bench/cuda/cublaslt_gemm.h"

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
  std::vector<std::unique_ptr<DevicePeer>> out;
  for (const Entry& entry : kPeers) {
    if (entry.op != request.op.name) continue;
    auto peer = entry.make(request);
    if (peer)
      out.push_back(std::move(*peer));
    else
      why_none += (why_none.empty() ? "" : "; ") + peer.diag().message;
  }
  if (out.empty() && why_none.empty()) why_none = "no library here has this operator as one call";
  if (!out.empty()) why_none.clear();
  return out;
}

bool has_device_peer(std::string_view op) {
  for (const Entry& entry : kPeers)
    if (entry.op == op) return true;
  return false;
}

}  // namespace rooftile::bench
