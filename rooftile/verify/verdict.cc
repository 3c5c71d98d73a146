// SPDX-License-Identifier: Apache-2.0
#include "rooftile/verify/verdict.h"

#include <array>

namespace rooftile::verify {
namespace {

constexpr auto kKinds = std::to_array<KindInfo>({
#define RT_OBLIGATION(e, id, level, what) {Kind::e, id, Level::level, what},
#include "rooftile/verify/obligations.def"
#undef RT_OBLIGATION
});

}  // namespace

std::string_view level_name(Level level) {
  constexpr std::array<std::string_view, 5> kNames = {"tile", "placed", "lanes", "cpu", "contract"};
  return kNames[static_cast<size_t>(level)];
}

const KindInfo& kind_info(Kind kind) { return kKinds[static_cast<size_t>(kind)]; }

const KindInfo* kind_find(std::string_view id) {
  for (const KindInfo& info : kKinds)
    if (info.id == id) return &info;
  return nullptr;
}

std::string_view verdict_name(Verdict verdict) {
  constexpr std::array<std::string_view, 3> kNames = {"proved", "refuted", "unknown"};
  return kNames[static_cast<size_t>(verdict)];
}

std::string_view prover_name(Prover prover) {
  constexpr std::array<std::string_view, 10> kNames = {
      "none",     "constant", "enumeration", "rank",        "interval",
      "dataflow", "lemma",    "graph",       "exploration", "solver"};
  return kNames[static_cast<size_t>(prover)];
}

}  // namespace rooftile::verify
