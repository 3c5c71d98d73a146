// SPDX-License-Identifier: Apache-2.0
// How large a size can get: bounds of products of dims, which linear arithmetic has no word for.
//
// A formula becomes a sum of products of dims with positive coefficients that is at least its
// magnitude. A product of dims is bounded by the number of elements of a tensor that has them all,
// as long as that tensor is not empty; by limits of the contract; by the launcher's limit of an
// extent. Dims that never exceed another (KV heads, query heads) stand for each other.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "rooftile/ir/ir.h"
#include "rooftile/verify/tile/reasoner.h"

namespace rooftile::verify {

// Declared size limits of CPU kernels: no tensor has more elements, no extent is larger. No machine
// holds more; a view that repeats elements could name more, and would keep it busy for years.
inline constexpr int64_t kMostElements = int64_t{1} << 40;
inline constexpr int64_t kLargestExtent = int64_t{1} << 48;

class SizeBound {
 public:
  explicit SizeBound(Reasoner& reasoner);

  // |e| is at most this, in every call within the limits that has something to write. nullopt: an
  // element of an index tensor or an unbounded attribute is in it.
  std::optional<double> of(const Expr& e);

 private:
  using Product = std::vector<std::string>;  // dims, sorted, with repetition
  using Sum = std::map<Product, double>;

  std::optional<Sum> sum_of(const Expr& e);
  double product(const Product& dims, bool replace);
  double by_tensors(const Product& dims);
  double single(const std::string& symbol);
  bool never_exceeds(const std::string& dim, const std::string& other);
  bool is_present(const Expr& extent);

  Reasoner& reasoner_;
  const ir::Program& program_;
  std::set<std::string> dims_;
  std::vector<Expr> not_empty_;
  std::map<std::string, double> singles_;
  std::map<std::pair<Product, bool>, double> products_;
};

}  // namespace rooftile::verify
