// SPDX-License-Identifier: Apache-2.0
// Schedules for Hopper without roles: rows; products by mma.sync, where wgmma or the copy engine
// does not take alignment or sizes; and by FMA, where no tensor core takes the types.
#pragma once

#include <cstdint>

#include "rooftile/base/dtype.h"
#include "rooftile/compile/schedule.h"
#include "rooftile/compile/target.h"

namespace rooftile::ops {

// One row of `columns` elements a CTA, in registers from load to store where it fits. `streams`:
// tensors of that size which the kernel reads more than once. `rows`: how many there are; few of
// them get more threads each.
Schedule sm90_rows(int64_t rows, int64_t columns, DType dtype, int streams = 1);

// Rows without sums, in blocks of "BH" columns, a CTA each, so that few long rows too keep all
// multiprocessors busy.
Schedule sm90_row_blocks(int64_t rows, int64_t columns, DType dtype, int streams);

// Rows with sums, in parts of "BV" columns: as many as fill the machine. What the parts leave in
// workspaces is joined by a second phase.
Schedule sm90_row_parts(int64_t rows, int64_t columns, DType dtype);
// Whether that pays: rows that leave most multiprocessors idle, and are worth a second launch.
bool sm90_has_few_long_rows(int64_t rows, int64_t columns, const TargetInfo& target);

// Rows that are read pass by pass, from memory or the caches.
Schedule sm90_streamed(int64_t columns, DType dtype, int most_threads = 1024);

// Products by FMA on tiles of `BM` x `BN` x `BK` for a result of this size. `sums`: results that
// one CTA accumulates side by side.
Schedule sm90_fma_product(int64_t rows, int64_t columns, int sums = 1);

// Products by mma.sync of 16-bit types and i8 (`operand`: what is multiplied), for those labels.
Schedule sm90_mma_product(int64_t rows, int64_t columns, DType operand,
                          const gpu::Labels& products = {"mm"});

// By mma.sync where tensor cores take `operand`, else by FMA.
Schedule sm90_strips_product(int64_t rows, int64_t columns, DType operand,
                             const gpu::Labels& products = {"mm"});

// Attention by mma.sync, or by FMA for f32, few queries or very deep heads.
Schedule sm90_strips_attention(int64_t queries, int64_t depth, DType operand);

// Attention by FMA: blocks of keys (BN) and, for prefill, of queries (BM), for heads of `depth`.
Schedule sm90_fma_attention(int64_t queries, int64_t depth);

}  // namespace rooftile::ops
