// SPDX-License-Identifier: Apache-2.0
// Text of the products: packing routines and register-tile kernels.
//
// All mechanisms share one layout. A word is 32 bits: 1 f32, 2 bf16 or 4 i8 along K.
//   A  rows of K words, `pa` bytes apart, zero padded to 16 words
//   B  panels of 32 columns: [panel][K words, padded to 16][32 words], zero padded on both sides
//   C  row-major f32 or i32, `ldc` elements apart, room for whole 16-row tiles and 32-column panels
// so the choice of mechanism is the choice of a function, and packed weights serve all of them.
#pragma once

#include <string>

#include "rooftile/base/dtype.h"
#include "rooftile/compile/schedule.h"
#include "rooftile/compile/target.h"

namespace rooftile::codegen {

inline constexpr int kPanelColumns = 32;
inline constexpr int kWordAlign = 16;  // K words are padded to this: one AMX row

enum class MmaUnit : uint8_t {
  kAmxBf16,
  kAmxInt8,  // 16x16 tiles, 64 bytes of K a step
  kDotBf16,
  kDotInt8,  // vdpbf16ps, vpdpbusd
  kFmaF32,
  kFmaBf16,  // FMA on f32 words; bf16 words widened on the fly
  kMulInt8,  // four multiplies a word; any machine
};

struct MmaUnitInfo {
  MmaUnit unit;
  const char* name;  // "amx_bf16": part of the function's name
  DType word_dtype;  // what packed operands hold (f16 operands are packed as f32)
  int per_word;      // elements along K in a 32-bit word
  bool int_acc;
  bool amx;
};
const MmaUnitInfo& unit_info(MmaUnit unit);

// The unit for operands of `dtype`; kPlacement is decided by the caller when `wish` cannot be met
// (returns false).
bool choose_unit(DType dtype, MmaMechanism wish, const TargetInfo& target, MmaUnit* unit);

// amx_enter, amx_leave: tile configuration of a thread
std::string amx_setup_text();
std::string packing_text();  // copy_row, pack_n_major, pack_k_major
// function mm_<name>(...)
std::string mma_text(MmaUnit unit, const TargetInfo& target, int prefetch_bytes);
// functions mm_amx_bf16_rows_t, mm_amx_bf16_rows_n: the right operand as it lies in memory
std::string mma_direct_text();

}  // namespace rooftile::codegen
