// SPDX-License-Identifier: Apache-2.0
#include "rooftile/verify/protocol/access.h"

#include <algorithm>
#include <bit>

namespace rooftile::verify::protocol {
namespace {

// Cut at every end, lanes of equal cuts put together, equal neighbours joined.
std::vector<Run> disjoint(std::vector<Run> runs) {
  std::sort(runs.begin(), runs.end());
  std::vector<int32_t> ends;
  ends.reserve(2 * runs.size());
  for (const Run& r : runs) ends.insert(ends.end(), {r.begin, r.end});
  std::sort(ends.begin(), ends.end());
  ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
  std::vector<Run> out;
  std::vector<const Run*> open;
  size_t next = 0;
  for (size_t i = 0; i + 1 < ends.size(); ++i) {
    while (next < runs.size() && runs[next].begin <= ends[i]) open.push_back(&runs[next++]);
    std::erase_if(open, [&](const Run* r) { return r->end <= ends[i]; });
    uint32_t lanes = 0;
    for (const Run* r : open) lanes |= r->lanes;
    if (lanes == 0) continue;
    if (!out.empty() && out.back().end == ends[i] && out.back().lanes == lanes)
      out.back().end = ends[i + 1];
    else
      out.push_back({ends[i], ends[i + 1], lanes});
  }
  return out;
}

}  // namespace

AccessId Accesses::intern(SumId sum, bool may, std::vector<Run> runs, std::vector<Run> hull) {
  Key key{sum, may, disjoint(std::move(runs)), disjoint(std::move(hull))};
  const auto it = ids_.find(key);
  if (it != ids_.end()) return it->second;
  const AccessId id = static_cast<AccessId>(accesses_.size());
  Access a;
  a.sum = sum;
  a.may = may;
  a.runs = key.runs;
  a.hull = key.hull;
  for (const Run& r : a.runs) a.lanes |= r.lanes;
  accesses_.push_back(std::move(a));
  ids_.emplace(std::move(key), id);
  return id;
}

AccessId Accesses::joined(std::vector<AccessId> parts) {
  std::sort(parts.begin(), parts.end());
  parts.erase(std::unique(parts.begin(), parts.end()), parts.end());
  if (parts.size() == 1) return parts[0];
  if (const auto it = joined_.find(parts); it != joined_.end()) return it->second;
  std::vector<Run> runs, hull;
  for (const AccessId part : parts) {
    const Access& a = (*this)[part];
    runs.insert(runs.end(), a.runs.begin(), a.runs.end());
    hull.insert(hull.end(), a.hull.begin(), a.hull.end());
  }
  const Access& first = (*this)[parts[0]];
  const AccessId id = intern(first.sum, first.may, std::move(runs), std::move(hull));
  joined_.emplace(std::move(parts), id);
  return id;
}

AccessId Accesses::with_sum(AccessId id, SumId sum) {
  const Access a = (*this)[id];
  return intern(sum, a.may, a.runs, a.hull);
}

AccessId Accesses::widened(AccessId id) {
  const Access a = (*this)[id];
  return a.sum == kNoSum ? id : intern(kNoSum, true, a.hull, {});
}

Overlap Accesses::overlap(AccessId a, AccessId b) {
  const auto [it, is_new] = overlaps_.emplace(pair(a, b), Overlap());
  if (!is_new) return it->second;
  const Access &x = (*this)[a], &y = (*this)[b];
  const bool relative = x.sum == y.sum;
  const std::vector<Run>& p = relative ? x.runs : x.widest();
  const std::vector<Run>& q = relative ? y.runs : y.widest();
  Overlap out;
  for (size_t i = 0, j = 0; i < p.size() && j < q.size() && !out.lanes_differ;) {
    if (p[i].begin < q[j].end && q[j].begin < p[i].end) {
      out.any = true;
      out.lanes_differ = !std::has_single_bit(p[i].lanes | q[j].lanes);
    }
    if (p[i].end < q[j].end)
      ++i;
    else
      ++j;
  }
  return it->second = out;
}

bool Accesses::self_crossing(AccessId a) const {
  const std::vector<Run>& runs = (*this)[a].runs;
  return std::any_of(runs.begin(), runs.end(),
                     [](const Run& r) { return !std::has_single_bit(r.lanes); });
}

bool Accesses::covers(AccessId whole, AccessId part) {
  const auto [it, is_new] = covers_.emplace(pair(whole, part), false);
  if (!is_new) return it->second;
  const Access &x = (*this)[whole], &y = (*this)[part];
  if (x.may || (x.sum != kNoSum && x.sum != y.sum)) return false;
  const std::vector<Run>& q = x.sum == y.sum ? y.runs : y.widest();
  size_t i = 0;
  for (const Run& r : q) {
    int32_t at = r.begin;
    while (i > 0 && x.runs[i - 1].end > at) --i;
    while (at < r.end) {
      while (i < x.runs.size() && x.runs[i].end <= at) ++i;
      if (i == x.runs.size() || x.runs[i].begin > at) return false;
      at = x.runs[i].end;
    }
  }
  return it->second = true;
}

ExtentId Accesses::extended(ExtentId extent, AccessId a) {
  const Access& access = (*this)[a];
  if (access.may || access.sum != kNoSum) return extent;
  const auto [it, is_new] = extended_.emplace(pair(extent, a), extent);
  if (!is_new) return it->second;
  Extent all = extents_[static_cast<size_t>(extent)];
  for (const Run& r : access.runs) all.emplace_back(r.begin, r.end);
  std::sort(all.begin(), all.end());
  Extent out;
  for (const auto& [begin, end] : all) {
    if (!out.empty() && begin <= out.back().second)
      out.back().second = std::max(out.back().second, end);
    else
      out.emplace_back(begin, end);
  }
  const auto [known, fresh] = extent_ids_.emplace(out, static_cast<ExtentId>(extents_.size()));
  if (fresh) extents_.push_back(std::move(out));
  return it->second = known->second;
}

ExtentId Accesses::without(ExtentId extent, int32_t begin, int32_t end) {
  Extent out;
  for (const auto& [from, to] : extents_[static_cast<size_t>(extent)]) {
    if (from < begin) out.emplace_back(from, std::min(to, begin));
    if (to > end) out.emplace_back(std::max(from, end), to);
  }
  const auto [known, fresh] = extent_ids_.emplace(out, static_cast<ExtentId>(extents_.size()));
  if (fresh) extents_.push_back(std::move(out));
  return known->second;
}

// The first byte of `a` that is not in the extent; -1: none.
int32_t Accesses::first_outside(ExtentId extent, AccessId a) const {
  const Extent& e = extents_[static_cast<size_t>(extent)];
  for (const Run& r : (*this)[a].widest()) {
    auto it = std::upper_bound(e.begin(), e.end(), std::pair(r.begin, INT32_MAX));
    if (it == e.begin() || std::prev(it)->second < r.end) {
      return it == e.begin() ? r.begin : std::max(r.begin, std::prev(it)->second);
    }
  }
  return -1;
}

bool Accesses::contains(ExtentId extent, AccessId a) {
  const auto [it, is_new] = contains_.emplace(pair(extent, a), false);
  if (is_new) it->second = first_outside(extent, a) < 0;
  return it->second;
}

}  // namespace rooftile::verify::protocol
