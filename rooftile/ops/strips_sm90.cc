// SPDX-License-Identifier: Apache-2.0
#include "rooftile/ops/strips_sm90.h"

#include <algorithm>
#include <bit>

namespace rooftile::ops {
namespace {

constexpr int64_t kVectorBytes = 16;
constexpr int64_t kMostHeld = 8;        // vectors a thread, of 4 registers
constexpr int kThreadsInFlight = 1536;  // of 2048: leaves 40 registers a thread
constexpr int64_t kMultiprocessors = 132;
constexpr int64_t kThreadsOfMachine = kMultiprocessors * 1024;

int64_t vectors_of(int64_t columns, DType dtype) {
  const int64_t elements = kVectorBytes / size_bytes(dtype);
  return std::max<int64_t>((columns + elements - 1) / elements, 1);
}

int threads_for(int64_t vectors, int64_t most) {
  const auto up = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(vectors)));
  return static_cast<int>(std::clamp<int64_t>(up, 32, most));
}

}  // namespace

// Four vectors a thread, several small CTAs a multiprocessor at different phases. Measured on an
// H200 (GB/s): rms_norm 8192 columns 256 x 4 4061, 512 x 2 3975, 128 x 8 3925; softmax 4096 128 x 4
// 3908, 256 x 2 3808; layer_norm 4096 128 x 4 3942. Where rows do not fill the machine, a row's own
// time counts: fewer vectors a thread, as long as there is room for all the threads.
Schedule sm90_rows(int64_t rows, int64_t columns, DType dtype, int streams) {
  const int64_t vectors = vectors_of(columns, dtype);
  int64_t a_thread = 4;
  const auto threads_with = [&](int64_t each) {
    return threads_for((vectors + each - 1) / each, 1024);
  };
  while (a_thread > 1 && rows * threads_with(a_thread / 2) <= kThreadsOfMachine) a_thread /= 2;
  const int threads = threads_with(a_thread);
  const int64_t held = (vectors + threads - 1) / threads;
  if (held > kMostHeld / streams) return sm90_streamed(columns, dtype);
  Schedule s;
  s.name = "rows_" + std::to_string(threads) + "x" + std::to_string(held);
  s.gpu.strips = {.threads = threads,
                  .vector_bytes = static_cast<int>(kVectorBytes),
                  .held_vectors = static_cast<int>(held)};
  // 64 registers a thread, 80 where several rows are held.
  s.gpu.ctas_per_sm = std::clamp((streams > 1 ? 768 : 1024) / threads, 1, 8);
  return s;
}

Schedule sm90_row_blocks(int64_t rows, int64_t columns, DType dtype, int streams) {
  const int64_t elements = kVectorBytes / size_bytes(dtype);
  const int64_t vectors = vectors_of(columns, dtype);
  const int64_t all = rows * vectors;
  int64_t threads = 128, held = all <= 2 * kThreadsOfMachine ? 1 : 2;
  if (all > 4 * kThreadsOfMachine) {  // whole rows, as many CTAs as there are
    const Schedule whole = sm90_rows(rows, columns, dtype, streams);
    threads = whole.gpu.strips.threads;
    held = std::clamp<int64_t>(whole.gpu.strips.held_vectors, 1, kMostHeld / streams);
  }
  Schedule s;
  s.name = "blocks_" + std::to_string(threads) + "x" + std::to_string(held);
  s.tile = {{"BH", threads * held * elements}};
  s.gpu.strips = {.threads = static_cast<int>(threads),
                  .vector_bytes = static_cast<int>(kVectorBytes),
                  .held_vectors = static_cast<int>(held)};
  s.gpu.ctas_per_sm = static_cast<int>(std::clamp<int64_t>(768 / threads, 1, 8));
  return s;
}

Schedule sm90_row_parts(int64_t rows, int64_t columns, DType dtype) {
  const auto parts_of = [&](int64_t width) { return rows * ((columns + width - 1) / width); };
  // A warp joins 32 parts with one load each. Of one row of 128256 bf16, softmax takes 3.9 us in 32
  // parts, 9.2 in 63 and 9.1 in 126: numbers that are no multiple of four are read one by one.
  constexpr int64_t kMostParts = 32, kWidest = 8192;
  int64_t width = 1024;
  while (width < kWidest &&
         (columns > kMostParts * width || parts_of(width) > 4 * kMultiprocessors))
    width *= 2;
  Schedule s = sm90_rows(parts_of(width), width, dtype);
  s.name = "parts_" + s.name;
  s.tile = {{"BV", width}};
  s.gpu.ctas_per_sm = std::clamp(768 / s.gpu.strips.threads, 1, 8);  // 80 registers a thread
  s.gpu.dependent_launch = true;
  return s;
}

