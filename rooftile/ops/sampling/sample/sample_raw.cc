// SPDX-License-Identifier: Apache-2.0
#include "rooftile/ops/sampling/sample/sample_raw.h"

#include <limits>

namespace rooftile::ops {
namespace {

// Each CTA of a pair counts half a row: fewer elements than a 16-bit counter can hold, and no more
// than its registers do.
constexpr int64_t kMostColumns = 131056;
constexpr int kThreads = 1024, kPair = 2, kCounterBytes = 1 << 17;

bool takes(const Config& config, const Env& dims, const TargetInfo&) {
  return config.dtype("logits") == DType::kBf16 && dims.at("V") % 8 == 0 &&
         dims.at("V") <= kMostColumns;
}

Schedule schedule(const Config&, const Env&, const TargetInfo&) {
  return Schedule{.name = "histogram"};
}

RawKernel kernel(const Config& config, const Schedule&) {
  const Expr B = Expr::sym("B"), V = Expr::sym("V");
  RawKernel raw;
  raw.file = "sample_sm90.cu";
  raw.tensors = {"out", "logits", "temperature"};
  for (const char* filter : {"top_k", "top_p", "min_p"})
    if (config.has(filter)) raw.tensors.emplace_back(filter);
  raw.tensors.insert(raw.tensors.end(), {"seed", "offset"});
  raw.scalars = {"logits.s0", "V"};
  raw.grid_x = Expr(kPair) * B;
  raw.cluster = kPair;
  raw.threads = kThreads;
  raw.shared_bytes = kCounterBytes;
  raw.aligned = {"logits"};
  raw.conditions = {V % Expr(8) == Expr(0), V <= Expr(kMostColumns),
                    Expr(kPair) * B <= Expr(std::numeric_limits<int32_t>::max())};
  return raw;
}

// H200, 2026-11-30 (docs/performance/hopper.md): the tile kernel finds its thresholds in up to 60
// passes over the row, 718 us for 16 x 128256 with top-k and top-p; this reads the row twice, at a
// fourteenth of that. Without either the tile kernel has nothing to find and is the faster one.
bool preferred(const Config& config, const Env&, const TargetInfo&) {
  return config.has("top_k") || config.has("top_p");
}

}  // namespace

KernelDef sample_raw_kernel() {
  return {.name = "sm90",
          .schedule = schedule,
          .applies = takes,
          .raw = kernel,
          .preferred = preferred};
}

}  // namespace rooftile::ops
