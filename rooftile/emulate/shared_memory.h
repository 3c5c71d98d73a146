// SPDX-License-Identifier: Apache-2.0
// The shared memory of one CTA, with the history of every byte: who wrote it last, and who has
// read it since.
//
// Offsets count from the start of the CTA's window. An access is checked against the history and
// then becomes part of it, in one call. Asynchronous operations are recorded when they are issued:
// from then on their bytes belong to them, whenever the bytes land.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "rooftile/emulate/clock.h"

namespace rooftile::emulate {

// The eyes through which an access looks at history: a lane, all lanes of a warp, or a clock.
class Viewer {
 public:
  static Viewer lane(const WarpClock& warp, int lane, bool async) {
    return {&warp, lane, nullptr, async};
  }
  static Viewer all_lanes(const WarpClock& warp, bool async) { return {&warp, -1, nullptr, async}; }
  static Viewer of(const Clock& clock, bool async) { return {nullptr, -1, &clock, async}; }

  bool covers(const Stamp& s) const {
    if (warp_ == nullptr) return clock_->covers(s);
    return lane_ < 0 ? warp_->covers_for_all(s) : warp_->covers(s, lane_);
  }
  bool async() const { return async_; }  // acts through the async proxy

 private:
  Viewer(const WarpClock* warp, int lane, const Clock* clock, bool async)
      : warp_(warp), clock_(clock), lane_(lane), async_(async) {}
  const WarpClock* warp_;
  const Clock* clock_;
  int lane_;
  bool async_;
};

struct Conflict {
  enum Kind : uint8_t {
    kUninitialised,
    kAfterWrite,  // an earlier write is not ordered before this access
    kAfterRead,   // an earlier read is not ordered before this write
    kUnfenced,    // an earlier generic write has passed no proxy fence
  };
  Kind kind;
  Stamp earlier;
  int64_t offset;
};

// A reader that is not one lane: the agent, and the lanes that read.
struct Reader {
  Stamp stamp;
  uint32_t lanes;   // all of them with stamp's epoch
  uint32_t synced;  // accesses of the agent up to this epoch are covered by any later one of it
};

class SharedMemory {
 public:
  SharedMemory(int64_t bytes, const Agents* agents);
  int64_t size() const { return static_cast<int64_t>(bytes_.size()); }
  uint8_t* data(int64_t offset) { return bytes_.data() + offset; }
  const uint8_t* data(int64_t offset) const { return bytes_.data() + offset; }

  std::optional<Conflict> read(const Viewer& who, int64_t offset, int64_t count,
                               const Reader& reader);
  std::optional<Conflict> write(const Viewer& who, int64_t offset, int64_t count, Stamp stamp);
  // Bytes still stamped `from` become `to`: copies that are now known to their thread.
  void restamp(int64_t offset, int64_t count, Stamp from, Stamp to);
  Stamp writer(int64_t offset) const {
    return Stamp::from_bits(wrote_[static_cast<size_t>(offset)]);
  }

 private:
  struct Entry {
    Agent agent;
    int pc;
    uint32_t epoch, lanes;
  };
  using Set = std::vector<Entry>;
  static constexpr uint64_t kSetBit = uint64_t{1} << 63;

  uint64_t add_reader(uint64_t readers, const Reader& reader);
  uint64_t insert(Set set, const Reader& reader);
  std::optional<Stamp> uncovered_reader(const Viewer& who, uint64_t readers) const;
  bool fenced(const Viewer& who, Stamp write) const;
  void collect();  // forgets the sets that no byte refers to

  struct Key {
    uint64_t readers, stamp;
    uint32_t lanes;
    bool operator==(const Key&) const = default;
  };
  struct KeyHash {
    size_t operator()(const Key& k) const {
      return (k.readers * 0x9E3779B97F4A7C15ull) ^ (k.stamp * 0xC2B2AE3D27D4EB4Full) ^ k.lanes;
    }
  };

  const Agents* agents_;
  std::vector<uint8_t> bytes_;
  std::vector<uint64_t> wrote_;    // Stamp bits
  std::vector<uint64_t> readers_;  // 0, the Stamp of one lane, or kSetBit | index into sets_
  std::vector<Set> sets_;
  std::unordered_map<Key, uint64_t, KeyHash> steps_;  // readers + reader -> readers
};

}  // namespace rooftile::emulate
