// SPDX-License-Identifier: Apache-2.0
// Compiles rms_norm in f32 and prints the shared object and the function in it, for
// tvm_ffi_test.py.
#include <cstdio>

#include "rooftile/api.h"

int main() {
  using namespace rooftile;
  float data[8] = {};
  const TensorView matrix(data, DType::kF32, {2, 4}), row(data, DType::kF32, {4});
  const auto kernel =
      kernel_for(built_in("rms_norm"), {{"out", matrix}, {"x", matrix}, {"weight", row}});
  if (!kernel.ok()) {
    std::fprintf(stderr, "%s\n", kernel.diag().str().c_str());
    return 1;
  }
  std::printf("%s\n%s\n", (*kernel)->library_path.c_str(), (*kernel)->source.name.c_str());
  return 0;
}
