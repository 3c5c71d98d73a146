// SPDX-License-Identifier: Apache-2.0
// `Product::swap`: the same phase with every tile transposed, except those that products read.
//
// A product [M, K] x [K, N] becomes [N, K] x [K, M]: what was the right operand takes the 64-row
// side of the instruction. Operands stay in memory as they are (a transpose is a flag of the
// instruction); sums, whatever is computed from them and the regions they are stored to change
// axes. The meaning is unchanged, and the rest of the lowering need not know.
#pragma once

#include "rooftile/base/diag.h"
#include "rooftile/compile/schedule_gpu.h"
#include "rooftile/ir/ir.h"

namespace rooftile::codegen {

bool swaps_products(const ir::Program& program, const gpu::Plan& plan, ir::ValueId phase);

// RT-P002 if a product of the phase is not swapped while another is, or takes an operand that is
// not a load.
Result<ir::Program> swap_products(const ir::Program& program, const gpu::Plan& plan,
                                  ir::ValueId phase);

}  // namespace rooftile::codegen
