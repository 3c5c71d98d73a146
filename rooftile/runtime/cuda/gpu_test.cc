// SPDX-License-Identifier: Apache-2.0
// The runtime on a real GPU, with kernels that NVRTC compiles on the spot: what a stub cannot tell.
// Skipped where there is no usable GPU or no NVRTC.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <vector>

#include "rooftile/runtime/cuda/graph.h"
#include "rooftile/runtime/cuda/launch.h"
#include "rooftile/runtime/cuda/memory.h"
#include "rooftile/runtime/cuda/stream.h"
#include "rooftile/runtime/cuda/tensor_map.h"
#include "rooftile/toolchain/nvrtc.h"

namespace rooftile::cuda {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

constexpr const char* kText = R"(
typedef unsigned int u32;
typedef unsigned long long u64;
struct alignas(64) TensorMap { u64 x[16]; };

u32 shared_address(const void* p) { return static_cast<u32>(__cvta_generic_to_shared(p)); }

extern "C" __global__ void __launch_bounds__(256) axpy(float a, const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] += a * x[i];
}

// One box of a map, as it lies in shared memory.
extern "C" __global__ void __launch_bounds__(128)
    read_box(const __grid_constant__ TensorMap map, float* out, int column, int row) {
  __shared__ alignas(128) float box[8 * 32];
  __shared__ alignas(8) u64 barrier;
  u32 bar = shared_address(&barrier);
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(bar));
    asm volatile("fence.mbarrier_init.release.cluster;");
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(8 * 32 * 4)
                 : "memory");
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
        "[%0], [%1, {%2, %3}], [%4];" ::"r"(shared_address(box)),
        "l"(&map), "r"(column), "r"(row), "r"(bar)
        : "memory");
  }
  asm volatile(
      "{\n.reg .pred p;\nWAIT:\nmbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0;\n"
      "@!p bra WAIT;\n}" ::"r"(bar)
      : "memory");
  for (int i = threadIdx.x; i < 8 * 32; i += 128) out[i] = box[i];
}

extern "C" __global__ void cluster_size(u32* out) {
  u32 size;
  asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(size));
  if (threadIdx.x == 0) out[blockIdx.x] = size;
}

extern "C" __global__ void last_shared_word(u32* out, int bytes) {
  extern __shared__ u32 words[];
  words[bytes / 4 - 1] = 77;
  out[0] = words[bytes / 4 - 1];
}

// Each launch waits for the one before, then doubles and adds one.
extern "C" __global__ void step(u32* value) {
  asm volatile("griddepcontrol.wait;" ::: "memory");
  value[threadIdx.x] = 2 * value[threadIdx.x] + 1;
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

extern "C" __global__ void wild_write(u32* out) { out[1ull << 40] = 1; }
)";

class GpuTest : public testing::Test {
 protected:
  void SetUp() override {
    Result<const Device*> found = cuda::device(0);
    if (!found.ok()) GTEST_SKIP() << "no GPU: " << found.diag().str();
    Result<const Nvrtc*> nvrtc = Nvrtc::load();
    if (!nvrtc.ok()) GTEST_SKIP() << "no NVRTC: " << nvrtc.diag().str();
    gpu_ = *found;
    Result<CudaBinary> binary = (*nvrtc)->compile(kText, {});
    ASSERT_TRUE(binary.ok()) << binary.diag().str();
    report_ = binary->report;
    Result<const Module*> module = Module::load(*gpu_, binary->cubin, "gpu_test");
    ASSERT_TRUE(module.ok()) << module.diag().str();
    module_ = *module;
    Result<Stream> stream = Stream::create(*gpu_);
    ASSERT_TRUE(stream.ok());
    stream_.emplace(std::move(*stream));
  }

