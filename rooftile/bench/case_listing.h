// SPDX-License-Identifier: Apache-2.0
// A benchmark case, written out for a harness in another language: every tensor's shape and dtype,
// attributes, flags, cost and roof. Nothing is compiled or run, and no device is needed.
#pragma once

#include <optional>
#include <string>

#include "rooftile/bench/roofline.h"
#include "rooftile/ops/op_def.h"

namespace rooftile::bench {

// One JSON object. `device`: "cpu" or "cuda". With ceilings it also says how long the call takes at
// least (roof_us) and what bounds it. RT-M003 for a case that does not fit the operator.
Result<std::string> case_listing(const OpDef& op, const Case& test_case, const std::string& device,
                                 const std::optional<Ceilings>& ceilings);

}  // namespace rooftile::bench
