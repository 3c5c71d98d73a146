// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <string_view>
#include <utility>

namespace rooftile::bench {

// Every peer that `table` (entries {op, make}) has for the request's operator. `why_none` says why
// the result is empty, and is empty when it is not.
template <class Peers, class Table, class Request>
Peers make_from_table(const Table& table, const Request& request, std::string& why_none) {
  Peers out;
  for (const auto& entry : table) {
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

template <class Table>
bool table_has(const Table& table, std::string_view op) {
  for (const auto& entry : table)
    if (entry.op == op) return true;
  return false;
}

}  // namespace rooftile::bench