  const Kernel& kernel(const KernelSpec& spec) {
    Result<const Kernel*> found = module_->kernel(spec);
    EXPECT_TRUE(found.ok()) << found.diag().str();
    return **found;
  }
  template <class T>
  DeviceBuffer upload(const std::vector<T>& values) {
    const auto bytes = static_cast<int64_t>(values.size() * sizeof(T));
    Result<DeviceBuffer> out = DeviceBuffer::allocate(*gpu_, bytes);
    EXPECT_TRUE(out.ok()) << out.diag().str();
    expect(copy_to_device(*gpu_, out->data(), values.data(), bytes, stream_->get()));
    return std::move(*out);
  }
  template <class T>
  std::vector<T> download(const DeviceBuffer& from) {
    std::vector<T> out(static_cast<size_t>(from.bytes()) / sizeof(T));
    expect(copy_to_host(*gpu_, out.data(), from.data(), from.bytes(), stream_->get()));
    expect(stream_->synchronize());
    return out;
  }
  template <class... Args>
  void run(const Kernel& which, LaunchConfig config, Args... args) {
    void* arguments[] = {&args...};
    config.stream = stream_->get();
    expect(launch(which, *gpu_, config, arguments));
  }
  static void expect(const Status& status) { EXPECT_TRUE(status.ok()) << status.str(); }

  const Device* gpu_ = nullptr;
  const Module* module_ = nullptr;
  PtxasReport report_;
  std::optional<Stream> stream_;
};

TEST_F(GpuTest, IsWhatItSays) {
  const DeviceInfo& info = gpu_->info();
  EXPECT_EQ(info.cc_major, 9);
  EXPECT_GE(info.num_sms, 78);
  EXPECT_EQ(info.smem_per_block_bytes, 232448);
  EXPECT_GT(info.l2_bytes, 0);
  Result<Device::MemoryState> memory = gpu_->memory();
  ASSERT_TRUE(memory.ok());
  EXPECT_GT(memory->free_bytes, 0);
}

// The compiler's log is what the build judges kernels by; the driver reads the code itself.
TEST_F(GpuTest, CompilersReportAgreesWithTheDriver) {
  using FuncGetAttribute = abi::Result (*)(int* value, int attribute, abi::Function);
  constexpr int kStaticShared = 1, kLocal = 3, kRegisters = 4;  // CU_FUNC_ATTRIBUTE_*
  void* library = dlopen(gpu_->driver().path().c_str(), RTLD_NOW | RTLD_NOLOAD);
  const auto get = reinterpret_cast<FuncGetAttribute>(dlsym(library, "cuFuncGetAttribute"));
  ASSERT_NE(get, nullptr);
  ASSERT_GE(report_.kernels.size(), 5u);
  for (const PtxasKernel& reported : report_.kernels) {
    const Kernel& loaded = kernel({.name = reported.name});
    expect(loaded.prepare(*gpu_));
    const auto attribute = [&](int which) {
      int value = -1;
      EXPECT_EQ(get(&value, which, loaded.function(*gpu_)), abi::kSuccess);
      return value;
    };
    EXPECT_EQ(attribute(kRegisters), reported.registers) << reported.name;
    EXPECT_EQ(attribute(kStaticShared), reported.static_smem_bytes) << reported.name;
    EXPECT_EQ(attribute(kLocal), reported.stack_bytes) << reported.name;
  }
}

TEST_F(GpuTest, ComputesNumbers) {
  constexpr int kCount = 10000;
  std::vector<float> x(kCount), y(kCount, 1.0f);
  std::iota(x.begin(), x.end(), 0.0f);
  DeviceBuffer device_x = upload(x), device_y = upload(y);
  run(kernel({.name = "axpy"}), {.grid = {40}, .block = {256}}, 0.5f, device_x.data(),
      device_y.data(), kCount);
  const std::vector<float> out = download<float>(device_y);
  for (int i = 0; i < kCount; ++i) ASSERT_EQ(out[i], 1.0f + 0.5f * static_cast<float>(i));
}

// A tensor whose rows are padded, read at its edge: what lies outside arrives as zeros.
TEST_F(GpuTest, TensorMapsReadBoxesAndFillEdges) {
  constexpr int kRows = 20, kColumns = 40, kStride = 48;
  std::vector<float> values(kRows * kStride, -1.0f);
  for (int row = 0; row < kRows; ++row)
    for (int column = 0; column < kColumns; ++column)
      values[row * kStride + column] = static_cast<float>(100 * row + column);
  DeviceBuffer source = upload(values), out = upload(std::vector<float>(8 * 32, -2.0f));
  TensorView view(source.data(), DType::kF32, {kRows, kColumns});
  view.strides = {kStride, 1};
  constexpr uint32_t kBox[] = {8, 32};
  TensorMapSpec spec;
  abi::TensorMap map;
  expect(spec_of(view, *layout_of(DType::kF32, kBox, abi::kSwizzleNone, "x"), "x", &spec));
  expect(tensor_map(*gpu_, spec, "x", &map));
  constexpr int kRow = 16, kColumn = 32;
  run(kernel({.name = "read_box"}), {.grid = {1}, .block = {128}}, map, out.data(), kColumn, kRow);
  const std::vector<float> box = download<float>(out);
  for (int row = 0; row < 8; ++row)
    for (int column = 0; column < 32; ++column) {
      const bool inside = kRow + row < kRows && kColumn + column < kColumns;
      ASSERT_EQ(box[row * 32 + column],
                inside ? static_cast<float>(100 * (kRow + row) + kColumn + column) : 0.0f)
          << row << ", " << column;
    }
}

