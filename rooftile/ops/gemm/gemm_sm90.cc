// SPDX-License-Identifier: Apache-2.0
#include "rooftile/ops/gemm/gemm_sm90.h"

#include <algorithm>
#include <limits>
#include <vector>

namespace rooftile::ops {
namespace {

// Output tiles and what a multiprocessor reaches with them, as a share of the best (measured on an
// H200; 64 x 256, 64 x 128 and 64 x 32 by their arithmetic intensity).
struct TileChoice {
  int64_t rows, columns;
  int cluster;  // CTAs along the rows that share b
  double rate;
};
constexpr TileChoice kTiles[] = {
    {128, 256, 1, 1.00}, {128, 192, 2, 0.98}, {128, 128, 2, 0.94}, {128, 64, 1, 0.80},
    {64, 256, 1, 0.80},  {64, 128, 1, 0.62},  {64, 64, 1, 0.62},   {64, 32, 1, 0.15},
};

// How the steps of K are divided among CTAs.
struct Division {
  int parts = 1;         // of a tile; 0: the last waves evenly among all CTAs
  int stream_waves = 1;  // these, where parts is 0
};
struct Choice {
  TileChoice tile;
  Division division;
};

// CTAs that run at once in clusters of that size: a cluster lies in one GPC, of 16 or 18
// multiprocessors.
int64_t resident(int cluster, const TargetInfo& target) {
  const int64_t all = target.multiprocessors;
  return cluster <= 2 ? all : cluster == 4 ? all * 10 / 11 : all * 6 / 7;
}

constexpr int64_t kSharedBytes = 232448 - 1024;  // barriers aside

int64_t blocks(int64_t extent, int64_t block) { return (extent + block - 1) / block; }

// Columns of a staged chunk, 128 bytes; 0: the result is stored from registers, as it must be where
// its rows are not whole pieces of the copy engine.
int staging(const TileChoice& tile, const Sm90Gemm& p) {
  const int64_t chunk = 128 / size_bytes(p.result);
  if (p.columns * size_bytes(p.result) % 16 != 0) return 0;
  return size_bytes(p.result) > 1 && tile.columns % chunk == 0 ? static_cast<int>(chunk) : 0;
}
bool staged(const TileChoice& tile, const Sm90Gemm& p) { return staging(tile, p) != 0; }

int groups_of(const TileChoice& tile) { return tile.rows == 128 ? 2 : 1; }

int ring_depth(const TileChoice& tile, const Sm90Gemm& p) {
  const auto products = static_cast<int64_t>(p.right.size());
  const int64_t slot = (tile.rows + products * tile.columns) * 128;
  const int64_t chunks = staged(tile, p) ? groups_of(tile) * 2 * 8192 : 0;
  return static_cast<int>(std::min<int64_t>((kSharedBytes - chunks) / slot, 16));
}

bool fits(const TileChoice& tile, const Sm90Gemm& p) {
  if (p.b_is_kn && tile.columns % 64 != 0) return false;
  // The sums of all products share the registers of one.
  if (static_cast<int64_t>(p.right.size()) * tile.columns > 256) return false;
  // Stores from registers need some for their addresses.
  if (!staged(tile, p) && tile.columns > 192) return false;
  return tile.cluster == 1 || blocks(p.rows, tile.rows) >= 2;
}

// ---- what a choice takes, in nanoseconds; docs/performance/hopper.md has what it rests on

constexpr double kStepNs = 668;          // of 128 bytes of K, of a tile of 128 x 256 at rate 1
constexpr double kBytesPerNs = 4200;     // that all multiprocessors read
constexpr double kPartNs = 1700;         // parts of a tile meet, and
constexpr double kPartByteNs = 0.015;    // for every byte of every part's sums
constexpr double kStreamNs = 6000;       // the same where parts are runs of steps: these come to
constexpr double kStreamByteNs = 0.060;  // each CTA twice, and break up what CTAs share in L2
constexpr int64_t kLeastSteps = 8;       // of a part

struct Problem {
  int64_t tiles, steps;
  double step_ns, image_bytes, read_ns;
};

Problem problem_of(const TileChoice& tile, const Sm90Gemm& p) {
  const double area =
      static_cast<double>(tile.rows * tile.columns) * static_cast<double>(p.right.size());
  const int64_t bytes = size_bytes(p.operand);
  const auto right_rows = p.columns * static_cast<int64_t>(p.right.size());
  return {.tiles = p.batches * blocks(p.rows, tile.rows) * blocks(p.columns, tile.columns),
          .steps = blocks(p.depth * bytes, 128),
          .step_ns = kStepNs * area / (128 * 256) / tile.rate,
          .image_bytes = 4 * area,
          .read_ns = static_cast<double>(p.batches * (p.rows + right_rows) * p.depth * bytes) /
                     kBytesPerNs};
}

// Tiles in waves of one a multiprocessor.
double whole_ns(const Problem& p, int64_t ctas) {
  return std::max(p.read_ns, static_cast<double>(blocks(p.tiles, ctas) * p.steps) * p.step_ns);
}

double parts_ns(const Problem& p, int parts) {
  return std::max(p.read_ns, static_cast<double>(blocks(p.steps, parts)) * p.step_ns) + kPartNs +
         kPartByteNs * p.image_bytes * parts;
}

double stream_ns(const Problem& p, int64_t ctas) {
  const double steps = static_cast<double>(p.tiles * p.steps) / static_cast<double>(ctas);
  return std::max(p.read_ns, steps * p.step_ns) + kStreamNs + kStreamByteNs * p.image_bytes;
}

// Few tiles in the last wave would be many parts each: then the wave before goes with it.
int stream_waves(int64_t tiles, int64_t ctas) { return tiles % ctas * 2 >= ctas ? 1 : 2; }

// The best tile, with the best division of its steps where one gains by the model's error.
Choice choose(const Sm90Gemm& p, const TargetInfo& target) {
  constexpr double kGain = 0.99;
  const int64_t ctas = target.multiprocessors;
  Choice best{kTiles[0], {}};
  double least = std::numeric_limits<double>::infinity();
  const auto consider = [&](const TileChoice& tile, Division division, double ns) {
    if (ns >= least) return;
    least = ns;
    best = {tile, division};
  };
  for (const TileChoice& tile : kTiles)
    if (fits(tile, p)) consider(tile, {}, whole_ns(problem_of(tile, p), ctas));
  least *= kGain;
  for (const TileChoice& tile : kTiles) {
    if (!fits(tile, p)) continue;
    const Problem problem = problem_of(tile, p);
    const int64_t there = resident(tile.cluster, target);
    const int64_t most =
        std::min(there / std::max<int64_t>(problem.tiles, 1), problem.steps / kLeastSteps);
    for (int parts = 2; parts <= std::min<int64_t>(most, 8); ++parts)
      consider(tile, {parts}, parts_ns(problem, parts));
    if (p.plain_epilogue && problem.tiles > there)
      consider(tile, {0, stream_waves(problem.tiles, there)}, stream_ns(problem, ctas));
  }
  return best;
}

void divide(Schedule& s, const Division& division) {
  if (division.parts == 1) return;
  s.name += division.parts > 1 ? "_k" + std::to_string(division.parts)
                               : "_stream" + std::to_string(division.stream_waves);
  s.gpu.split = {{.loop = "kk",
                  .across = gpu::Across::kGrid,
                  .ways = division.parts,
                  .stream_waves = division.stream_waves}};
}

gpu::Labels copies_of(const Sm90Gemm& p) {
  gpu::Labels copies = {p.left};
  copies.insert(copies.end(), p.right.begin(), p.right.end());
  return copies;
}

// Up to 64 rows, bound by reading the weights: they take the 64-row side of the tensor cores, and
// enough CTAs share K that all multiprocessors read.
Schedule few_rows(const Sm90Gemm& p, const TargetInfo& target) {
  const int64_t bytes = size_bytes(p.operand);
  const int64_t rows = p.rows <= 8 ? 8 : p.rows <= 16 ? 16 : p.rows <= 32 ? 32 : 64;
  const int64_t panels = p.batches * blocks(p.columns, 64);
  // Two panels a CTA where there are more than multiprocessors.
  const int groups = panels > 2 * target.multiprocessors ? 2 : 1;
  const int64_t depth = 2 * 128 / bytes;  // 256 bytes of a row a step
  int split = 1;
  while (split < 8 && panels * split * 2 <= resident(split * 2, target) &&
         p.depth >= depth * split * 2)
    split *= 2;
  const auto products = static_cast<int64_t>(p.right.size());
  const int64_t slot = (rows + products * 64 * groups) * 256;
  const int64_t images = split > 1 ? products * split * rows * 64 * groups * 4 : 0;
  Schedule s;
  s.name = "swap_" + std::to_string(64 * groups) + "x" + std::to_string(rows) +
           (split > 1 ? "_k" + std::to_string(split) : "");
  s.tile = {{"BM", rows}, {"BN", 64 * groups}, {"BK", depth}};
  s.gpu.roles = {{.name = "feed", .groups = 1, .runs = copies_of(p)},
                 {.name = "mma", .groups = groups, .runs = p.products}};
  if (split > 1) s.gpu.split = {{.loop = "kk", .ways = split}};
  for (const std::string& label : copies_of(p)) s.gpu.copy[label].via = gpu::Via::kTma;
  // Half of the shared memory lets the next launch's CTAs in beside these (measured: 16.7 to 14.4
  // us for 16 x 6144 x 4096), if enough slots remain.
  const int64_t half = (kSharedBytes / 2 - 1024 - images) / slot;
  const int64_t slots = half >= 5 ? half : (kSharedBytes - images) / slot;
  s.gpu.rings = {{.copies = copies_of(p), .depth = static_cast<int>(std::min<int64_t>(slots, 16))}};
  // More tiles than multiprocessors: all of these read until the end.
  if (groups == 2) {
    const int64_t tiles = p.batches * blocks(p.columns, 128);
    divide(s, {0, stream_waves(tiles, target.multiprocessors)});
    s.gpu.grid = gpu::Grid::kPersistent;
  }
  for (const std::string& product : p.products) s.gpu.product[product].swap = true;
  s.gpu.dependent_launch = true;
  return s;
}

}  // namespace

std::optional<Schedule> sm90_gemm_schedule(const Sm90Gemm& p, const TargetInfo& target) {
  const int64_t bytes = size_bytes(p.operand);
  if (bytes == 4 || (bytes == 1 && p.b_is_kn)) return std::nullopt;
  if (p.rows <= 64) return few_rows(p, target);
  const auto [tile, division] = choose(p, target);
  const int groups = groups_of(tile);
  Schedule s;
  s.name = "wgmma_" + std::to_string(tile.rows) + "x" + std::to_string(tile.columns) +
           (tile.cluster > 1 ? "_c" + std::to_string(tile.cluster) : "");
  s.tile = {{"BM", tile.rows}, {"BN", tile.columns}, {"BK", 128 / bytes}};
  const gpu::Labels copies = copies_of(p);
  s.gpu.roles = {
      {.name = "feed", .groups = 1, .regs = groups > 1 ? 40 : 0, .runs = copies},
      {.name = "mma", .groups = groups, .regs = groups > 1 ? 232 : 0, .runs = p.products}};
  if (tile.cluster > 1) s.gpu.cluster = {{"i", tile.cluster}};
  divide(s, division);
  s.gpu.grid = gpu::Grid::kPersistent;
  s.gpu.order.band_axis = "i";
  s.gpu.order.band = 16;
  s.gpu.copy[p.left].via = gpu::Via::kTma;
  for (const std::string& right : p.right)
    s.gpu.copy[right] = {.via = gpu::Via::kTma, .multicast = tile.cluster > 1};
  if (staged(tile, p))
    s.gpu.copy[p.out] = {
        .via = gpu::Via::kTma, .staging_columns = staging(tile, p), .staging_buffers = 2};
  s.gpu.rings = {{.copies = copies, .depth = ring_depth(tile, p)}};
  for (const std::string& product : p.products) s.gpu.product[product] = {};
  return s;
}

}  // namespace rooftile::ops
