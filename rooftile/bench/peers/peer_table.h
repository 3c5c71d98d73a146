// SPDX-License-Identifier: Apache-2.0
// Which library competes with which operator: one table, in the file that the build chose
// (cpu_libraries.cc, or no_cpu_libraries.cc for a program that is to run without them).
#pragma once

#include <span>
#include <string_view>

#include "rooftile/bench/peers/peers.h"

namespace rooftile::bench {

struct PeerEntry {
  std::string_view op;
  Result<std::unique_ptr<Peer>> (*make)(const PeerRequest&);
};

std::span<const PeerEntry> peer_table();

}  // namespace rooftile::bench