// What we refuse, the driver refuses, and what we let pass, it takes.
TEST_F(GpuTest, DriverAgreesOnThePreconditionsOfTensorMaps) {
  TensorMapSpec base;
  base.address = 0x7f0000000000;
  base.layout.rank = 2;
  base.sizes = {128, 256};
  base.strides_bytes = {256};
  base.layout.box = {64, 64};
  base.layout.element_strides = {1, 1};
  base.layout.type = abi::kMapBf16;
  base.layout.swizzle = abi::kSwizzle128;
  std::vector<TensorMapSpec> all(12, base);
  all[1].address += 8;
  all[2].sizes[0] = 1ull << 32;
  all[3].sizes[0] = (1ull << 32) + 1;
  all[4].layout.box[1] = 256;
  all[5].layout.box[1] = 257;
  all[6].strides_bytes[0] = 264;
  all[7].strides_bytes[0] = (1ull << 40) - 16;
  all[8].strides_bytes[0] = 1ull << 40;
  all[9].layout.box[0] = 128;
  all[10].layout.box[0] = 36;
  all[11].layout.fill = abi::kFillNan;
  const ContextGuard current(*gpu_);
  for (size_t i = 0; i < all.size(); ++i) {
    const TensorMapSpec& s = all[i];
    abi::TensorMap map;
    const abi::Result result = gpu_->api().TensorMapEncodeTiled(
        &map, s.layout.type, s.layout.rank, reinterpret_cast<void*>(s.address), s.sizes.data(),
        s.strides_bytes.data(), s.layout.box.data(), s.layout.element_strides.data(),
        abi::kInterleaveNone, s.layout.swizzle, s.layout.l2, s.layout.fill);
    EXPECT_EQ(result == abi::kSuccess, check_tensor_map(s, "x").ok()) << "case " << i;
  }
}

TEST_F(GpuTest, ClustersAlsoThoseThatAreNotPortable) {
  for (uint32_t size : {1u, 2u, 8u, 16u}) {
    DeviceBuffer out = upload(std::vector<uint32_t>(32, 0));
    run(kernel({.name = "cluster_size", .cluster = {16, 1, 1}}),
        {.grid = {32}, .block = {32}, .cluster = {size, 1, 1}}, out.data());
    EXPECT_THAT(download<uint32_t>(out), Each(size));
  }
}

TEST_F(GpuTest, AllOfTheSharedMemory) {
  const int bytes = static_cast<int>(gpu_->info().smem_per_block_bytes);
  DeviceBuffer out = upload(std::vector<uint32_t>(1, 0));
  run(kernel({.name = "last_shared_word", .dynamic_smem_bytes = static_cast<uint32_t>(bytes)}),
      {.grid = {1}, .block = {32}, .dynamic_smem_bytes = static_cast<uint32_t>(bytes)}, out.data(),
      bytes);
  EXPECT_EQ(download<uint32_t>(out)[0], 77u);
}

TEST_F(GpuTest, DependentLaunchesInAGraphKeepTheirOrder) {
  const Kernel& step = kernel({.name = "step"});
  expect(step.prepare(*gpu_));
  DeviceBuffer value = upload(std::vector<uint32_t>(32, 0));
  expect(stream_->synchronize());
  const LaunchConfig config = {.grid = {1}, .block = {32}, .dependent_launch = true};
  Result<Capture> capture = Capture::begin(*gpu_, stream_->get());
  ASSERT_TRUE(capture.ok());
  for (int i = 0; i < 5; ++i) run(step, config, value.data());
  EXPECT_EQ(DeviceBuffer::allocate(*gpu_, 64, stream_->get()).diag().code, ErrorCode::kCapture);
  Result<DeviceBuffer> elsewhere = DeviceBuffer::allocate(*gpu_, 64);  // not on that stream
  EXPECT_TRUE(elsewhere.ok());
  Result<Graph> graph = capture->end();
  ASSERT_TRUE(graph.ok()) << graph.diag().str();
  EXPECT_EQ(*graph->num_nodes(), 5u);
  Result<GraphExec> exec = GraphExec::instantiate(*graph);
  ASSERT_TRUE(exec.ok()) << exec.diag().str();
  EXPECT_THAT(download<uint32_t>(value), Each(0u)) << "captured, not run";
  for (int i = 0; i < 2; ++i) expect(exec->launch(stream_->get()));
  EXPECT_THAT(download<uint32_t>(value), Each((1u << 10) - 1));
}

