// SPDX-License-Identifier: Apache-2.0
#include "rooftile/verify/lanes/store_hits.h"

#include <algorithm>

#include "rooftile/verify/lanes/tape.h"

namespace rooftile::verify {

std::optional<std::vector<Hit>> hits_of(const Symbols& symbols, const StoreForm& form,
                                        const std::vector<std::string>& whose) {
  constexpr int64_t kMostPoints = 1 << 20;
  Tape tape(symbols);
  std::vector<int> offsets, selectors;
  for (const Expr& e : form.offset) offsets.push_back(tape.add(e));
  for (const Expr& e : form.selectors) selectors.push_back(tape.add(e));
  std::vector<size_t> wanted;
  for (const std::string& name : whose) {
    const auto it = std::find(form.counted.begin(), form.counted.end(), name);
    if (it == form.counted.end()) return std::nullopt;
    wanted.push_back(static_cast<size_t>(it - form.counted.begin()));
  }
  std::vector<std::pair<int, Interval>> axes;
  int64_t points = 1;
  for (const std::string& name : form.counted) {
    const Interval range = symbols.find(name)->range;
    if (!range.bounded()) return std::nullopt;
    axes.emplace_back(tape.input(name), range);
    points *= range.hi - range.lo + 1;
    if (points > kMostPoints) return std::nullopt;
  }
  std::vector<Hit> out;
  std::vector<int64_t> at;
  for (const auto& [slot, range] : axes) at.push_back(range.lo);
  for (int64_t point = 0; point < points; ++point) {
    for (size_t i = 0; i < axes.size(); ++i)
      if (axes[i].first >= 0) tape.set(axes[i].first, at[i]);
    if (!tape.run()) return std::nullopt;
    if (std::all_of(selectors.begin(), selectors.end(),
                    [&](int slot) { return tape.value(slot) != 0; })) {
      Hit hit;
      for (int slot : offsets) hit.at.push_back(tape.value(slot));
      for (size_t i : wanted) hit.whose.push_back(at[i]);
      out.push_back(std::move(hit));
    }
    for (size_t i = 0; i < axes.size(); ++i) {
      if (++at[i] <= axes[i].second.hi) break;
      at[i] = axes[i].second.lo;
    }
  }
  return out;
}

std::string key_of(const StoreForm& form) {
  std::string key;
  for (const Expr& base : form.base) key += base.str() + ";";
  for (size_t d = 0; d < form.digits.size(); ++d) {
    const std::string name = form.digits[d].symbol.name();
    for (size_t at; (at = key.find(name)) != std::string::npos;)
      key.replace(at, name.size(), "$" + std::to_string(d));
  }
  return key;
}

}  // namespace rooftile::verify
