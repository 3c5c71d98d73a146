// SPDX-License-Identifier: Apache-2.0
#include "rooftile/ops/gemm/gemm/gemm_raw.h"

#include <limits>

namespace rooftile::ops {
namespace {

constexpr int64_t kStepBytes = 128;  // of K, a row: 64 elements
constexpr int64_t kMaxTiles = std::numeric_limits<int32_t>::max();
constexpr int64_t kSharedOfSm = 233472,
                  kReserved = 1024;  // bytes; what a CTA takes besides its own
constexpr int64_t kFewRows = 64;
constexpr int64_t kUnit = 8;  // elements in 16 bytes

// A product with alpha and nothing else. Rows of D are whole units of 16 bytes: the copy engine,
// too, writes the unit that the last column lies in to its end.
bool is_plain(const Config& config, const Env& dims) {
  if (dims.at("N") % kUnit != 0 || dims.at("K") <= 0) return false;
  for (const char* tensor : {"a", "b", "d"})
    if (config.dtype(tensor) != DType::kBf16) return false;
  return config.flag("layout") == 0 && config.flag("activation") == 0 && !config.has("bias") &&
         !config.has("c") && config.flag("packed_b") == 0;
}

Expr whole_units() { return Expr::sym("N") % Expr(kUnit) == Expr(0); }

Expr round_blocks(const char* dim, int64_t block) { return ceil_div(Expr::sym(dim), Expr(block)); }

// ---- few rows -----------------------------------------------------------------------------------

bool takes_few(const Config& config, const Env& dims, const TargetInfo&) {
  return is_plain(config, dims) && dims.at("M") <= kFewRows;
}

struct Swap {
  int64_t stages, split, groups, steps;
};

// Measured on an H200 at N = 4096, 6144 and 28672: while two CTAs a tile of 64 weights fit the
// machine, they share K; while one does, two smaller rings a multiprocessor; beyond, wider tiles.
Swap swap_for(int64_t tokens, int64_t N, int64_t multiprocessors) {
  const int64_t tiles = (N + 63) / 64;
  const int at = tokens == 8 ? 0 : tokens == 16 ? 1 : tokens == 32 ? 2 : 3;
  static constexpr Swap kSplit[] = {{12, 2, 1, 2}, {11, 2, 1, 2}, {8, 2, 1, 2}, {6, 2, 1, 2}};
  static constexpr Swap kOne[] = {{6, 1, 1, 2}, {11, 1, 1, 1}, {9, 1, 1, 1}, {6, 1, 1, 2}};
  static constexpr Swap kMany[] = {{12, 1, 2, 1}, {11, 1, 2, 1}, {10, 1, 2, 1}, {8, 1, 2, 1}};
  return tiles * 2 <= multiprocessors ? kSplit[at]
         : tiles <= multiprocessors   ? kOne[at]
                                      : kMany[at];
}

Schedule few_schedule(const Config&, const Env& dims, const TargetInfo& target) {
  int64_t tokens = 8;
  while (tokens < dims.at("M") && tokens < kFewRows) tokens *= 2;
  const Swap swap = swap_for(tokens, dims.at("N"), target.multiprocessors);
  Schedule s;
  s.name = "swap_" + std::to_string(64 * swap.groups) + "x" + std::to_string(tokens) +
           (swap.split > 1 ? "_split" : "");
  s.tile = {{"TN", tokens},
            {"STAGES", swap.stages},
            {"SPLIT", swap.split},
            {"WG", swap.groups},
            {"KB", swap.steps}};
  return s;
}

RawKernel few_kernel(const Config&, const Schedule& s) {
  const int64_t TN = s.tile.at("TN"), WG = s.tile.at("WG"), split = s.tile.at("SPLIT");
  const int64_t stages = s.tile.at("STAGES"), TW = 64 * WG;
  const int64_t sums = split == 1 ? TN * TW * 2 : (split - 1) * (4 * WG / split) * TN * 64;
  RawKernel raw;
  raw.file = "gemm_swap_sm90.cu";
  raw.products = {static_cast<int>(TN)};
  raw.maps = {{"map_w", "b", {static_cast<int>(TW), 64}},
              {"map_x", "a", {static_cast<int>(TN), 64}}};
  raw.tensors = {"d"};
  raw.scalars = {"d.s0", "M", "N", "K", "alpha"};
  raw.threads = static_cast<int>(128 * WG + 32);
  raw.cluster = static_cast<int>(split);
  raw.shared_bytes = stages * s.tile.at("KB") * (TW + TN) * kStepBytes + sums + 16 * stages + 16;
  // One CTA a multiprocessor walks its tiles; where two fit, the hardware hands them out.
  const Expr tiles = round_blocks("N", TW) * round_blocks("M", TN);
  const bool two_fit = 2 * (raw.shared_bytes + kReserved) <= kSharedOfSm;
  raw.grid_x = (two_fit ? tiles : min(tiles, Expr::sym("SMS") / Expr(split))) * Expr(split);
  raw.aligned = {"d", "a", "b"};
  raw.conditions = {whole_units(), Expr::sym("K") >= Expr(1),
                    tiles * Expr(split) <= Expr(kMaxTiles)};
  return raw;
}

// H200, 2026-11-30 (docs/performance/hopper.md): up to 16 rows the tile kernel is ahead by 1 to 7
// %, at 64 rows this by 1 to 3 %. Above, the two are within 4 % of each other.
bool few_preferred(const Config&, const Env& dims, const TargetInfo&) { return dims.at("M") > 16; }

// ---- many rows ----------------------------------------------------------------------------------

bool takes_tiles(const Config& config, const Env& dims, const TargetInfo&) {
  return is_plain(config, dims);
}

struct Tiles {
  int64_t rows, columns, stages, cluster, split, groups, turns, buffers, store_rows;
};
constexpr Tiles kWide = {128, 256, 4, 2, 1, 2, 0, 2, 64};
constexpr Tiles kTurns192 = {128, 192, 5, 2, 1, 2, 1, 1, 64};
constexpr Tiles kTurns176 = {128, 176, 5, 2, 1, 2, 1, 2, 64};
constexpr Tiles kTurns128 = {128, 128, 6, 2, 1, 2, 1, 2, 16};
constexpr Tiles kTurns112 = {128, 112, 6, 2, 1, 2, 1, 2, 16};
constexpr Tiles kOneWave128 = {128, 128, 6, 2, 1, 2, 0, 2, 16};
constexpr Tiles kOneWave192 = {128, 192, 5, 2, 1, 2, 0, 1, 64};
constexpr Tiles kRows128Split = {128, 64, 8, 1, 2, 2, 0, 2, 16};
constexpr Tiles kRows128Narrow = {64, 96, 10, 2, 1, 1, 0, 2, 16};
constexpr Tiles kRows128Wide = {128, 224, 4, 1, 1, 2, 0, 3, 16};

int64_t blocks(int64_t extent, int64_t block) { return (extent + block - 1) / block; }

// Fitted to measurements on an H200 (8192^3, 4096^3, the products of Llama 3 8B at 128 to 8192
// rows). With several waves: waves times width times what the schedule loses; the width that fills
// the last wave wins.
Tiles tiles_for(int64_t M, int64_t N, int64_t K, int64_t multiprocessors) {
  if (M <= 128) {
    if (blocks(N, 64) * 2 <= multiprocessors) return kRows128Split;
    if (blocks(N, 96) * 2 <= multiprocessors) return kRows128Narrow;
    if (blocks(N, 224) <= multiprocessors) return kRows128Wide;
  }
  const auto one_wave = [&](int64_t rows, int64_t columns) {
    return blocks(M, rows) * blocks(N, columns) <= multiprocessors;
  };
  if (one_wave(128, 128)) return kOneWave128;
  if (one_wave(128, 192)) return kOneWave192;
  struct Option {
    Tiles tiles;
    double loss;
  };
  const Option options[] = {{kWide, 1.015 + 60.0 / static_cast<double>(K)},
                            {kTurns192, 1.0},
                            {kTurns176, 1.0},
                            {kTurns128, 1.035},
                            {kTurns112, 1.06}};
  const Option* best = nullptr;
  double least = std::numeric_limits<double>::infinity();
  for (const Option& option : options) {
    const int64_t waves =
        blocks(blocks(M, 256) * blocks(N, option.tiles.columns), multiprocessors / 2);
    const double cost = static_cast<double>(waves * option.tiles.columns) * option.loss;
    if (cost < least) least = cost, best = &option;
  }
  return best->tiles;
}

Schedule tiles_schedule(const Config&, const Env& dims, const TargetInfo& target) {
  constexpr int64_t kBandRows = 2048;  // of D
  const Tiles t = tiles_for(dims.at("M"), dims.at("N"), dims.at("K"), target.multiprocessors);
  Schedule s;
  s.name = std::to_string(t.rows) + "x" + std::to_string(t.columns) +
           (t.turns != 0 ? "_turns" : "") + (t.split > 1 ? "_split" : "");
  s.tile = {{"BM", t.rows},       {"BN", t.columns},
            {"STAGES", t.stages}, {"CM", t.cluster},
            {"SK", t.split},      {"WG", t.groups},
            {"PP", t.turns},      {"CB", t.buffers},
            {"ER", t.store_rows}, {"BAND", kBandRows / (t.rows * t.cluster)}};
  return s;
}

RawKernel tiles_kernel(const Config&, const Schedule& s) {
  const auto number = [&](const char* name) { return s.tile.at(name); };
  const auto box = [](int64_t rows) { return std::vector<int>{static_cast<int>(rows), 64}; };
  const int64_t BM = number("BM"), BN = number("BN"), CM = number("CM"), SK = number("SK");
  const int64_t WG = number("WG"), stages = number("STAGES");
  RawKernel raw;
  raw.file = "gemm_tile_sm90.cu";
  raw.products = {static_cast<int>(BN)};
  raw.maps = {
      {"map_a", "a", box(BM)}, {"map_b", "b", box(BN / CM)}, {"map_d", "d", box(number("ER"))}};
  raw.scalars = {"M", "N", "K", "alpha"};
  raw.threads = static_cast<int>(128 * (WG + 1));
  raw.cluster = static_cast<int>(CM * SK);
  raw.shared_bytes =
      stages * (BM + BN) * kStepBytes + WG * number("CB") * 64 * kStepBytes + 16 * stages + 40;
  const Expr cluster = Expr(CM * SK), tiles = round_blocks("M", BM * CM) * round_blocks("N", BN);
  raw.grid_x = min(tiles, Expr::sym("SMS") / cluster) * cluster;
  raw.aligned = {"d", "a", "b"};
  raw.conditions = {whole_units(), Expr::sym("K") >= Expr(1), tiles <= Expr(kMaxTiles)};
  return raw;
}

}  // namespace

KernelDef gemm_raw_few_rows() {
  return {.name = "sm90_swap",
          .schedule = few_schedule,
          .applies = takes_few,
          .raw = few_kernel,
          .preferred = few_preferred};
}

KernelDef gemm_raw_tiles() {
  return {.name = "sm90_tiles",
          .schedule = tiles_schedule,
          .applies = takes_tiles,
          .raw = tiles_kernel,
          .preferred = nullptr};
}

}  // namespace rooftile::ops
