// SPDX-License-Identifier: Apache-2.0
// What tests say to, and hear from, the stub driver (stub_driver.cc): a shared object with the
// CUDA driver's entry points over devices that exist only on paper. Reached through the symbol
// rooftile_stub_control.
#pragma once

#include <cstddef>
#include <cstdint>

#include "rooftile/runtime/cuda/driver_abi.h"

namespace rooftile::stub {

enum EntryPoint : int {
#define RT_ENUM(field, version, parameters) k##field,
  RT_CUDA_ENTRY_POINTS(RT_ENUM)
#undef RT_ENUM
      kNumEntryPoints
};

// One call of cuLaunchKernelEx, as the driver saw it.
struct Launch {
  char kernel[64];
  int device;  // of the context that was current
  unsigned grid[3], block[3], cluster[3];
  unsigned dynamic_smem_bytes;
  bool dependent_launch, cooperative;
  bool captured;  // went into a graph
  cuda::abi::Stream stream;
  uint64_t first_argument;  // the first 8 bytes of the first argument; 0 without arguments
};

struct Control {
  // Back to the start: one device of compute capability 9.0, driver 13.0, nothing counted, nothing
  // failing. Streams, memory and kernels stay valid.
  void (*reset)();
  // Fields split by blanks: "devices=9.0,8.0" "version=12020" "prohibited=1" (device 1)
  // "fail=LaunchKernelEx:2:700" (the second call from now on fails with 700; with "+" at the end
  // all later ones, too) "without=FuncLoad" (the driver has no such entry point). The environment
  // variable ROOFTILE_STUB_SCRIPT is read in the same way when the library is loaded.
  void (*script)(const char* text);
  uint64_t (*calls)(EntryPoint which);
  size_t (*num_launches)();
  Launch (*launch)(size_t index);
  // Off: launches are counted, not recorded; for timing.
  void (*record_launches)(bool on);
  // What the driver says of a kernel of this name.
  void (*describe_kernel)(const char* name, int static_smem_bytes, int max_threads);
  // An attribute that was set on a kernel, for a device; -1 if it was not.
  int (*kernel_attribute)(const char* name, cuda::abi::FunctionAttribute which, int device);
};

using GetControl = const Control* (*)();

}  // namespace rooftile::stub
