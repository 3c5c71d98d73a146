// SPDX-License-Identifier: Apache-2.0
#include "rooftile/bench/peers/peers.h"

#include "rooftile/bench/peers/make_from_table.h"
#include "rooftile/bench/peers/peer_table.h"

namespace rooftile::bench {

std::vector<std::unique_ptr<Peer>> make_peers(const PeerRequest& request, std::string& why_none) {
  return make_from_table<std::vector<std::unique_ptr<Peer>>>(peer_table(), request, why_none);
}

bool has_peer(std::string_view op) { return table_has(peer_table(), op); }

}  // namespace rooftile::bench
