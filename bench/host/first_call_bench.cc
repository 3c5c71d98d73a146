// SPDX-License-Identifier: Apache-2.0
// What the first call of a kernel costs in a new process whose kernel cache is warm: finding the
// program, generating its text and opening the launcher (`find_ms`), loading the code onto the GPU
// (`load_ms`), launching it. With an empty cache it is the cost of compiling instead, and
// `compile_ms` says how much of it.
//
//   first_call_bench                 one JSON line an operator; on the GPU where there is one
//
// A GPU's context is made ahead and timed apart: that is the driver's cost, and a program that has
// tensors there has paid it already. `nvrtc_loaded` must be false in a run from a warm cache.
#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "rooftile/api.h"
#include "rooftile/runtime/cuda/gpu_kernel.h"
#include "rooftile/runtime/cuda/memory.h"

namespace rooftile {
namespace {

using Clock = std::chrono::steady_clock;

double ms_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

bool mapped(const std::string& library) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);)
    if (line.find(library) != std::string::npos) return true;
  return false;
}

// Memory where the calls run; zeros are as good as any values here.
class Arena {
 public:
  explicit Arena(const cuda::Device* device) : device_(device) {}

  Result<TensorView> tensor(DType dtype, std::initializer_list<int64_t> shape) {
    TensorView view(nullptr, dtype, shape);
    const int64_t bytes = view.numel() * 4;  // no dtype here is wider
    if (device_ == nullptr) {
      view.data = host_.emplace_back(static_cast<size_t>(bytes) / 4).data();
      return view;
    }
    Result<cuda::DeviceBuffer> buffer = cuda::DeviceBuffer::allocate(*device_, bytes);
    if (!buffer.ok()) return buffer.diag();
    RT_RETURN_IF_ERROR(cuda::fill(*device_, buffer->data(), 0, bytes, nullptr));
    view.data = buffer->data();
    view.device = DeviceKind::kCuda;
    view.device_id = device_->ordinal();
    device_memory_.push_back(std::move(*buffer));
    return view;
  }

  Status finish() const { return device_ == nullptr ? Status() : device_->synchronize(); }
  const cuda::Device* device() const { return device_; }
  const char* name() const { return device_ == nullptr ? "cpu" : "cuda"; }

 private:
  const cuda::Device* device_;
  std::vector<std::vector<float>> host_;
  std::vector<cuda::DeviceBuffer> device_memory_;
};

Status measure(Arena& arena, const char* op, const NamedTensors& tensors) {
  const Clock::time_point start = Clock::now();
  Result<std::shared_ptr<const CompiledKernel>> kernel = kernel_for(built_in(op), tensors);
  if (!kernel.ok()) return kernel.diag();
  const double find = ms_since(start);
  if ((*kernel)->device_kernel != nullptr)
    RT_RETURN_IF_ERROR((*kernel)->device_kernel->prepare(arena.device()->ordinal()));
  const double ready = ms_since(start);
  RT_RETURN_IF_ERROR(call(op, tensors));
  const double first = ms_since(start);
  RT_RETURN_IF_ERROR(arena.finish());
  const Clock::time_point again = Clock::now();
  RT_RETURN_IF_ERROR(call(op, tensors));
  const double second = ms_since(again);
  RT_RETURN_IF_ERROR(arena.finish());
  fmt::print(R"({{"bench": "first_call", "op": "{}", "kernel": "{}", "device": "{}", )"
             R"("first_ms": {:.2f}, "find_ms": {:.2f}, "load_ms": {:.2f}, "compile_ms": {:.1f}, )"
             R"("second_us": {:.2f}, "from_cache": {}, "nvrtc_loaded": {}}})"
             "\n",
             op, (*kernel)->source.name, arena.name(), first, find, ready - find,
             (*kernel)->compile_ms, second * 1e3, (*kernel)->from_cache, mapped("libnvrtc"));
  return {};
}

Status run() {
  const Clock::time_point start = Clock::now();
  const Result<const cuda::Device*> device = cuda::device(0);
  Arena arena(device.ok() ? *device : nullptr);
  std::vector<TensorView> t;
  const auto make = [&](DType dtype, std::initializer_list<int64_t> shape) -> Status {
    Result<TensorView> made = arena.tensor(dtype, shape);
    if (!made.ok()) return made.diag();
    t.push_back(*made);
    return {};
  };
  constexpr DType kB = DType::kBf16;
  RT_RETURN_IF_ERROR(make(kB, {256, 4096}));  // 0, 1: rows
  RT_RETURN_IF_ERROR(make(kB, {256, 4096}));
  RT_RETURN_IF_ERROR(make(kB, {4096}));         // 2: their weight
  RT_RETURN_IF_ERROR(make(kB, {4096, 4096}));   // 3: of a product
  RT_RETURN_IF_ERROR(make(kB, {256, 8, 128}));  // 4 to 7: attention
  for (int i = 0; i < 3; ++i) RT_RETURN_IF_ERROR(make(kB, {256, 8, 128}));
  RT_RETURN_IF_ERROR(arena.finish());
  fmt::print(R"({{"bench": "first_call", "device": "{}", "context_and_memory_ms": {:.1f}}})"
             "\n",
             arena.name(), ms_since(start));
  RT_RETURN_IF_ERROR(measure(arena, "rms_norm", {{"out", t[0]}, {"x", t[1]}, {"weight", t[2]}}));
  RT_RETURN_IF_ERROR(measure(arena, "gemm", {{"d", t[0]}, {"a", t[1]}, {"b", t[3]}}));
  return measure(arena, "attention_prefill", {{"o", t[4]}, {"q", t[5]}, {"k", t[6]}, {"v", t[7]}});
}

}  // namespace
}  // namespace rooftile

int main() {
  const rooftile::Status status = rooftile::run();
  if (status.ok()) return 0;
  std::fprintf(stderr, "%s\n", status.str().c_str());
  return 1;
}
