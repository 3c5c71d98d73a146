// SPDX-License-Identifier: Apache-2.0
// Address maps made of XOR: linear algebra over F2, the field of bits.
//
// A swizzled layout computes each bit of an address as the XOR of some bits of the index. Such a
// map is a matrix of bits, here one word a column: what the input's bit j contributes. It is
// injective exactly if its columns are independent, and onto exactly if its rank is the number of
// address bits: no solver, no enumeration. The linear-layouts view of Zhou et al.,
// arXiv:2505.23819.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

namespace rooftile::verify {

class F2Map {
 public:
  F2Map() = default;
  explicit F2Map(std::vector<uint64_t> columns) : columns_(std::move(columns)) {}
  // The map that `f` computes on `inputs` bits, if it is one: f(0) = 0 and f is the XOR of what
  // single bits give. All 2^inputs arguments are tried where that is at most 2^20, else nullopt.
  static std::optional<F2Map> of(int inputs, const std::function<uint64_t(uint64_t)>& f);

  int inputs() const { return static_cast<int>(columns_.size()); }
  const std::vector<uint64_t>& columns() const { return columns_; }
  uint64_t operator()(uint64_t x) const;
  F2Map after(const F2Map& first) const;  // x -> (*this)(first(x)); bits beyond inputs() are lost

  int rank() const;
  bool is_injective() const { return rank() == inputs(); }
  // An x != 0 with map(x) == 0, so that y and y ^ x collide for every y.
  std::optional<uint64_t> kernel() const;
  // The least x with map(x) == y.
  std::optional<uint64_t> solve(uint64_t y) const;

 private:
  std::vector<uint64_t> columns_;
};

// Two points of the box 0 <= x[i] < extents[i] with one value, by looking at all of them (at most
// `limit`; `complete` says whether that was enough). Points are in row-major order.
struct Collision {
  std::vector<int64_t> first, second;
  int64_t value = 0;
};
struct BoxScan {
  bool complete = false;
  std::optional<Collision> collision;
};
BoxScan find_collision(const std::vector<int64_t>& extents,
                       const std::function<int64_t(const std::vector<int64_t>&)>& f,
                       int64_t limit = 1 << 20);

}  // namespace rooftile::verify
