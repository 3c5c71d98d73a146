// SPDX-License-Identifier: Apache-2.0
#include "rooftile/verify/arith/f2.h"

#include <algorithm>
#include <unordered_map>

namespace rooftile::verify {
namespace {

constexpr int kMostInputsTried = 20;

// A basis of the columns' span in echelon form; `combination` says of which columns each is the
// XOR.
struct Basis {
  struct Vector {
    uint64_t value, combination;
  };
  std::vector<Vector> vectors;  // by leading bit, from the highest

  // What is left of `v` after taking out basis vectors; its combination grows alongside.
  Vector reduce(Vector v) const {
    for (const Vector& b : vectors)
      if ((v.value ^ b.value) < v.value) {
        v.value ^= b.value;
        v.combination ^= b.combination;
      }
    return v;
  }
  void insert(const Vector& v) {
    vectors.insert(std::find_if(vectors.begin(), vectors.end(),
                                [&](const Vector& b) { return b.value < v.value; }),
                   v);
  }
};

}  // namespace

std::optional<F2Map> F2Map::of(int inputs, const std::function<uint64_t(uint64_t)>& f) {
  if (inputs < 0 || inputs > kMostInputsTried) return std::nullopt;
  F2Map map;
  for (int j = 0; j < inputs; ++j) map.columns_.push_back(f(uint64_t{1} << j));
  for (uint64_t x = 0; x < uint64_t{1} << inputs; ++x)
    if (f(x) != map(x)) return std::nullopt;
  return map;
}

uint64_t F2Map::operator()(uint64_t x) const {
  uint64_t y = 0;
  for (size_t j = 0; j < columns_.size(); ++j)
    if ((x >> j & 1) != 0) y ^= columns_[j];
  return y;
}

F2Map F2Map::after(const F2Map& first) const {
  F2Map map;
  for (uint64_t column : first.columns_) map.columns_.push_back((*this)(column));
  return map;
}

int F2Map::rank() const {
  Basis basis;
  for (uint64_t column : columns_)
    if (const auto left = basis.reduce({column, 0}); left.value != 0) basis.insert(left);
  return static_cast<int>(basis.vectors.size());
}

std::optional<uint64_t> F2Map::kernel() const {
  Basis basis;
  for (size_t j = 0; j < columns_.size(); ++j) {
    const auto left = basis.reduce({columns_[j], uint64_t{1} << j});
    if (left.value == 0) return left.combination;
    basis.insert(left);
  }
  return std::nullopt;
}

std::optional<uint64_t> F2Map::solve(uint64_t y) const {
  Basis basis, kernel;
  for (size_t j = 0; j < columns_.size(); ++j) {
    const auto left = basis.reduce({columns_[j], uint64_t{1} << j});
    if (left.value != 0) {
      basis.insert(left);
    } else if (const auto x = kernel.reduce({left.combination, 0}); x.value != 0) {
      kernel.insert(x);
    }
  }
  const auto left = basis.reduce({y, 0});
  if (left.value != 0) return std::nullopt;
  return kernel.reduce({left.combination, 0}).value;
}

BoxScan find_collision(const std::vector<int64_t>& extents,
                       const std::function<int64_t(const std::vector<int64_t>&)>& f,
                       int64_t limit) {
  BoxScan scan;
  scan.complete = true;
  std::vector<int64_t> at(extents.size(), 0);
  if (std::any_of(extents.begin(), extents.end(), [](int64_t n) { return n <= 0; })) return scan;
  std::unordered_map<int64_t, std::vector<int64_t>> seen;
  for (int64_t points = 0;; ++points) {
    if (points == limit) {
      scan.complete = false;
      return scan;
    }
    const int64_t value = f(at);
    const auto [it, fresh] = seen.emplace(value, at);
    if (!fresh) {
      scan.collision = Collision{it->second, at, value};
      return scan;
    }
    size_t i = extents.size();
    while (i > 0 && ++at[i - 1] == extents[i - 1]) at[--i] = 0;
    if (i == 0) return scan;
  }
}

}  // namespace rooftile::verify
