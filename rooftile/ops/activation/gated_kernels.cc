// SPDX-License-Identifier: Apache-2.0
#include "rooftile/ops/activation/gated_kernels.h"

#include <utility>

#include "rooftile/ops/numerics.h"
#include "rooftile/ops/strips_sm90.h"

namespace rooftile::ops {

KernelDef gated_blocks(decltype(KernelDef::build) build) {
  return {
      .name = "blocks",
      .build = std::move(build),
      .schedule =
          [](const Config& config, const Env& dims, const TargetInfo&) {
            return sm90_row_blocks(dims.at("T"), dims.at("H"), config.dtype("x"), 2);
          },
      .applies = [](const Config&, const Env&, const TargetInfo& target) { return target.gpu; }};
}

KernelDef gated_rows(decltype(KernelDef::build) build) {
  return {
      .name = "rows",
      .build = std::move(build),
      .schedule = [](const Config&, const Env&, const TargetInfo&) { return row_schedule(); },
      .applies = [](const Config&, const Env&, const TargetInfo& target) { return !target.gpu; }};
}

}  // namespace rooftile::ops
