// SPDX-License-Identifier: Apache-2.0
// L3 for the GPU: a program of L2 as CUDA C++ for NVRTC.
//
// The text includes nothing: it brings its own typedefs and tensor map, and one helper function for
// every PTX instruction that it uses. Structure, names and comments are the program's.
//
// Signed arithmetic in it is C++'s, where overflow is undefined: an i32 that is meant to wrap must
// be computed as u32.
#pragma once

#include <string>
#include <vector>

#include "rooftile/base/diag.h"
#include "rooftile/lanes/lanes.h"

namespace rooftile::codegen {

// A parameter of the kernel, in the order in which it is passed.
struct KernelParam {
  enum class Kind : uint8_t {
    kTensorMap,  // 128 bytes, by value
    kPointer,    // data of a tensor
    kStride,     // "x.s0", in elements
    kDim,        // integer
    kAttribute,  // float
  };
  Kind kind = Kind::kPointer;
  std::string name;  // of the map, tensor or scalar in the program
  lanes::Ty type = lanes::Ty::kU64;
  int size = 8;  // bytes; alignment is the same, but 64 for maps
};

// Tensor maps, tensors, strides, dims, attributes; each group in the program's order.
std::vector<KernelParam> kernel_params(const lanes::Program& program);

// Fails as verify_rolled does (whoever compiles the text runs the rest of verify), and where shared
// memory is not placed. The kernel's name is the program's.
Result<std::string> emit_cuda(const lanes::Program& program);

}  // namespace rooftile::codegen
