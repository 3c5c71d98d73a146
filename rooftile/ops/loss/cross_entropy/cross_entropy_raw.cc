// SPDX-License-Identifier: Apache-2.0
#include "rooftile/ops/loss/cross_entropy/cross_entropy_raw.h"

#include <limits>

namespace rooftile::ops {
namespace {

bool takes(const Config& config, const Env& dims, const TargetInfo&) {
  return config.dtype("logits") == DType::kBf16 && dims.at("V") % 8 == 0;
}

// Measured on an H200 at 4096 x 128256: groups of 4 or 8 vectors within noise.
Schedule schedule(const Config&, const Env&, const TargetInfo&) {
  Schedule s;
  s.name = "stream";
  s.tile = {{"THREADS", 512}, {"VECTORS", 4}};
  return s;
}

RawKernel kernel(const Config& config, const Schedule& s) {
  RawKernel raw;
  raw.file = "cross_entropy_sm90.cu";
  raw.tensors = {"loss", "logits", "targets"};
  if (config.has("lse")) raw.tensors.emplace_back("lse");
  raw.scalars = {"logits.s0", "V", "ignore_index", "z_loss"};
  raw.grid_x = Expr::sym("T");
  raw.threads = static_cast<int>(s.tile.at("THREADS"));
  raw.ctas_per_sm = 3;
  raw.aligned = {"logits"};
  raw.conditions = {Expr::sym("V") % Expr(8) == Expr(0),
                    Expr::sym("T") <= Expr(std::numeric_limits<int32_t>::max())};
  raw.ranges = {{"label_smoothing", 0, 0}};
  return raw;
}

// H200, 2026-11-30 (docs/performance/hopper.md): the tile kernel holds a block between two passes,
// at 3.3 TB/s; this reads at the speed of memory.
bool preferred(const Config&, const Env&, const TargetInfo&) { return true; }

}  // namespace

KernelDef cross_entropy_raw_kernel() {
  return {.name = "sm90",
          .schedule = schedule,
          .applies = takes,
          .raw = kernel,
          .preferred = preferred};
}

}  // namespace rooftile::ops
