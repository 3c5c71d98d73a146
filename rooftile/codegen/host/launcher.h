// SPDX-License-Identifier: Apache-2.0
// Writes the host code of a kernel: `extern "C" int __tvm_ffi_<name>(handle, args, n, result)`, a
// TVM-FFI function that checks the whole contract in a straight line, then runs the kernel in
// place. No allocation, lock, or lookup on the way; a violation gives one error (RtError in
// runtime/ffi_abi.h) and nothing is written.
//
// Order of arguments: the program's tensors, then its scalars; absent optional tensors are not
// passed at all. Order of checks: count and kinds, ranks, dtypes, devices, attributes, extents,
// strides, pointers and alignment, aliasing, conditions, values of index tensors. When every output
// is empty, the kernel is not run.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "rooftile/base/diag.h"
#include "rooftile/base/expr.h"
#include "rooftile/ir/ir.h"

namespace rooftile {

// C++ text without includes, to be appended to the kernel's text. `name` is the symbol stem that
// compile/arg_layout.h names <kernel>. Fails with RT-L002 when a symbol of the contract has no
// value at a call.
Result<std::string> emit_launcher(const ir::Program& program, const std::string& name);

// The same for a GPU kernel: tensors live on one CUDA device, the first variant whose needs a call
// meets is launched on the caller's stream, and its index tensors, which are on the device, are not
// looked into: what the contract says of their values is the caller's promise.
// RtGpuCall::ints holds, behind the entries of arg_layout, the strides of the workspace tensors in
// their order, outermost first.
struct AttrRange {
  std::string attr;
  double least = 0, most = 0;
};
struct GpuLaunchVariant {
  int align_bytes = 1;  // of data and of all strides but the innermost, of the tensors `aligned`
  std::vector<std::string> aligned;
  std::vector<Expr> conditions;            // over dims and integer attributes
  std::vector<AttrRange> ranges;           // of float attributes
  std::vector<std::array<Expr, 3>> grids;  // of each phase; "SMS": multiprocessors of the device
};
Result<std::string> emit_gpu_launcher(const ir::Program& program, const std::string& name,
                                      const std::vector<GpuLaunchVariant>& variants);

}  // namespace rooftile
