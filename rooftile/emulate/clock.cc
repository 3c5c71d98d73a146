// SPDX-License-Identifier: Apache-2.0
#include "rooftile/emulate/clock.h"

#include <algorithm>

namespace rooftile::emulate {

void Known::join(const Known& other) {
  all = std::max(all, other.all);
  if (other.part > all) {
    mask = part > all ? mask | other.mask : other.mask;
    part = std::max(part, other.part);
  }
  if (part <= all) part = mask = 0;
}

void Known::meet(const Known& other) {
  const Known mine = *this;
  all = std::min(all, other.all);
  // Of each lane, the smaller of what the two know; lanes that only one side names fall to `all`.
  const uint32_t from_all_mine = mine.all > all ? kAllLanes : mine.mask;
  const uint32_t from_all_other = other.all > all ? kAllLanes : other.mask;
  mask = from_all_mine & from_all_other;
  part = std::min(std::max(mine.all, mine.part), std::max(other.all, other.part));
  if (part <= all || mask == 0) part = mask = 0;
}

Known& Clock::at(Agent agent) {
  if (agent >= known_.size()) known_.resize(agent + 1);
  return known_[agent];
}

void Clock::join(const Clock& other) {
  if (other.known_.size() > known_.size()) known_.resize(other.known_.size());
  for (size_t i = 0; i < other.known_.size(); ++i) known_[i].join(other.known_[i]);
}

void Clock::meet(const Clock& other) {
  if (known_.size() > other.known_.size()) known_.resize(other.known_.size());
  for (size_t i = 0; i < known_.size(); ++i) known_[i].meet(other.known_[i]);
}

Agents::Agents(int ctas, int warps_a_cta)
    : ctas_(ctas), warps_(warps_a_cta), groups_((warps_a_cta + 3) / 4) {
  infos_.push_back({});  // agent 0: nobody
  for (int cta = 0; cta < ctas; ++cta)
    for (int warp = 0; warp < warps_; ++warp)
      for (const AgentKind kind : {AgentKind::kReads, AgentKind::kWrites, AgentKind::kFencedWrites})
        infos_.push_back({kind, cta, warp});
  for (int cta = 0; cta < ctas; ++cta)
    for (int group = 0; group < groups_; ++group)
      infos_.push_back({AgentKind::kProducts, cta, group});
}

Agent Agents::add(AgentKind kind, int cta, int warp) {
  infos_.push_back({kind, cta, warp});
  return static_cast<Agent>(infos_.size() - 1);
}

Clock Agents::filtered(const Clock& from, Handing handing, int cta) const {
  Clock out = from;
  if (handing == Handing::kAll) return out;
  const Agent last =
      std::min<Agent>(static_cast<Agent>(num_warp_agents()) + 1, static_cast<Agent>(out.size()));
  for (Agent agent = 1; agent < last; ++agent) {
    const AgentInfo& who = infos_[agent];
    if (who.kind != AgentKind::kReads && (handing == Handing::kReadsOnly || who.cta != cta))
      out.at(agent) = {};
  }
  return out;
}

void WarpClock::meet_lanes() {
  if (part_mask_ != 0) {
    all_.join(part_);
    part_ = {};
    part_mask_ = 0;
  }
  synced_ = now_++;
}

Clock WarpClock::common() const {
  Clock out = all_;
  out.at(reads()).join({synced_, 0, 0});
  out.at(writes()).join({synced_, 0, 0});
  return out;
}

Clock WarpClock::release(uint32_t mask) {
  Clock out = all_;
  if ((mask & part_mask_) != 0) out.join(part_);
  const Known mine = mask == kAllLanes ? Known{now_, 0, 0} : Known{synced_, now_, mask};
  out.at(reads()).join(mine);
  out.at(writes()).join(mine);
  ++now_;
  return out;
}

void WarpClock::acquire(uint32_t mask, const Clock& from) {
  if (mask == kAllLanes) {
    all_.join(from);
  } else {
    part_.join(from);
    part_mask_ |= mask;
  }
}

void WarpClock::acquire(uint32_t mask, Agent agent, uint32_t epoch) {
  (mask == kAllLanes ? all_ : part_).at(agent).join({epoch, 0, 0});
  if (mask != kAllLanes) part_mask_ |= mask;
}

void WarpClock::fence_proxy(uint32_t mask, int num_warp_agents) {
  Clock& into = mask == kAllLanes ? all_ : part_;
  for (Agent writer = 2; writer < static_cast<Agent>(num_warp_agents) + 1; writer += 3) {
    Known known = all_.get(writer);
    if ((mask & part_mask_) != 0) known.join(part_.get(writer));
    if (writer == writes())
      known.join(mask == kAllLanes ? Known{now_, 0, 0} : Known{synced_, now_, mask});
    into.at(writer + 1).join(known);
  }
  if (mask != kAllLanes) part_mask_ |= mask;
  ++now_;
}

}  // namespace rooftile::emulate
