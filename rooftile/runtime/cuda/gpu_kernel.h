// SPDX-License-Identifier: Apache-2.0
// A compiled GPU kernel as plain data, and the call that its launcher makes.
//
// Whatever a launch needs is prepared when the kernel is made: where each parameter comes from in
// the launcher's arrays, and how each tensor map is made. A call in steady state copies nothing:
// parameters are pointers into those arrays, maps come from the thread's cache.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "rooftile/base/diag.h"
#include "rooftile/base/dtype.h"
#include "rooftile/runtime/cuda/module.h"
#include "rooftile/runtime/cuda/tensor_map.h"
#include "rooftile/runtime/cuda/workspace.h"
#include "rooftile/runtime/ffi_abi.h"

namespace rooftile::cuda {

// Where a kernel's parameter lies in RtGpuCall.
struct GpuParam {
  enum Kind : uint8_t {
    kMap,        // maps[index]
    kTensor,     // tensors[index]
    kWorkspace,  // the index-th workspace tensor
    kInt,        // ints[index], whole or its low 32 bits
    kFloat,      // floats[index]
  } kind = kTensor;
  int index = 0;
};

struct GpuMap {
  int tensor = 0;  // in RtGpuCall::tensors
  std::string name;
  DType dtype = DType::kBf16;
  int rank = 0;
  std::array<int, kMaxMapRank> stride{};    // index in RtGpuCall::ints, outermost first
  std::array<uint32_t, kMaxMapRank> box{};  // outermost first
  abi::TensorMapSwizzle swizzle = abi::kSwizzle128;
  abi::TensorMapL2 l2 = abi::kL2Bytes256;
};

struct GpuPhase {
  std::string name;  // entry function
  std::string cubin;
  std::string schedule;  // for messages
  uint32_t threads = 128, cluster = 1, shared_bytes = 0;
  bool dependent_launch = false;
  std::vector<GpuMap> maps;
  std::vector<GpuParam> params;
};

struct GpuKernelImage {
  std::string name;
  std::vector<std::vector<GpuPhase>> variants;
  std::vector<GpuWorkspace> workspaces;
};

// Lives as long as the process: graphs may call it.
class GpuKernel {
 public:
  static const GpuKernel* keep(GpuKernelImage image);

  // What __rooftile_bind_<name> takes.
  RtGpuLauncher launcher() const;

  // Launches all phases of the call's variant. Nothing is launched unless all can be.
  Status launch(const RtGpuCall& call) const;

  // Brings code and attributes to the device ahead of the first call. RT-R004 and on.
  Status prepare(int device_id) const;

  const GpuKernelImage& image() const { return image_; }

 private:
  explicit GpuKernel(GpuKernelImage image);
  Result<const Kernel*> kernel(const Device& device, size_t variant, size_t phase,
                               abi::Stream stream) const;
  Status launch_phase(const Device& device, const RtGpuCall& call, size_t phase,
                      void* const* workspaces) const;

  GpuKernelImage image_;
  // [variant][phase], loaded at first use
  mutable std::vector<std::vector<std::atomic<const Kernel*>>> kernels_;
};

}  // namespace rooftile::cuda
