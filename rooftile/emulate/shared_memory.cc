// SPDX-License-Identifier: Apache-2.0
#include "rooftile/emulate/shared_memory.h"

#include <bit>

namespace rooftile::emulate {
namespace {

bool of_warp(AgentKind kind) { return kind == AgentKind::kReads || kind == AgentKind::kWrites; }

}  // namespace

SharedMemory::SharedMemory(int64_t bytes, const Agents* agents)
    : agents_(agents),
      bytes_(static_cast<size_t>(bytes), 0xab),
      wrote_(static_cast<size_t>(bytes)),
      readers_(static_cast<size_t>(bytes)) {}

bool SharedMemory::fenced(const Viewer& who, Stamp write) const {
  return (*agents_)[write.agent()].kind != AgentKind::kWrites ||
         who.covers(Stamp(write.agent() + 1, write.epoch(), write.lane(), 0));
}

std::optional<Conflict> SharedMemory::read(const Viewer& who, int64_t offset, int64_t count,
                                           const Reader& reader) {
  // Runs of bytes share their history: what was found for one holds for its equal neighbours.
  uint64_t good = 0, from = ~uint64_t{0}, to = 0;
  for (int64_t at = offset; at < offset + count; ++at) {
    const uint64_t wrote = wrote_[static_cast<size_t>(at)];
    if (wrote != good) {
      const Stamp write = Stamp::from_bits(wrote);
      if (!write.present()) return Conflict{Conflict::kUninitialised, write, at};
      if (!who.covers(write)) return Conflict{Conflict::kAfterWrite, write, at};
      if (who.async() && !fenced(who, write)) return Conflict{Conflict::kUnfenced, write, at};
      good = wrote;
    } else if (wrote == 0) {
      return Conflict{Conflict::kUninitialised, Stamp(), at};
    }
    uint64_t& readers = readers_[static_cast<size_t>(at)];
    if (readers != from) {
      from = readers;
      to = add_reader(readers, reader);
    }
    readers = to;
  }
  if (sets_.size() > (1u << 18)) collect();
  return std::nullopt;
}

std::optional<Conflict> SharedMemory::write(const Viewer& who, int64_t offset, int64_t count,
                                            Stamp stamp) {
  uint64_t good_write = 0, good_readers = 0;
  for (int64_t at = offset; at < offset + count; ++at) {
    uint64_t& wrote = wrote_[static_cast<size_t>(at)];
    if (wrote != good_write) {
      const Stamp write = Stamp::from_bits(wrote);
      if (write.present()) {
        if (!who.covers(write)) return Conflict{Conflict::kAfterWrite, write, at};
        if (who.async() && !fenced(who, write)) return Conflict{Conflict::kUnfenced, write, at};
      }
      good_write = wrote;
    }
    uint64_t& readers = readers_[static_cast<size_t>(at)];
    if (readers != good_readers) {
      if (const auto reader = uncovered_reader(who, readers))
        return Conflict{Conflict::kAfterRead, *reader, at};
      good_readers = readers;
    }
    wrote = stamp.bits();
    readers = 0;
  }
  return std::nullopt;
}

void SharedMemory::restamp(int64_t offset, int64_t count, Stamp from, Stamp to) {
  for (int64_t at = offset; at < offset + count; ++at)
    if (wrote_[static_cast<size_t>(at)] == from.bits()) wrote_[static_cast<size_t>(at)] = to.bits();
}

std::optional<Stamp> SharedMemory::uncovered_reader(const Viewer& who, uint64_t readers) const {
  if (readers == 0) return std::nullopt;
  if ((readers & kSetBit) == 0) {
    const Stamp one = Stamp::from_bits(readers);
    return who.covers(one) ? std::nullopt : std::optional(one);
  }
  for (const Entry& e : sets_[readers & ~kSetBit])
    for (uint32_t lanes = e.lanes; lanes != 0; lanes &= lanes - 1) {
      const Stamp one(e.agent, e.epoch, std::countr_zero(lanes), e.pc);
      if (!who.covers(one)) return one;
    }
  return std::nullopt;
}

uint64_t SharedMemory::add_reader(uint64_t readers, const Reader& reader) {
  const Stamp now = reader.stamp;
  const bool one_lane = std::has_single_bit(reader.lanes);
  if (readers == 0 && one_lane) return now.bits();
  if (readers == now.bits()) return readers;
  const Key key{readers, now.bits(), reader.lanes};
  if (const auto it = steps_.find(key); it != steps_.end()) return it->second;
  Set set;
  if ((readers & kSetBit) != 0) {
    set = sets_[readers & ~kSetBit];
  } else if (readers != 0) {
    const Stamp old = Stamp::from_bits(readers);
    set.push_back({old.agent(), old.pc(), old.epoch(), 1u << old.lane()});
  }
  const uint64_t out = insert(std::move(set), reader);
  steps_.emplace(key, out);
  return out;
}

// Reads of the same agent that any later one of it supersedes are dropped.
uint64_t SharedMemory::insert(Set set, const Reader& reader) {
  const Stamp now = reader.stamp;
  const bool lanes_matter = of_warp((*agents_)[now.agent()].kind);
  bool merged = false;
  std::erase_if(set, [&](Entry& e) {
    if (e.agent != now.agent()) return false;
    if (!lanes_matter || e.epoch <= reader.synced || (e.lanes & ~reader.lanes) == 0) return true;
    if (e.epoch == now.epoch()) {
      e.lanes |= reader.lanes;
      merged = true;
    }
    return false;
  });
  if (!merged) set.push_back({now.agent(), now.pc(), now.epoch(), reader.lanes});
  if (set.size() == 1 && std::has_single_bit(set[0].lanes))
    return Stamp(set[0].agent, set[0].epoch, std::countr_zero(set[0].lanes), set[0].pc).bits();
  sets_.push_back(std::move(set));
  return kSetBit | (sets_.size() - 1);
}

void SharedMemory::collect() {
  std::vector<Set> kept;
  std::unordered_map<uint64_t, uint64_t> moved;
  for (uint64_t& readers : readers_) {
    if ((readers & kSetBit) == 0) continue;
    const auto [it, is_new] = moved.emplace(readers, kSetBit | kept.size());
    if (is_new) kept.push_back(std::move(sets_[readers & ~kSetBit]));
    readers = it->second;
  }
  sets_ = std::move(kept);
  steps_.clear();
}

}  // namespace rooftile::emulate
