// SPDX-License-Identifier: Apache-2.0
// Which library competes with which operator: the one table.
#include "rooftile/bench/peers/peers.h"

#include <array>

#include "rooftile/bench/peers/onednn.h"
#include "rooftile/bench/peers/openblas_gemm.h"

namespace rooftile::bench {
namespace {

struct Entry {
  std::string_view op;
  Result<std::unique_ptr<Peer>> (*make)(const PeerRequest&);
};

constexpr std::array kPeers = {
    Entry{"gemm", onednn_gemm},         Entry{"gemm", openblas_gemm},
    Entry{"gemm_batched", onednn_gemm}, Entry{"gated_mlp", onednn_gated_mlp},
    Entry{"softmax", onednn_softmax},   Entry{"layer_norm", onednn_layer_norm},
};

}  // namespace

std::vector<std::unique_ptr<Peer>> make_peers(const PeerRequest& request, std::string& why_none) {
  std::vector<std::unique_ptr<Peer>> out;
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

bool has_peer(std::string_view op) {
  for (const Entry& entry : kPeers)
    if (entry.op == op) return true;
  return false;
}

}  // namespace rooftile::bench