TEST_F(GpuTest, MapsCanBeMadeDuringCapture) {
  const Kernel& read = kernel({.name = "read_box"});
  expect(read.prepare(*gpu_));
  DeviceBuffer source = upload(std::vector<float>(8 * 32, 3.0f));
  DeviceBuffer out = upload(std::vector<float>(8 * 32, 0.0f));
  expect(stream_->synchronize());
  Result<Capture> capture = Capture::begin(*gpu_, stream_->get());
  ASSERT_TRUE(capture.ok());
  TensorMapSpec spec;
  abi::TensorMap map;
  constexpr uint32_t kBox[] = {8, 32};
  expect(spec_of(TensorView(source.data(), DType::kF32, {8, 32}),
                 *layout_of(DType::kF32, kBox, abi::kSwizzleNone, "x"), "x", &spec));
  expect(tensor_map(*gpu_, spec, "x", &map));
  run(read, {.grid = {1}, .block = {128}}, map, out.data(), 0, 0);
  Result<Graph> graph = capture->end();
  ASSERT_TRUE(graph.ok()) << graph.diag().str();
  Result<GraphExec> exec = GraphExec::instantiate(*graph);
  ASSERT_TRUE(exec.ok());
  expect(exec->launch(stream_->get()));
  EXPECT_THAT(download<float>(out), Each(3.0f));
}

TEST_F(GpuTest, EventsMeasure) {
  Result<Event> start = Event::create(*gpu_, Event::Timing::kOn);
  Result<Event> end = Event::create(*gpu_, Event::Timing::kOn);
  ASSERT_TRUE(start.ok() && end.ok());
  Result<DeviceBuffer> buffer = DeviceBuffer::allocate(*gpu_, int64_t{1} << 30);
  ASSERT_TRUE(buffer.ok());
  expect(start->record(stream_->get()));
  expect(fill(*gpu_, buffer->data(), 1, buffer->bytes(), stream_->get()));
  expect(end->record(stream_->get()));
  expect(end->synchronize());
  Result<float> ms = end->ms_since(*start);
  ASSERT_TRUE(ms.ok());
  EXPECT_GT(*ms, 0.1f) << "a GiB does not fill faster";
}

TEST_F(GpuTest, MoreMemoryThanThereIsIsOneReadableError) {
  const auto out = DeviceBuffer::allocate(*gpu_, int64_t{1} << 42);
  ASSERT_FALSE(out.ok());
  EXPECT_EQ(out.diag().code, ErrorCode::kOutOfMemory);
  EXPECT_THAT(out.diag().when, HasSubstr("MiB free"));
  EXPECT_FALSE(gpu_->lost());
  DeviceBuffer value = upload(std::vector<uint32_t>(32, 0));
  run(kernel({.name = "step"}), {.grid = {1}, .block = {32}}, value.data());
  EXPECT_THAT(download<uint32_t>(value), Each(1u)) << "usable afterwards";
}

// In a process of its own, as it ends the use of the device there. Prints the error; exits with 3.
TEST_F(GpuTest, WildWriteIsAStickyErrorThatNamesTheKernel) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        DeviceBuffer out = upload(std::vector<uint32_t>(1, 0));
        run(kernel({.name = "wild_write", .schedule = "reckless"}), {.grid = {1}, .block = {1}},
            out.data());
        const Status status = stream_->synchronize();
        if (status.ok() || status.diag().code != ErrorCode::kDeviceLost || !gpu_->lost()) exit(1);
        std::fprintf(stderr, "%s\n", status.str().c_str());
        _exit(3);
      },
      testing::ExitedWithCode(3), "launched last there: wild_write, schedule reckless");
}

}  // namespace
}  // namespace rooftile::cuda
