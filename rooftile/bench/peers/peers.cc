// SPDX-License-Identifier: Apache-2.0
#include "rooftile/bench/peers/peers.h"

#include "rooftile/bench/peers/peer_table.h"

namespace rooftile::bench {

std::vector<std::unique_ptr<Peer>> make_peers(const PeerRequest& request, std::string& why_none) {
  std::vector<std::unique_ptr<Peer>> out;
  for (const PeerEntry& entry : peer_table()) {
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
  for (const PeerEntry& entry : peer_table())
    if (entry.op == op) return true;
  return false;
}

}  // namespace rooftile::bench
