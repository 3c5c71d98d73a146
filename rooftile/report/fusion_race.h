// SPDX-License-Identifier: Apache-2.0
// What a fusion saves: the fused kernel against its parts run one after the other, in turns, each
// turn from emptied caches. The parts hand their intermediate results on in memory, so that they
// may find them in a cache, as they would in a real step.
#pragma once

#include "rooftile/report/report_data.h"
#include "rooftile/report/step.h"
#include "rooftile/runtime/cuda/device.h"

namespace rooftile::report {

// A row for `fusion` of `step`, on this processor or on a GPU. What goes wrong is in its `failure`.
FusionRow race_fusion(const Step& step, const Fusion& fusion, const bench::TimingOptions& timing,
                      const cuda::Device* device = nullptr);

}  // namespace rooftile::report
