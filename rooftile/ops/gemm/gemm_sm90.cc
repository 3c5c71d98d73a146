// SPDX-License-Identifier: Apache-2.0
#include "rooftile/ops/gemm/gemm_sm90.h"

#include <algorithm>
#include <vector>

namespace rooftile::ops {
namespace {

// Output tiles and what a multiprocessor reaches with them, as a share of the best (8192^3 on an
// H200; small ones by their arithmetic intensity). The tail of the last wave decides between them.
struct TileChoice {
  int64_t rows, columns;
  int cluster;  // CTAs along the rows that share b
  double rate;
};
constexpr TileChoice kTiles[] = {
    {128, 256, 1, 1.00}, {128, 192, 2, 0.98}, {128, 128, 2, 0.94}, {128, 64, 1, 0.62},
    {64, 256, 1, 0.80},  {64, 128, 1, 0.62},  {64, 64, 1, 0.40},   {64, 32, 1, 0.15},
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

// Time in multiples of one product.
double cost(const TileChoice& tile, const Sm90Gemm& p, const TargetInfo& target) {
  const int64_t tiles = p.batches * blocks(p.rows, tile.rows) * blocks(p.columns, tile.columns);
  const int64_t waves = blocks(tiles, target.multiprocessors);
  return static_cast<double>(waves * tile.rows * tile.columns) / tile.rate;
}

TileChoice choose(const Sm90Gemm& p, const TargetInfo& target) {
  TileChoice best = kTiles[0];
  double least = 0;
  for (const TileChoice& tile : kTiles) {
    if (!fits(tile, p)) continue;
    if (const double now = cost(tile, p, target); least == 0 || now < least) {
      least = now;
      best = tile;
    }
  }
  return best;
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
  s.gpu.rings = {
      {.copies = copies_of(p),
       .depth = static_cast<int>(std::min<int64_t>((kSharedBytes - images) / slot, 16))}};
  for (const std::string& product : p.products) s.gpu.product[product].swap = true;
  s.gpu.dependent_launch = true;
  return s;
}

}  // namespace

std::optional<Schedule> sm90_gemm_schedule(const Sm90Gemm& p, const TargetInfo& target) {
  const int64_t bytes = size_bytes(p.operand);
  if (bytes == 4 || (bytes == 1 && p.b_is_kn)) return std::nullopt;
  if (p.rows <= 64) return few_rows(p, target);
  const TileChoice tile = choose(p, target);
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