bool sm90_has_few_long_rows(int64_t rows, int64_t columns, const TargetInfo& target) {
  return target.gpu && 2 * rows <= target.multiprocessors && columns >= 16384;
}

Schedule sm90_streamed(int64_t columns, DType dtype, int most_threads) {
  Schedule s;
  const int threads = threads_for(vectors_of(columns, dtype), most_threads);
  s.name = "streamed_" + std::to_string(threads);
  s.gpu.strips = {.threads = threads, .vector_bytes = static_cast<int>(kVectorBytes)};
  s.gpu.ctas_per_sm = std::clamp(kThreadsInFlight / threads, 1, 8);
  return s;
}

Schedule sm90_fma_product(int64_t rows, int64_t columns, int sums) {
  Schedule s;
  int64_t bm = 128, bn = sums > 1 ? 64 : 128, threads = 256;
  if (rows <= 32) {
    bm = 32;
    bn = 64;
    threads = 128;
  } else if (rows * columns <= 2048 * 2048) {  // fewer than two tiles a multiprocessor
    bm = bn = 64;
  }
  s.name = "fma_" + std::to_string(bm) + "x" + std::to_string(bn);
  s.tile = {{"BM", bm}, {"BN", bn}, {"BK", 16}};
  s.gpu.strips.threads = static_cast<int>(threads);
  return s;
}

// Two CTAs a multiprocessor, so that one multiplies while the other waits for memory: 64 sums a
// thread and as many registers again.
Schedule sm90_mma_product(int64_t rows, int64_t columns, DType operand,
                          const gpu::Labels& products) {
  const auto sums = static_cast<int64_t>(products.size());
  const int64_t bytes = size_bytes(operand);
  int64_t bm = 128, bn = sums > 1 ? 64 : 128, bk = 64 / bytes, threads = 256;
  if (rows <= 32) {
    bm = 32;
    bn = 64;
    bk = (sums > 1 ? 64 : 128) / bytes;
    threads = 128;
  } else if (rows * columns <= 2048 * 2048) {  // fewer than two tiles a multiprocessor
    bm = bn = 64;
    threads = 128;
  }
  Schedule s;
  s.name = "mma_" + std::to_string(bm) + "x" + std::to_string(bn);
  s.tile = {{"BM", bm}, {"BN", bn}, {"BK", bk}};
  s.gpu.strips.threads = static_cast<int>(threads);
  s.gpu.ctas_per_sm = threads == 256 ? 2 : 4;
  for (const std::string& label : products) s.gpu.product[label].unit = gpu::Unit::kMmaSync;
  return s;
}

Schedule sm90_strips_product(int64_t rows, int64_t columns, DType operand,
                             const gpu::Labels& products) {
  if (size_bytes(operand) == 2 || operand == DType::kI8)
    return sm90_mma_product(rows, columns, operand, products);
  return sm90_fma_product(rows, columns, static_cast<int>(products.size()));
}

// Four warps of 16 queries each; as many keys as leave registers for the next ones on their way.
// The sums of deeper heads leave none.
Schedule sm90_strips_attention(int64_t queries, int64_t depth, DType operand) {
  if (size_bytes(operand) != 2 || queries <= 16 || depth > 128)
    return sm90_fma_attention(queries, depth);
  Schedule s;
  s.name = "mma_64x32";
  s.tile = {{"BM", 64}, {"BN", 32}};
  s.gpu.strips.threads = 128;
  s.gpu.ctas_per_sm = 2;
  for (const char* label : {"qk", "pv"}) s.gpu.product[label].unit = gpu::Unit::kMmaSync;
  return s;
}

// Operands are f32 in shared memory: queries, keys, values and weights together.
Schedule sm90_fma_attention(int64_t queries, int64_t depth) {
  Schedule s;
  const int64_t block = depth <= 128 ? 64 : depth <= 256 ? 32 : 16;
  const int64_t rows = queries <= 16 ? 16 : block;
  s.name = "fma_" + std::to_string(rows) + "x" + std::to_string(block);
  s.tile = {{"BM", rows}, {"BN", block}};
  s.gpu.strips.threads = 256;
  return s;
}

}  // namespace rooftile::ops
