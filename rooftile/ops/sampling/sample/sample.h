// SPDX-License-Identifier: Apache-2.0
// What the sampler's definition and its tests share with its reference.
#pragma once

#include <cstdint>

#include "rooftile/ops/op_def.h"

namespace rooftile::ops {

// The reference's draw for one row, and how far the nearest decision (membership of a filter, the
// draw itself) was from going the other way, as a fraction of the probability mass involved. Ties
// by equal logits are no decisions.
struct ReferenceDraw {
  int64_t token = -1;
  double margin = 1;
};
ReferenceDraw reference_draw(const RefCall& call, int64_t row);

// Parameters of many kinds, with seeds chosen so that no decision lies within f32's error of its
// boundary.
void sample_inputs(RefCall& call, uint64_t seed);

}  // namespace rooftile::ops
