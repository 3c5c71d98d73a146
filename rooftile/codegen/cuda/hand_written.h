// SPDX-License-Identifier: Apache-2.0
// A hand-written CUDA text with what it is given: types, products of tensor cores, numbers, and the
// head of its kernel.
//
// The head is printed from the same description that the launch is made from, so that parameters
// cannot be taken in another order, number or type than they are passed in.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "rooftile/lanes/lanes.h"

namespace rooftile::codegen {

struct HandWritten {
  std::string_view text;
  std::map<std::string, int64_t, std::less<>> numbers;  // "causal": RT_CAUSAL in the text
  // Wgmma<N> for these N: products m64nNk16 of bf16 with sums in f32 as static functions
  //   first(d, a, b)        d = a b       both K-major in shared memory, by descriptors
  //   add(d, a, b)          d += a b
  //   keep(d, a, b, keep)   d = keep ? d + a b : a b
  //   add_regs(d, r, b)     d += r b      a in four registers, b with N innermost
  std::vector<int> products;
};

// The parameters of RT_KERNEL are kernel_params(launch) (emit_cuda.h); `launch` has no body.
std::string emit_hand_written(const lanes::Program& launch, const HandWritten& from);

}  // namespace rooftile::codegen
