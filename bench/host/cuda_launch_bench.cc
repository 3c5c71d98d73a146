// SPDX-License-Identifier: Apache-2.0
// What launching a GPU kernel costs on the host: a fully checked launch with two tensor maps, in a
// cluster, as dependent launch. Through the stub driver by default: then it is Rooftile's own cost,
// as the stub does next to nothing. With a real driver the bare cuLaunchKernelEx is measured beside
// it, and the difference is Rooftile's.
//
//   cuda_launch_bench [DRIVER [CUBIN KERNEL]]     one JSON line a variant
//
// Batches of calls, so that the clock's own cost does not count; four sets of buffers rotate, so
// that the map cache is really asked; `cold` gives every call new addresses, so that it never hits.
#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include "rooftile/runtime/cuda/launch.h"
#include "rooftile/runtime/cuda/stream.h"
#include "rooftile/runtime/cuda/tensor_map.h"
#include "tests/stub_driver/stub_control.h"

#ifndef ROOFTILE_STUB_DRIVER
#define ROOFTILE_STUB_DRIVER "libcuda.so.1"  // a build without tests has no stub
#endif

namespace rooftile::cuda {
namespace {

constexpr int kBatch = 100, kSamples = 2000, kSets = 4;
constexpr int64_t kRows = 256, kColumns = 512;

struct Bench {
  const Device* device = nullptr;
  const Kernel* kernel = nullptr;
  abi::Stream stream = nullptr;
  TensorMapLayout layout_a, layout_b;
  uint64_t base = 0x7f0000000000;  // addresses on paper: nothing reads them
};

// The work of a launcher for a product of two bf16 matrices: maps from views, launch.
Status checked_launch(const Bench& bench, const TensorView& a, const TensorView& b, void* out) {
  abi::TensorMap map_a, map_b;
  RT_RETURN_IF_ERROR(tensor_map(*bench.device, a, bench.layout_a, "a", &map_a));
  RT_RETURN_IF_ERROR(tensor_map(*bench.device, b, bench.layout_b, "b", &map_b));
  int m = static_cast<int>(a.shape[0]), k = static_cast<int>(a.shape[1]);
  void* arguments[] = {&map_a, &map_b, &out, &m, &k};
  return launch(*bench.kernel, *bench.device,
                {.grid = {8, 4, 1},
                 .block = {384, 1, 1},
                 .cluster = {2, 1, 1},
                 .dynamic_smem_bytes = 200 << 10,
                 .stream = bench.stream,
                 .dependent_launch = true},
                arguments);
}

struct Variant {
  std::string name;
  std::function<Status(int64_t call)> call;  // `call` grows by one with every call of this variant
  int64_t count = 0;
  std::vector<double> ns;  // one a sample
};

double quantile(std::vector<double> values, double q) {
  std::sort(values.begin(), values.end());
  return values[static_cast<size_t>(q * static_cast<double>(values.size() - 1))];
}

Status sample(const Bench& bench, Variant& variant) {
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < kBatch; ++i) RT_RETURN_IF_ERROR(variant.call(variant.count++));
  const std::chrono::duration<double, std::nano> elapsed = std::chrono::steady_clock::now() - start;
  variant.ns.push_back(elapsed.count() / kBatch);
  // A full queue blocks: it is emptied outside what is timed.
  return synchronize(*bench.device, bench.stream);
}

// Every round runs each variant once, so that a change of the machine's speed meets all alike.
Status measure(const Bench& bench, std::vector<Variant>& variants) {
  for (int round = 0; round < kSamples; ++round)
    for (Variant& variant : variants) RT_RETURN_IF_ERROR(sample(bench, variant));
  return {};
}

// The last variant is the bare driver call: `above_bare_ns` is the median of the differences.
void print(const Bench& bench, const std::vector<Variant>& variants) {
  for (const Variant& variant : variants) {
    std::vector<double> above;
    for (size_t i = 0; i < variant.ns.size(); ++i)
      above.push_back(variant.ns[i] - variants.back().ns[i]);
    fmt::print(R"({{"bench": "cuda_launch", "variant": "{}", "driver": "{}", "p50_ns": {:.1f}, )"
               R"("p99_ns": {:.1f}, "above_bare_ns": {:.1f}, "batch": {}, "samples": {}}})"
               "\n",
               variant.name, bench.device->driver().path(), quantile(variant.ns, 0.5),
               quantile(variant.ns, 0.99), quantile(above, 0.5), kBatch, kSamples);
  }
}

// The stub keeps a record of launches for tests; that would be most of what is timed.
void stop_recording(const std::string& driver_path) {
  void* library = dlopen(driver_path.c_str(), RTLD_NOW | RTLD_LOCAL);
  const auto control = reinterpret_cast<stub::GetControl>(dlsym(library, "rooftile_stub_control"));
  if (control != nullptr) control()->record_launches(false);
}

int run(const std::string& driver_path, const std::string& cubin, const std::string& kernel_name) {
  const auto fail = [](const Diag& diag) {
    std::fprintf(stderr, "%s\n", diag.str().c_str());
    return 1;
  };
  Result<const Driver*> driver = Driver::open(driver_path);
  if (!driver.ok()) return fail(driver.diag());
  Result<const Device*> device = (*driver)->device(0);
  if (!device.ok()) return fail(device.diag());
  Result<const Module*> module = Module::load(**device, cubin, kernel_name);
  if (!module.ok()) return fail(module.diag());
  Result<const Kernel*> kernel = (*module)->kernel(
      {.name = kernel_name, .dynamic_smem_bytes = 200 << 10, .cluster = {2, 1, 1}});
  if (!kernel.ok()) return fail(kernel.diag());
  if (const Status ready = (*kernel)->prepare(**device); !ready.ok()) return fail(ready.diag());
  Result<Stream> stream = Stream::create(**device);
  if (!stream.ok()) return fail(stream.diag());
  constexpr std::array<uint32_t, 2> kBoxA = {128, 64}, kBoxB = {64, 64};
  const Bench bench = {*device, *kernel, stream->get(),
                       *layout_of(DType::kBf16, kBoxA, abi::kSwizzle128, "a"),
                       *layout_of(DType::kBf16, kBoxB, abi::kSwizzle128, "b")};
  stop_recording(driver_path);
  // As a program that has chosen its device: the context is current.
  const ContextGuard current(**device);

  const auto view = [&bench](int64_t index) {
    return TensorView(
        reinterpret_cast<void*>(bench.base + static_cast<uint64_t>(index) * (1 << 20)),
        DType::kBf16, {kRows, kColumns});
  };
  std::array<std::array<TensorView, 2>, kSets> sets;
  for (int i = 0; i < kSets; ++i) sets[i] = {view(2 * i), view(2 * i + 1)};

  std::array<uint64_t, 32> value{};
  std::array<void*, 5> arguments;
  arguments.fill(value.data());
  const LaunchConfig plain = {.grid = {8, 4, 1},
                              .block = {384, 1, 1},
                              .dynamic_smem_bytes = 200 << 10,
                              .stream = bench.stream};
  abi::LaunchConfig bare{.grid_x = 8,
                         .grid_y = 4,
                         .grid_z = 1,
                         .block_x = 384,
                         .block_y = 1,
                         .block_z = 1,
                         .dynamic_smem_bytes = 200 << 10,
                         .stream = bench.stream};
  const abi::Function function = bench.kernel->function(*bench.device);
  std::vector<Variant> variants = {
      {"checked, two maps",
       [&](int64_t i) {
         const auto& [a, b] = sets[static_cast<size_t>(i) % kSets];
         return checked_launch(bench, a, b, a.data);
       }},
      {"checked, two maps, cold",
       [&](int64_t i) { return checked_launch(bench, view(2 * i), view(2 * i + 1), nullptr); }},
      {"checked, no maps",
       [&](int64_t) { return launch(*bench.kernel, *bench.device, plain, arguments.data()); }},
      {"bare cuLaunchKernelEx", [&](int64_t) -> Status {
         const abi::Result error =
             bench.device->api().LaunchKernelEx(&bare, function, arguments.data(), nullptr);
         if (error == abi::kSuccess) return {};
         return bench.device->failed(error, "launching");
       }}};
  if (const Status status = measure(bench, variants); !status.ok()) return fail(status.diag());
  print(bench, variants);
  return 0;
}

}  // namespace
}  // namespace rooftile::cuda

int main(int argc, char** argv) {
  if (argc != 1 && argc != 2 && argc != 4) {
    std::fprintf(stderr, "cuda_launch_bench [DRIVER [CUBIN KERNEL]]\n");
    return 2;
  }
  std::string cubin = "\177ELF on paper", kernel = "empty";
  if (argc == 4) {
    std::ifstream in(argv[2], std::ios::binary);
    std::ostringstream bytes;
    bytes << in.rdbuf();
    cubin = bytes.str();
    kernel = argv[3];
  }
  return rooftile::cuda::run(argc > 1 ? argv[1] : ROOFTILE_STUB_DRIVER, cubin, kernel);
}
