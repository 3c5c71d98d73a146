// SPDX-License-Identifier: Apache-2.0
// The tensors of a launch: bounds per dimension, history of every element, and tensor maps.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "rooftile/emulate/clock.h"
#include "rooftile/emulate/emulate.h"
#include "rooftile/emulate/fault.h"
#include "rooftile/emulate/shared_memory.h"
#include "rooftile/emulate/zeroed_array.h"

namespace rooftile::emulate {

// `launch` with strides ("x.s0"), dims and scalars completed from the tensors, checked against the
// program: names, ranks, dtypes, extents, alignment.
Result<Launch> resolve(const lanes::Program& program, const Launch& launch);

struct Tensor {
  const lanes::TensorUse* use = nullptr;
  uint8_t* data = nullptr;
  int elem_bytes = 0;
  std::vector<int64_t> shape, strides;
  int64_t span = 0;  // elements from the first to past the last
  bool initialised = true;
  // Of tensors that the kernel writes, by element of the span: the last write, and one more than
  // the number of the cluster that made it, or 0.
  ZeroedArray<uint64_t> wrote;
  ZeroedArray<int32_t> writer;
  int cluster(size_t element) const { return writer[element] - 1; }  // -1: nobody has written it
  // Of tensors through which clusters may talk: by element, the release that its last write was a
  // part of; 0: of none yet.
  ZeroedArray<uint32_t> release;
  // Whether there is anything to check when it is read.
  bool has_history() const { return use->written || !initialised || use->workspace; }
  // The element offset, or a fault if `index` is out of bounds. `width` along the last dimension.
  int64_t offset(const int64_t* index, int64_t width, int lane) const;
};

// A tensor map as encoded for this launch: dimensions innermost first.
struct TensorMap {
  const lanes::TensorMapUse* use = nullptr;
  Tensor* tensor = nullptr;
  std::vector<int64_t> box;
  int64_t inner_bytes = 0, box_bytes = 0, rows = 0;  // rows: of inner_bytes each
};

// One row of a box: where it lies in the tensor, how much of it does, and where in the box.
struct BoxRow {
  int64_t element = 0;           // offset of the first element that exists
  int64_t first = 0, count = 0;  // elements [first, first + count) of the row exist
};

class GlobalMemory {
 public:
  static Result<GlobalMemory> create(const lanes::Program& program, const Launch& launch);

  Tensor& tensor(int index) { return tensors_[static_cast<size_t>(index)]; }
  const TensorMap& map(int index) const { return maps_[static_cast<size_t>(index)]; }

  // Race and initialisation checks of `count` elements from `offset`; writes are recorded.
  void read(const Tensor& t, int64_t offset, int64_t count, int cluster, const Viewer& who,
            int lane);
  void write(Tensor& t, int64_t offset, int64_t count, int cluster, const Viewer& who, Stamp stamp);
  // By an atomic operation: races with plain accesses only.
  void atomic(Tensor& t, int64_t offset, int cluster, Stamp stamp);
  // An atomic operation that releases: what `who` knows to be written by its cluster may be read by
  // whoever acquires the element.
  void release(Tensor& t, int64_t offset, int cluster, const Viewer& who, Stamp stamp);
  // A thread of `cluster`, by `stamp`, acquires what has been released on the element.
  void acquire(const Tensor& t, int64_t offset, int cluster, Stamp stamp);
  // The first element of a tensor that should be zero when the kernel ends and is not.
  std::optional<std::string> not_zero() const;
  // By tensor that held nothing: the first element that nobody has written.
  std::map<std::string, std::string> unwritten() const;
  const std::map<std::string, std::string>& rewritten() const { return rewritten_; }

  // Row `row` of the box at `coords` (innermost first).
  BoxRow box_row(const TensorMap& map, const std::vector<int64_t>& coords, int64_t row) const;

 private:
  // A run of elements that a cluster wrote and has not released.
  struct Written {
    Tensor* tensor;
    int64_t offset, count;
    Stamp stamp;
  };
  struct Acquired {
    const Tensor* tensor;
    int64_t offset;
    uint32_t latest;  // release
    Stamp stamp;
  };
  struct Release {
    const Tensor* tensor;
    int64_t offset;
  };
  bool ordered(const Tensor& t, size_t element, int cluster, const Viewer& who) const;

  std::vector<Tensor> tensors_;
  std::vector<TensorMap> maps_;
  std::vector<Release> all_releases_ = {{}};       // by number, from 1
  std::map<int, std::vector<Written>> written_;    // by cluster
  std::map<int, std::vector<Acquired>> acquired_;  // by cluster
  std::map<std::string, std::string> rewritten_;
  bool has_tickets_ = false;  // atomics that return a value order what the emulator does not model
};

// Byte offset of 16-byte chunk `chunk` of row `row` under a swizzle, in a box of `inner` bytes a
// row whose first byte is at shared address `address`; returned as an address.
uint32_t swizzled(lanes::Swizzle swizzle, uint32_t address);

}  // namespace rooftile::emulate
