// SPDX-License-Identifier: Apache-2.0
#include "rooftile/ops/attention/attention_decode/attention_decode_raw.h"

#include <algorithm>
#include <limits>

namespace rooftile::ops {
namespace {

constexpr int64_t kDepth = 128, kUnit = 16, kMostHeads = 8;
constexpr int64_t kMostSequences = 16384;  // their counts lie in shared memory

bool is_paged(const Config& config) { return config.flag("kv_layout") == 1; }

int64_t group_of(const Env& dims) { return dims.at("Hq") / dims.at("Hkv"); }

// At least one (sequence, head) a multiprocessor.
bool is_many(const Env& dims, const TargetInfo& target) {
  return dims.at("B") * dims.at("Hkv") > target.multiprocessors;
}

bool takes(const Config& config, const Env& dims, const TargetInfo&) {
  return config.dtype("q") == DType::kBf16 && dims.at("D") == kDepth && dims.at("Hkv") > 0 &&
         group_of(dims) <= kMostHeads && dims.at("B") <= kMostSequences && !config.has("sink") &&
         config.flag("softcap_on") == 0 && (!is_paged(config) || dims.at("S") % kUnit == 0);
}

// Measured on an H200: from one (sequence, head) a multiprocessor on, two CTAs of 4 warps; before,
// one of 8. Never more warps: their loads in flight would crowd the memory's pages. Passing L1 by
// pays where the whole cache fits L2.
Schedule schedule(const Config& config, const Env& dims, const TargetInfo& target) {
  constexpr int64_t kFitsL2 = int64_t{40} << 20;
  const bool many = is_many(dims, target);
  const int64_t rows = is_paged(config) ? dims.at("MP") : 1;
  const int64_t cache_bytes = 4 * kDepth * dims.at("Hkv") * dims.at("B") * rows * dims.at("S");
  int64_t sequences = 256;
  while (sequences < std::min(dims.at("B"), kMostSequences)) sequences *= 8;
  Schedule s;
  s.name = many ? "many" : "few";
  s.gpu.dims = {{"D", kDepth}};
  if (is_paged(config)) s.gpu.dims["S"] = dims.at("S");
  s.tile = {{"WARPS", many ? 4 : 8},
            {"CTAS", many ? 2 : 1},
            {"HEADS", group_of(dims) <= 4 ? 4 : kMostHeads},
            {"MAX_B", std::min(sequences, kMostSequences)},
            {"NO_L1", cache_bytes <= kFitsL2}};
  return s;
}

RawKernel kernel(const Config& config, const Schedule& s) {
  const int64_t warps = s.tile.at("WARPS"), ctas = s.tile.at("CTAS");
  const int64_t heads = s.tile.at("HEADS"), most = s.tile.at("MAX_B");
  const int64_t part = heads * (kDepth + 2);  // floats
  const Expr B = Expr::sym("B"), Hq = Expr::sym("Hq"), Hkv = Expr::sym("Hkv");
  const Expr S = Expr::sym("S"), capacity = is_paged(config) ? Expr::sym("MP") * S : S;

  RawKernel raw;
  raw.file = "attention_decode_sm90.cu";
  raw.tensors = {"o", "q", "k", "v", "lengths", "raw_partials", "raw_tickets"};
  raw.scalars = {"o.s0", "o.s1", "q.s0", "q.s1", "k.s0", "k.s1", "k.s2", "v.s0", "v.s1", "v.s2"};
  if (config.has("lse")) {
    raw.tensors.emplace_back("lse");
    raw.scalars.emplace_back("lse.s0");
  }
  if (is_paged(config)) {
    raw.tensors.emplace_back("block_table");
    raw.scalars.emplace_back("block_table.s0");
    raw.scalars.emplace_back("MP");
  }
  for (const char* scalar : {"B", "Hq", "Hkv", "scale"}) raw.scalars.emplace_back(scalar);
  raw.workspaces = {{"raw_partials", DType::kF32, {Expr::sym("SMS"), 2 * ctas * part}},
                    {"raw_tickets", DType::kI32, {B, Hkv * Expr(heads)}, true}};
  raw.grid_x = Expr::sym("SMS") * Expr(ctas);
  raw.threads = static_cast<int>(32 * warps);
  raw.ctas_per_sm = static_cast<int>(ctas);
  raw.shared_bytes = 2 * warps * heads * (4 * kDepth + 8) + 8 + 4 * (most + 1);

  raw.aligned = {"o", "q", "k", "v"};
  raw.conditions = {
      Hq <= Expr(heads) * Hkv, B <= Expr(most), Expr::sym("window_left") < Expr(0),
      B * Hkv * (capacity / Expr(kUnit) + Expr(1)) <= Expr(std::numeric_limits<int32_t>::max())};
  raw.ranges = {{"softcap", 0, 0}};  // a cap without code for it is the tile kernel's to answer
  return raw;
}

// H200, 2026-11-30 (docs/performance/hopper.md): while some multiprocessors lack a (sequence, head)
// of their own, the tile kernel splits and merges in two launches, 29.6 us for 16384 tokens,
// this 25.0 in one. With more of them both read at the speed of memory.
bool preferred(const Config&, const Env& dims, const TargetInfo& target) {
  return !is_many(dims, target);
}

}  // namespace

KernelDef decode_raw_kernel() {
  return {.name = "sm90",
          .schedule = schedule,
          .applies = takes,
          .raw = kernel,
          .preferred = preferred};
}

}  // namespace rooftile::ops
