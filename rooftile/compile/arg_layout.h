// SPDX-License-Identifier: Apache-2.0
// The calling convention between a generated launcher and a generated CPU kernel; both emitters
// read it here.
//
//   extern "C" void <kernel>_run(void* const* t, const i64* n, const float* f, char* workspace);
//   extern "C" i64  <kernel>_workspace(const i64* n);  // bytes, aligned to 64; 0: none
//
//   t  data pointers of the argument tensors, in the program's order (absent optional tensors are
//      not in the program)
//
//   n  first every dim bound by a tensor shape (in order of first appearance as a bare symbol),
//      then the integer attributes, then the strides of each argument tensor, outermost first
//      ("x.s0", "x.s1", ...), in elements
//
//   f  float attributes in order
//
// Workspace tensors (ir::Role::kWorkspace) live inside `workspace` and are laid out by the kernel
// itself.
#pragma once

#include <string>
#include <vector>

#include "rooftile/ir/ir.h"

namespace rooftile {

struct ArgLayout {
  std::vector<std::string> tensors;
  std::vector<std::string> ints;
  std::vector<std::string> floats;
  size_t num_dims = 0;                         // leading entries of `ints` that are dims
  size_t num_int_attrs = 0;                    // the entries after them
  int int_index(std::string_view name) const;  // -1 if absent
};

// Fails (RT-L002) if a symbol used in a shape, bound or clause is bound by no tensor, attribute or
// tile parameter.
Result<ArgLayout> arg_layout(const ir::Program& program);

}  // namespace rooftile
