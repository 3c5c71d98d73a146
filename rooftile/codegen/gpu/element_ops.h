// SPDX-License-Identifier: Apache-2.0
// What becomes of one element of a tile in a register: types, element-wise operations, casts, and
// the unpacking and packing of narrow types between memory and registers.
#pragma once

#include <vector>

#include "rooftile/ir/ir.h"
#include "rooftile/lanes/lanes.h"

namespace rooftile::codegen {

// The register that holds one element: f32 for every float, i32 for i8, u8 and i32, u32, i64, pred.
lanes::Ty register_type(DType dtype);

// `ew` over elements; `dtype` is the result's. Integer results narrower than the register wrap.
// `fast`: exp2 may flush subnormals.
lanes::Val element_op(ir::Ew ew, DType dtype, const std::vector<lanes::Val>& operands,
                      bool fast = false);
// To `to`, as ir::Op::kCast says: nearest even, saturating for fp8 and integers. The result of a
// narrow float is its value as f32 (rounded), so that it can be used or packed.
lanes::Val element_cast(DType from, DType to, const lanes::Val& value);
lanes::Val element_fill(DType dtype, double number);
// The neutral element of a reduction over elements of `dtype`.
lanes::Val neutral(ir::ReduceKind kind, DType dtype);
lanes::Val combine(ir::ReduceKind kind, DType dtype, const lanes::Val& a, const lanes::Val& b);

// Memory to registers: element `i` of a run of `width` elements that LdGlobal left in `raw` (see
// instr.def, raw registers): the scalar register `raw` for width 1, else array `raw` of u32 words.
// `first`: where in the array the run begins (absent: 0).
lanes::Val unpack_element(DType dtype, const std::string& raw, int width, int i,
                          const lanes::Val& first = {});
// Registers needed for a run, and their type: {1, type} or {bytes / 4, kU32}.
struct RawRegisters {
  lanes::Ty type;
  int count;  // 0: a scalar register
};
RawRegisters raw_registers(DType dtype, int width);
// Raw register `word` of a run whose elements are `elements` (already of dtype's value).
lanes::Val pack_elements(DType dtype, const std::vector<lanes::Val>& elements, int width, int word);

}  // namespace rooftile::codegen
