// SPDX-License-Identifier: Apache-2.0
#include "rooftile/verify/lanes/order.h"

namespace rooftile::verify {

using lanes::Body;
using lanes::Stmt;

void StatementOrder::enter(const Body& body, const Stmt* around) {
  for (size_t i = 0; i < body.size(); ++i) {
    places_[&body[i]] = {&body, i, around};
    enter(body[i].body, &body[i]);
    enter(body[i].orelse, &body[i]);
  }
}

const Stmt* StatementOrder::around(const Stmt& stmt) const { return places_.at(&stmt).around; }

std::vector<StatementOrder::Place> StatementOrder::path(const Stmt& stmt) const {
  std::vector<Place> out;
  for (const Stmt* at = &stmt; at != nullptr; at = out.back().around) out.push_back(places_.at(at));
  return out;
}

std::vector<const Stmt*> StatementOrder::between(const Stmt& a, const Stmt& b) const {
  const std::vector<Place> to_a = path(a), to_b = path(b);
  for (const Place& first : to_a)
    for (size_t common = 0; common < to_b.size(); ++common) {
      if (to_b[common].body != first.body) continue;
      std::vector<const Stmt*> out;
      if (first.index >= to_b[common].index) return out;
      for (size_t level = common + 1; level-- > 0;) {
        const size_t begin = level == common ? first.index + 1 : 0;
        for (size_t i = begin; i < to_b[level].index; ++i) out.push_back(&(*to_b[level].body)[i]);
      }
      return out;
    }
  return {};
}

}  // namespace rooftile::verify
