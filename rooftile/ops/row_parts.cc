// SPDX-License-Identifier: Apache-2.0
#include "rooftile/ops/row_parts.h"

#include <utility>

#include "rooftile/ops/strips_sm90.h"

namespace rooftile::ops {

KernelDef row_parts(decltype(KernelDef::build) build) {
  return {.name = "parts",
          .build = std::move(build),
          .schedule =
              [](const Config& config, const Env& dims, const TargetInfo&) {
                return sm90_row_parts(dims.at("T"), dims.at("V"), config.dtype("x"));
              },
          .applies =
              [](const Config&, const Env& dims, const TargetInfo& target) {
                return sm90_has_few_long_rows(dims.at("T"), dims.at("V"), target);
              }};
}

}  // namespace rooftile::ops
