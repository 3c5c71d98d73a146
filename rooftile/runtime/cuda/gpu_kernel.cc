// SPDX-License-Identifier: Apache-2.0
#include "rooftile/runtime/cuda/gpu_kernel.h"

#include <list>
#include <memory>
#include <mutex>

#include "rooftile/runtime/cuda/device.h"
#include "rooftile/runtime/cuda/launch.h"

namespace rooftile::cuda {
namespace {

constexpr size_t kMaxParams = 96, kMaxMaps = 8, kMaxWorkspaces = 16;
constexpr int64_t kWorkspaceAlign = 256;

int64_t aligned_bytes(int64_t bytes) {
  return (bytes + kWorkspaceAlign - 1) / kWorkspaceAlign * kWorkspaceAlign;
}

// The workspaces of one kind, side by side in their block.
Status place_workspaces(const Device& device, const GpuKernelImage& image, const RtGpuCall& call,
                        GpuWorkspace kind, std::array<void*, kMaxWorkspaces>& out) {
  int64_t total = 0;
  bool any = false;
  for (size_t i = 0; i < image.workspaces.size(); ++i)
    if (image.workspaces[i] == kind) any = true, total += aligned_bytes(call.workspace_bytes[i]);
  if (!any) return {};
  Result<char*> block = device_workspace(device, static_cast<abi::Stream>(call.stream), kind,
                                         std::max<int64_t>(total, 1));
  if (!block.ok()) return block.diag();
  char* at = *block;
  for (size_t i = 0; i < image.workspaces.size(); ++i) {
    if (image.workspaces[i] != kind) continue;
    out[i] = at;
    at += aligned_bytes(call.workspace_bytes[i]);
  }
  return {};
}

TensorMapSpec map_spec(const GpuMap& map, const RtGpuCall& call, void* data) {
  TensorMapSpec spec;
  spec.address = reinterpret_cast<uint64_t>(data);
  TensorMapLayout& layout = spec.layout;
  layout.rank = static_cast<uint32_t>(map.rank);
  layout.swizzle = map.swizzle;
  layout.l2 = map.l2;
  switch (map.dtype) {
    case DType::kBf16:
      layout.type = abi::kMapBf16;
      break;
    case DType::kF16:
      layout.type = abi::kMapF16;
      break;
    case DType::kF32:
      layout.type = abi::kMapF32;
      break;
    default:
      layout.type = abi::kMapU8;
  }
  const int64_t* shape = call.shapes[map.tensor];
  const auto element = static_cast<int64_t>(size_bytes(map.dtype));
  for (int axis = 0; axis < map.rank; ++axis) {
    const auto from_inner = static_cast<size_t>(map.rank - 1 - axis);
    const auto at = static_cast<size_t>(axis);
    spec.sizes[from_inner] = static_cast<uint64_t>(shape[axis]);
    layout.box[from_inner] = map.box[at];
    layout.element_strides[from_inner] = 1;
    if (from_inner == 0) continue;
    // The stride of a dimension with one element is never used, but must be a legal one.
    const int64_t bytes = call.ints[map.stride[at]] * element;
    spec.strides_bytes[from_inner - 1] =
        static_cast<uint64_t>(shape[axis] <= 1 ? kWorkspaceAlign : bytes);
  }
  return spec;
}

std::string shapes_text(const void* data) {
  const auto& call = *static_cast<const RtGpuCall*>(data);
  return "variant " + std::to_string(call.variant) + " on device " + std::to_string(call.device_id);
}

struct Raised {
  Diag diag;
  std::string code, text;
  RtError error{};
};

const RtError* raise(Diag diag) {
  thread_local Raised raised;
  raised.diag = std::move(diag);
  const Diag& d = raised.diag;
  raised.code = code_text(d.code);
  raised.text = d.str();
  raised.error = {raised.code.c_str(), "RuntimeError",     d.subject.c_str(),  d.message.c_str(),
                  d.argument.c_str(),  d.found.c_str(),    d.expected.c_str(), d.when.c_str(),
                  d.fix.c_str(),       raised.text.c_str()};
  return &raised.error;
}

const RtError* launch_from_launcher(void* kernel, const RtGpuCall* call) {
  Status status = static_cast<const GpuKernel*>(kernel)->launch(*call);
  return status.ok() ? nullptr : raise(status.diag());
}

int32_t multiprocessors(void*, int32_t device_id) {
  Result<const Device*> found = device(device_id);
  return found.ok() ? (*found)->info().num_sms : 0;
}

}  // namespace

GpuKernel::GpuKernel(GpuKernelImage image) : image_(std::move(image)) {
  for (const std::vector<GpuPhase>& phases : image_.variants) kernels_.emplace_back(phases.size());
}

const GpuKernel* GpuKernel::keep(GpuKernelImage image) {
  // For the life of the process: streams may hold its work. The list keeps it reachable to the end.
  static std::mutex mutex;
  static auto& kept = *new std::list<std::unique_ptr<const GpuKernel>>;
  std::unique_ptr<const GpuKernel> kernel(new GpuKernel(std::move(image)));
  std::lock_guard lock(mutex);
  return kept.emplace_back(std::move(kernel)).get();
}

RtGpuLauncher GpuKernel::launcher() const {
  return {const_cast<GpuKernel*>(this), &launch_from_launcher, &multiprocessors};
}

Result<const Kernel*> GpuKernel::kernel(const Device& device, size_t variant, size_t phase,
                                        abi::Stream stream) const {
  std::atomic<const Kernel*>& slot = kernels_[variant][phase];
  const Kernel* loaded = slot.load(std::memory_order_acquire);
  if (loaded != nullptr) return loaded;
  const GpuPhase& p = image_.variants[variant][phase];
  Result<const Module*> module = Module::load(device, p.cubin, p.name, stream);
  if (!module.ok()) return module.diag();
  Result<const Kernel*> found = (*module)->kernel({.name = p.name,
                                                   .dynamic_smem_bytes = p.shared_bytes,
                                                   .cluster = {p.cluster, 1, 1},
                                                   .schedule = p.schedule});
  if (!found.ok()) return found.diag();
  slot.store(*found, std::memory_order_release);
  return *found;
}

Status GpuKernel::prepare(int device_id) const {
  Result<const Device*> on = device(device_id);
  if (!on.ok()) return on.diag();
  for (size_t v = 0; v < image_.variants.size(); ++v)
    for (size_t p = 0; p < image_.variants[v].size(); ++p) {
      Result<const Kernel*> found = kernel(**on, v, p, nullptr);
      if (!found.ok()) return found.diag();
      RT_RETURN_IF_ERROR((*found)->prepare(**on));
    }
  return {};
}

Status GpuKernel::launch_phase(const Device& device, const RtGpuCall& call, size_t phase,
                               void* const* workspaces) const {
  const auto variant = static_cast<size_t>(call.variant);
  const GpuPhase& p = image_.variants[variant][phase];
  const uint32_t* grid = call.grids + 3 * phase;
  if (grid[0] == 0 || grid[1] == 0 || grid[2] == 0) return {};
  const auto stream = static_cast<abi::Stream>(call.stream);
  Result<const Kernel*> found = kernel(device, variant, phase, stream);
  if (!found.ok()) return found.diag();

  std::array<abi::TensorMap, kMaxMaps> maps;
  for (size_t m = 0; m < p.maps.size(); ++m) {
    const GpuMap& map = p.maps[m];
    RT_RETURN_IF_ERROR(
        tensor_map(device, map_spec(map, call, call.tensors[map.tensor]), map.name, &maps[m]));
  }
  std::array<void*, kMaxParams> arguments;
  for (size_t i = 0; i < p.params.size(); ++i) {
    const GpuParam& param = p.params[i];
    const auto at = static_cast<size_t>(param.index);
    switch (param.kind) {
      case GpuParam::kMap:
        arguments[i] = &maps[at];
        break;
      case GpuParam::kTensor:
        arguments[i] = const_cast<void**>(call.tensors + at);
        break;
      case GpuParam::kWorkspace:
        arguments[i] = const_cast<void**>(workspaces + at);
        break;
      case GpuParam::kInt:  // little-endian: the low half comes first
        arguments[i] = const_cast<int64_t*>(call.ints + at);
        break;
      case GpuParam::kFloat:
        arguments[i] = const_cast<float*>(call.floats + at);
        break;
    }
  }
  LaunchConfig config;
  config.grid = {grid[0], grid[1], grid[2]};
  config.block = {p.threads, 1, 1};
  config.cluster = {p.cluster, 1, 1};
  config.dynamic_smem_bytes = p.shared_bytes;
  config.stream = stream;
  config.dependent_launch = p.dependent_launch;
  config.shapes = {&shapes_text, &call};
  return cuda::launch(**found, device, config, arguments.data());
}

Status GpuKernel::launch(const RtGpuCall& call) const {
  Result<const Device*> on = device(call.device_id);
  if (!on.ok()) return on.diag();
  const auto variant = static_cast<size_t>(call.variant);
  std::array<void*, kMaxWorkspaces> workspaces;
  for (const GpuWorkspace kind : {GpuWorkspace::kScratch, GpuWorkspace::kZeroed})
    RT_RETURN_IF_ERROR(place_workspaces(**on, image_, call, kind, workspaces));
  // A kernel that cannot be made ready must not leave the ones before it launched.
  for (size_t phase = 0; phase < image_.variants[variant].size(); ++phase) {
    Result<const Kernel*> found =
        kernel(**on, variant, phase, static_cast<abi::Stream>(call.stream));
    if (!found.ok()) return found.diag();
    RT_RETURN_IF_ERROR((*found)->prepare(**on, static_cast<abi::Stream>(call.stream)));
  }
  for (size_t phase = 0; phase < image_.variants[variant].size(); ++phase)
    RT_RETURN_IF_ERROR(launch_phase(**on, call, phase, workspaces.data()));
  return {};
}

}  // namespace rooftile::cuda
