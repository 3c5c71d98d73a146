// SPDX-License-Identifier: Apache-2.0
#include "rooftile/ops/gemm/gemm_sm90.h"

#include <algorithm>

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

constexpr int64_t kSharedBytes = 232448 - 1024;  // barriers aside

int64_t blocks(int64_t extent, int64_t block) { return (extent + block - 1) / block; }

bool staged(const TileChoice& tile, const Sm90Gemm& p) {
  return size_bytes(p.result) == 2 && tile.columns % 64 == 0;
}

int groups_of(const TileChoice& tile) { return tile.rows == 128 ? 2 : 1; }

int ring_depth(const TileChoice& tile, const Sm90Gemm& p) {
  const int64_t slot = (tile.rows + static_cast<int64_t>(p.right.size()) * tile.columns) * 128;
  const int64_t staging = staged(tile, p) ? groups_of(tile) * 2 * 8192 : 0;
  return static_cast<int>(std::min<int64_t>((kSharedBytes - staging) / slot, 16));
}

TileChoice choose(const Sm90Gemm& p, const TargetInfo& target) {
  TileChoice best = kTiles[0];
  double least = 0;
  for (const TileChoice& tile : kTiles) {
    if (p.b_is_kn && tile.columns % 64 != 0) continue;
    // The sums of all products share the registers of one.
    if (static_cast<int64_t>(p.right.size()) * tile.columns > 256) continue;
    // Stores from registers need some for their addresses.
    if (!staged(tile, p) && tile.columns > 192) continue;
    if (tile.cluster > 1 && blocks(p.rows, tile.rows) < 2) continue;
    const int64_t tiles = p.batches * blocks(p.rows, tile.rows) * blocks(p.columns, tile.columns);
    const int64_t waves = blocks(tiles, target.multiprocessors);
    const double cost = static_cast<double>(waves * tile.rows * tile.columns) / tile.rate;
    if (least == 0 || cost < least) {
      least = cost;
      best = tile;
    }
  }
  return best;
}

}  // namespace

std::optional<Schedule> sm90_gemm_schedule(const Sm90Gemm& p, const TargetInfo& target) {
  const int64_t bytes = size_bytes(p.operand);
  if (bytes == 4 || (bytes == 1 && p.b_is_kn)) return std::nullopt;
  const TileChoice tile = choose(p, target);
  const int groups = groups_of(tile);
  Schedule s;
  s.name = "wgmma_" + std::to_string(tile.rows) + "x" + std::to_string(tile.columns) +
           (tile.cluster > 1 ? "_c" + std::to_string(tile.cluster) : "");
  s.tile = {{"BM", tile.rows}, {"BN", tile.columns}, {"BK", 128 / bytes}};
  gpu::Labels copies = {p.left};
  copies.insert(copies.end(), p.right.begin(), p.right.end());
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
    s.gpu.copy[p.out] = {.via = gpu::Via::kTma, .staging_columns = 64, .staging_buffers = 2};
  s.gpu.rings = {{.copies = copies, .depth = ring_depth(tile, p)}};
  for (const std::string& product : p.products) s.gpu.product[product] = {};
  return s;
}

}  // namespace rooftile::ops
