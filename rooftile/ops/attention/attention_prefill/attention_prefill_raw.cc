// SPDX-License-Identifier: Apache-2.0
#include "rooftile/ops/attention/attention_prefill/attention_prefill_raw.h"

#include <limits>

namespace rooftile::ops {
namespace {

constexpr int64_t kMaxGrid = std::numeric_limits<int32_t>::max();

bool takes(const Config& config, const Env& dims, const TargetInfo&) {
  const int64_t D = dims.at("D");
  return config.dtype("q") == DType::kBf16 && (D == 64 || D == 128) && !config.has("cu_q") &&
         !config.has("sink") && config.flag("softcap_on") == 0 && dims.at("Tk") > 0 &&
         dims.at("Hkv") > 0;
}

// Measured on an H200 over lengths of 512 to 32768: taking turns and carrying tiles into each other
// pays up to 2048 rows at D = 128; beyond, plain steps do. At D = 64 three groups of 64 rows and 96
// keys pay from 1024 rows on; under a causal mask the copying thread has too few registers for
// them.
Schedule schedule(const Config& config, const Env& dims, const TargetInfo&) {
  const bool causal = config.flag("causal") != 0, deep = dims.at("D") == 128;
  const bool is_short = dims.at("Tq") <= (deep ? 2048 : 1024);
  const bool three = !deep && !is_short && !causal;
  Schedule s;
  s.name = is_short ? "short" : "long";
  s.gpu.dims = {{"D", dims.at("D")}};
  s.tile = {
      {"GROUPS", three ? 3 : 2},      {"BN", three ? 96 : 128},
      {"STAGES", deep ? 2 : 3},       {"CARRY", is_short || three},
      {"ORDER", is_short && deep},    {"COUNTER", causal},  // tiles differ in their number of keys
      {"REGS_FEED", three ? 32 : 40}, {"REGS_MMA", three ? 160 : 232}};
  return s;
}

// Barriers and the published tiles, and room to align the window to 1024 bytes.
constexpr int64_t kOtherShared = 1024 + 288;

RawKernel kernel(const Config& config, const Schedule& s) {
  const auto number = [&](const char* name) { return static_cast<int>(s.tile.at(name)); };
  const int D = static_cast<int>(s.gpu.dims.at("D")), BN = number("BN");
  const int BM = 64 * number("GROUPS");
  const bool causal = config.flag("causal") != 0, counts = number("COUNTER") != 0;
  const Expr Tq = Expr::sym("Tq"), Tk = Expr::sym("Tk"), Hq = Expr::sym("Hq");
  // Query tiles of a head that see a key.
  const Expr dead = causal ? max(Tq - Tk, Expr(0)) / Expr(BM) : Expr(0);
  const Expr tiles = (ceil_div(Tq, BM) - dead) * Hq;

  RawKernel raw;
  raw.file = "attention_prefill_sm90.cu";
  raw.products = {BN};
  if (D != BN) raw.products.push_back(D);
  raw.maps = {
      {"map_q", "q", {BM, 1, 64}}, {"map_k", "k", {BN, 1, 64}}, {"map_v", "v", {BN, 1, 64}}};
  raw.tensors = {"o"};
  raw.scalars = {"o.s0", "o.s1"};
  if (config.has("lse")) {
    raw.tensors.emplace_back("lse");
    raw.scalars.emplace_back("lse.s0");
  }
  if (counts) {
    raw.workspaces = {{"raw_counters", DType::kI32, {2}, true}};
    raw.tensors.emplace_back("raw_counters");
  }
  for (const char* scalar : {"Tq", "Tk", "Hq", "Hkv", "scale"}) raw.scalars.emplace_back(scalar);
  raw.grid_x = min(Expr::sym("SMS"), tiles);
  raw.threads = 128 * (number("GROUPS") + 1);
  const int64_t q_buffers = number("CARRY") != 0 ? 2 : 1;
  raw.shared_bytes = kOtherShared + 2 * D * (q_buffers * BM + int64_t{2} * number("STAGES") * BN);

  raw.aligned = {"o", "q", "k", "v"};
  raw.conditions = {Tk >= Expr(1), tiles <= Expr(kMaxGrid), Expr::sym("window_left") < Expr(0)};
  if (!causal) raw.conditions.push_back(Expr::sym("window_right") < Expr(0));
  // The largest score is taken before the scale. A cap without code for it is the tile kernel's to
  // answer.
  raw.ranges = {{"scale", std::numeric_limits<float>::min(), std::numeric_limits<float>::max()},
                {"softcap", 0, 0}};
  return raw;
}

// H200, 2026-11-30 (docs/performance/hopper.md): 1.4 to 1.9 times as fast as the tile kernel from
// 512 to 16384 rows, at D = 128 and 64.
bool preferred(const Config&, const Env&, const TargetInfo&) { return true; }

}  // namespace

KernelDef prefill_raw_kernel() {
  return {.name = "sm90",
          .schedule = schedule,
          .applies = takes,
          .raw = kernel,
          .preferred = preferred};
}

}  // namespace rooftile::ops
