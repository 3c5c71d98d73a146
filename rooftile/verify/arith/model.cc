// SPDX-License-Identifier: Apache-2.0
#include "rooftile/verify/arith/model.h"

namespace rooftile::verify::arith {
namespace {

using K = ExprKind;

std::optional<Wide> apply(K kind, Wide a, Wide b) {
  switch (kind) {
    case K::kAdd:
      return add(a, b);
    case K::kSub:
      return sub(a, b);
    case K::kMul:
      return mul(a, b);
    case K::kFloorDiv:
      return b == 0 ? std::nullopt : std::optional(floor_div(a, b));
    case K::kMod:
      return b == 0 ? std::nullopt : std::optional(floor_mod(a, b));
    case K::kMin:
      return a < b ? a : b;
    case K::kMax:
      return a < b ? b : a;
    case K::kLt:
      return a < b;
    case K::kLe:
      return a <= b;
    case K::kEq:
      return a == b;
    case K::kNe:
      return a != b;
    case K::kAnd:
      return a != 0 && b != 0;
    case K::kOr:
      return a != 0 || b != 0;
    default:
      return std::nullopt;
  }
}

}  // namespace

std::optional<Wide> PointCheck::value(const Expr& e) {
  if (e.is_const()) return e.value();
  if (auto it = known_.find(e.node()); it != known_.end()) return it->second;
  const std::optional<Wide> v = compute(e);
  kept_.push_back(e);
  known_.emplace(e.node(), v);
  return v;
}

std::optional<Wide> PointCheck::compute(const Expr& e) {
  const auto& args = e.args();
  if (e.kind() == K::kSym) {
    auto it = values_.symbols.find(e.name());
    return it == values_.symbols.end() ? std::nullopt : std::optional(it->second);
  }
  if (e.kind() == K::kIndexLoad) {
    std::vector<Wide> at;
    for (const Expr& arg : args) {
      const auto v = value(arg);
      if (!v) return std::nullopt;
      at.push_back(*v);
    }
    auto it = values_.elements.find({e.name(), at});
    if (it == values_.elements.end()) return std::nullopt;
    read_.insert(*it);
    return it->second;
  }
  const auto first = value(args[0]);
  if (!first) return std::nullopt;
  // Lazy, as in evaluate(): a condition can guard what is undefined elsewhere.
  switch (e.kind()) {
    case K::kNot:
      return *first == 0;
    case K::kSelect:
      return value(*first != 0 ? args[1] : args[2]);
    case K::kAnd:
      if (*first == 0) return 0;
      break;
    case K::kOr:
      if (*first != 0) return 1;
      break;
    default:
      break;
  }
  const auto second = value(args[1]);
  return second ? apply(e.kind(), *first, *second) : std::nullopt;
}

bool PointCheck::meets(const std::vector<IndexFacts>& facts) {
  const auto read = read_;
  for (const IndexFacts& fact : facts) {
    for (const auto& [where, v] : read) {
      if (where.first != fact.tensor) continue;
      if (fact.has_range) {
        const auto lo = value(fact.lo), hi = value(fact.hi);
        if (!lo || !hi || v < *lo || v >= *hi) return false;
      }
      for (const auto& [other, w] : read) {
        if (other.first != fact.tensor || where.second.size() != 1) continue;
        if (fact.non_decreasing && where.second < other.second && v > w) return false;
        if (fact.distinct && where.second != other.second && v == w) return false;
      }
    }
  }
  return true;
}

}  // namespace rooftile::verify::arith
