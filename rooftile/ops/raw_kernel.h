// SPDX-License-Identifier: Apache-2.0
// RawKernel: a hand-written CUDA text and how it is launched, in place of a tile program.
//
// For what the language cannot say yet. The text is a file raw/<file> of the operator's family or
// folder, put into the program by the build. It is not proved: what it needs of a call is stated
// here as data and checked by the generated launcher, like everything that the contract asks.
//
// What the text is given (codegen/cuda/hand_written.h has the exact form):
//   RT_KERNEL     the head of the kernel, with a parameter for every map, tensor and scalar below,
//                 in this order, by their names; a stride "q.s0" is q_s0
//   RT_<NAME>     a number for every tile parameter of the schedule, every dim that it fixes, every
//                 flag of the config, and RT_HAS_<NAME> for every optional tensor
//   and the instructions of the prelude, raw/prelude_sm90.cu
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "rooftile/base/dtype.h"
#include "rooftile/base/expr.h"

namespace rooftile {

struct RawMap {
  std::string name;         // of the parameter
  std::string tensor;       // an argument
  std::vector<int> box;     // elements, outermost first: one a dimension of the tensor
  int swizzle_bytes = 128;  // 0, 32, 64 or 128
};

struct RawWorkspace {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<Expr> shape;  // over dims and, outermost, "SMS", the device's multiprocessors
  // Zero when the kernel starts, and the kernel leaves it so. Otherwise its contents are undefined.
  bool zeroed = false;
};

// A float attribute of which the text takes these values alone; NaN is none of them.
struct RawRange {
  std::string attr;
  double least = 0, most = 0;
};

struct RawKernel {
  std::string file;  // "attention_sm90.cu"
  // Products of tensor cores that the text uses: wgmma m64nNk16 on bf16, for these N.
  std::vector<int> products;

  // Parameters. Strides are i64, dims and integer attributes i32, other attributes float.
  std::vector<RawMap> maps;
  std::vector<std::string> tensors;  // pointers to arguments and workspaces
  std::vector<std::string> scalars;  // strides first, then dims and integer attributes, then floats
  std::vector<RawWorkspace> workspaces;

  // Launch. The grid is over dims and "SMS".
  Expr grid_x = 1, grid_y = 1, grid_z = 1;
  int threads = 128, cluster = 1, ctas_per_sm = 1;
  int64_t shared_bytes = 0;
  std::vector<std::string> ptxas;  // further options

  // What the text needs of a call beyond the contract. A call that lacks it goes to the tile
  // kernel.
  int align_bytes = 16;              // of data and of all strides but the innermost ...
  std::vector<std::string> aligned;  // ... of these tensors
  std::vector<Expr> conditions;  // over dims and integer attributes; fixed dims go without saying
  std::vector<RawRange> ranges;
};

// The text of a file in a folder raw/ under rooftile/ops; empty if there is none of this name.
std::string_view raw_text(std::string_view file);

}  // namespace rooftile
