// SPDX-License-Identifier: Apache-2.0
// Loading and launching through the stub driver: what reaches the driver, what is refused, what an
// error says, and that capture, threads and devices do not get into each other's way.
#include "rooftile/runtime/cuda/launch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <thread>
#include <vector>

#include "rooftile/runtime/cuda/graph.h"
#include "rooftile/runtime/cuda/memory.h"
#include "rooftile/runtime/cuda/stream.h"
#include "rooftile/runtime/cuda/workspace.h"
#include "tests/stub_driver/stub.h"

namespace rooftile::cuda {
namespace {

using ::testing::Each;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using ::testing::Not;
using testing_support::StubDriverTest;

// A cubin of its own for each test: modules are kept for the life of the process.
std::string new_cubin() {
  static std::atomic<int> count = 0;
  return "\177ELF cubin " + std::to_string(count++);
}

std::string shapes_text(const void* data) { return static_cast<const char*>(data); }

class LaunchTest : public StubDriverTest {
 protected:
  const Kernel& kernel(KernelSpec spec = {.name = "gemm"}) {
    cubin_ = new_cubin();
    Result<const Module*> module = Module::load(device(), cubin_, "gemm");
    EXPECT_TRUE(module.ok()) << module.diag().str();
    Result<const Kernel*> found = (*module)->kernel(spec);
    EXPECT_TRUE(found.ok()) << found.diag().str();
    return **found;
  }
  static constexpr LaunchConfig kSmall = {.grid = {4, 2, 1}, .block = {128, 1, 1}};
  std::string cubin_;
  uint64_t value_ = 0x1234;
  void* arguments_[1] = {&value_};
};

TEST_F(LaunchTest, DriverSeesWhatWasAskedFor) {
  const Kernel& gemm = kernel({.name = "gemm", .dynamic_smem_bytes = 100, .cluster = {2, 1, 1}});
  Result<Stream> stream = Stream::create(device(2));
  ASSERT_TRUE(stream.ok());
  const LaunchConfig config = {.grid = {6, 5, 4},
                               .block = {128, 2, 1},
                               .cluster = {2, 1, 1},
                               .dynamic_smem_bytes = 96,
                               .stream = stream->get(),
                               .dependent_launch = true,
                               .cooperative = true};
  ASSERT_TRUE(launch(gemm, device(2), config, arguments_).ok());
  ASSERT_EQ(control_->num_launches(), 1u);
  const stub::Launch seen = control_->launch(0);
  EXPECT_STREQ(seen.kernel, "gemm");
  EXPECT_EQ(seen.device, 2);
  EXPECT_THAT(seen.grid, ElementsAreArray({6, 5, 4}));
  EXPECT_THAT(seen.block, ElementsAreArray({128, 2, 1}));
  EXPECT_THAT(seen.cluster, ElementsAreArray({2, 1, 1}));
  EXPECT_EQ(seen.dynamic_smem_bytes, 96u);
  EXPECT_TRUE(seen.dependent_launch);
  EXPECT_TRUE(seen.cooperative);
  EXPECT_EQ(seen.stream, stream->get());
  EXPECT_EQ(seen.first_argument, 0x1234u);
}

TEST_F(LaunchTest, AttributesThatAreNotAskedForAreNotSet) {
  ASSERT_TRUE(launch(kernel(), device(), kSmall, arguments_).ok());
  const stub::Launch seen = control_->launch(0);
  EXPECT_THAT(seen.cluster, ElementsAreArray({1, 1, 1}));
  EXPECT_FALSE(seen.dependent_launch);
  EXPECT_FALSE(seen.cooperative);
}

TEST_F(LaunchTest, OneDriverCallBesidesTheContextInSteadyState) {
  const Kernel& gemm = kernel();
  ASSERT_TRUE(launch(gemm, device(), kSmall, arguments_).ok());
  const ContextGuard current(device());
  std::array<uint64_t, stub::kNumEntryPoints> before;
  for (int i = 0; i < stub::kNumEntryPoints; ++i)
    before[i] = control_->calls(static_cast<stub::EntryPoint>(i));
  ASSERT_TRUE(launch(gemm, device(), kSmall, arguments_).ok());
  for (int i = 0; i < stub::kNumEntryPoints; ++i) {
    const auto entry = static_cast<stub::EntryPoint>(i);
    const bool wanted = entry == stub::kLaunchKernelEx || entry == stub::kCtxGetCurrent;
    EXPECT_EQ(control_->calls(entry) - before[i], wanted ? 1u : 0u) << "entry point " << i;
  }
}

TEST_F(LaunchTest, KernelIsMadeReadyOnceForEachDevice) {
  const Kernel& gemm =
      kernel({.name = "big", .dynamic_smem_bytes = 200 << 10, .cluster = {4, 4, 1}});
  control_->describe_kernel("big", 1024, 384);
  for (int round = 0; round < 3; ++round)
    for (int i = 0; i < 2; ++i) ASSERT_TRUE(launch(gemm, device(i), kSmall, arguments_).ok());
  EXPECT_EQ(control_->calls(stub::kKernelGetFunction), 2u);
  EXPECT_EQ(control_->calls(stub::kFuncLoad), 2u);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(control_->kernel_attribute("big", abi::kFuncMaxDynamicSmemBytes, i), 232448 - 1024);
    EXPECT_EQ(control_->kernel_attribute("big", abi::kFuncNonPortableCluster, i), 1);
  }
  EXPECT_EQ(control_->kernel_attribute("big", abi::kFuncMaxDynamicSmemBytes, 2), -1);
}

TEST_F(LaunchTest, SmallKernelsNeedNoAttributes) {
  const Kernel& gemm = kernel({.name = "plain", .dynamic_smem_bytes = 48 << 10, .cluster = {8}});
  ASSERT_TRUE(gemm.prepare(device()).ok());
  EXPECT_EQ(control_->calls(stub::kKernelSetAttribute), 0u);
}

TEST_F(LaunchTest, MoreSharedMemoryThanTheDeviceHasIsRefused) {
  const Kernel& gemm = kernel({.name = "huge", .dynamic_smem_bytes = 232448});
  control_->describe_kernel("huge", 16, 384);
  const Status status = gemm.prepare(device());
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.diag().code, ErrorCode::kLaunch);
  EXPECT_THAT(status.diag().found, HasSubstr("16 static + 232448 dynamic"));
}

TEST_F(LaunchTest, ConfigurationsThatCannotBeAreRefusedBeforeTheDriver) {
  const Kernel& gemm = kernel({.name = "gemm", .dynamic_smem_bytes = 1000, .cluster = {2, 1, 1}});
  control_->describe_kernel("gemm", 0, 384);
  const auto refusal = [&](const LaunchConfig& config) {
    const Status status = launch(gemm, device(), config, arguments_);
    EXPECT_FALSE(status.ok());
    if (status.ok()) return std::string();
    EXPECT_EQ(status.diag().code, ErrorCode::kLaunch);
    return status.diag().str();
  };
  EXPECT_THAT(refusal({.grid = {0, 1, 1}, .block = {128}}), HasSubstr("a launch of nothing"));
  EXPECT_THAT(refusal({.grid = {1}, .block = {128, 0, 1}}), HasSubstr("a launch of nothing"));
  EXPECT_THAT(refusal({.grid = {1}, .block = {512}}), HasSubstr("at most 384"));
  EXPECT_THAT(refusal({.grid = {1}, .block = {1u << 16, 1u << 16, 1}}), HasSubstr("too large"));
  EXPECT_THAT(refusal({.grid = {1}, .block = {128}, .dynamic_smem_bytes = 1001}),
              HasSubstr("at most 1000"));
  EXPECT_THAT(refusal({.grid = {4}, .block = {128}, .cluster = {4, 1, 1}}),
              HasSubstr("larger cluster"));
  EXPECT_THAT(refusal({.grid = {3}, .block = {128}, .cluster = {2, 1, 1}}),
              HasSubstr("not a multiple of the cluster"));
  EXPECT_THAT(refusal({.grid = {1, 65536, 1}, .block = {128}}), HasSubstr("65535"));
  EXPECT_EQ(control_->calls(stub::kLaunchKernelEx), 0u);
}

TEST_F(LaunchTest, ErrorNamesKernelShapesScheduleAndWhatToDo) {
  const Kernel& gemm = kernel({.name = "gemm", .schedule = "128x256_s4"});
  ASSERT_TRUE(gemm.prepare(device()).ok());
  control_->script("fail=LaunchKernelEx:1:701");
  LaunchConfig config = kSmall;
  config.shapes = {shapes_text, "a [64, 4096] bf16"};
  const Status status = launch(gemm, device(), config, arguments_);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.diag().code, ErrorCode::kDriver);
  const std::string text = status.diag().str();
  EXPECT_THAT(text, HasSubstr("gemm, schedule 128x256_s4"));
  EXPECT_THAT(text, HasSubstr("a [64, 4096] bf16, grid (4, 2, 1), block (128, 1, 1)"));
  EXPECT_THAT(text, HasSubstr("GPU 0 (Stub H200)"));
  EXPECT_THAT(text, HasSubstr("(701)"));
  EXPECT_THAT(text, HasSubstr("smaller tiles"));
  // The library goes on working: this failure was of one launch.
  EXPECT_TRUE(launch(gemm, device(), config, arguments_).ok());
  EXPECT_FALSE(device().lost());
}

TEST_F(LaunchTest, FailureFoundLaterNamesTheKernelLaunchedLast) {
  testing_support::FreshStub stub("fail=CtxSynchronize:1:719");
  Result<const Driver*> opened = Driver::open(stub.path());
  ASSERT_TRUE(opened.ok());
  const Device& gpu = **(*opened)->device(0);
  Result<const Module*> module = Module::load(gpu, new_cubin(), "attention");
  ASSERT_TRUE(module.ok());
  Result<const Kernel*> found = (*module)->kernel({.name = "attention", .schedule = "fa_d128"});
  ASSERT_TRUE(launch(**found, gpu, kSmall, arguments_).ok());
  const Status status = gpu.synchronize();
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.diag().code, ErrorCode::kDeviceLost);
  EXPECT_THAT(status.diag().when, HasSubstr("launched last there: attention, schedule fa_d128"));
}

TEST_F(LaunchTest, CodeThatTheDriverDoesNotTakeIsALoadError) {
  const auto module = Module::load(device(), "not a cubin", "gemm");
  ASSERT_FALSE(module.ok());
  EXPECT_EQ(module.diag().code, ErrorCode::kLoad);
  EXPECT_THAT(module.diag().fix, HasSubstr("compute capability 9.0"));
  EXPECT_THAT(module.diag().when, HasSubstr("CUDA 13.0"));
}

TEST_F(LaunchTest, MissingKernelIsNamed) {
  Result<const Module*> module = Module::load(device(), new_cubin(), "gemm");
  ASSERT_TRUE(module.ok());
  const auto found = (*module)->kernel({.name = "missing_one"});
  ASSERT_FALSE(found.ok());
  EXPECT_THAT(found.diag().message, HasSubstr("missing_one"));
}

TEST_F(LaunchTest, EqualCubinsAreLoadedOnce) {
  const std::string cubin = new_cubin();
  Result<const Module*> first = Module::load(device(0), cubin, "gemm");
  Result<const Module*> second = Module::load(device(1), std::string(cubin), "gemm again");
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(*first, *second);
  EXPECT_EQ(control_->calls(stub::kLibraryLoadData), 1u);
}

// ---- capture ---------------------------------------------------------------------------------

TEST_F(LaunchTest, CaptureAllowsLaunchesAndRefusesWhatWouldSpoilIt) {
  const Kernel& ready = kernel();
  ASSERT_TRUE(ready.prepare(device()).ok());
  const Kernel& cold = kernel({.name = "cold"});
  Result<Stream> stream = Stream::create(device());
  ASSERT_TRUE(stream.ok());
  LaunchConfig config = kSmall;
  config.stream = stream->get();

  Result<Capture> capture = Capture::begin(device(), stream->get());
  ASSERT_TRUE(capture.ok()) << capture.diag().str();
  EXPECT_TRUE(is_capturing(device(), stream->get()));
  ASSERT_TRUE(launch(ready, device(), config, arguments_).ok());
  ASSERT_TRUE(launch(ready, device(), config, arguments_).ok());

  const Status not_ready = launch(cold, device(), config, arguments_);
  ASSERT_FALSE(not_ready.ok());
  EXPECT_EQ(not_ready.diag().code, ErrorCode::kCapture);
  EXPECT_THAT(not_ready.diag().message, HasSubstr("cold"));
  EXPECT_THAT(not_ready.diag().fix, HasSubstr("before the capture begins"));
  EXPECT_EQ(Module::load(device(), new_cubin(), "new", stream->get()).diag().code,
            ErrorCode::kCapture);
  EXPECT_EQ(DeviceBuffer::allocate(device(), 1024, stream->get()).diag().code, ErrorCode::kCapture);
  EXPECT_EQ(PinnedBuffer::allocate(device(), 1024, stream->get()).diag().code, ErrorCode::kCapture);
  EXPECT_EQ(Capture::begin(device(), stream->get()).diag().code, ErrorCode::kCapture);

  Result<Graph> graph = capture->end();
  ASSERT_TRUE(graph.ok()) << "the refusals must not have spoilt it: " << graph.diag().str();
  EXPECT_EQ(*graph->num_nodes(), 2u);
  EXPECT_TRUE(control_->launch(0).captured);
  EXPECT_FALSE(is_capturing(device(), stream->get()));
  EXPECT_FALSE(capture->end().ok()) << "it has ended";
}

// Scratch memory: one block a stream, and one a capture that nothing else uses, since its graph may
// run beside anything.
TEST_F(LaunchTest, ACaptureHasScratchMemoryOfItsOwn) {
  Result<Stream> stream = Stream::create(device());
  ASSERT_TRUE(stream.ok());
  const auto scratch = [&](int64_t bytes) {
    Result<char*> block = device_workspace(device(), stream->get(), GpuWorkspace::kScratch, bytes);
    EXPECT_TRUE(block.ok());
    return block.ok() ? *block : nullptr;
  };
  char* const eager = scratch(1000);
  EXPECT_EQ(scratch(500), eager);
  std::set<char*> captured;
  for (int i = 0; i < 2; ++i) {
    Result<Capture> capture = Capture::begin(device(), stream->get());
    ASSERT_TRUE(capture.ok());
    char* const block = scratch(1000);
    EXPECT_EQ(scratch(1000), block) << "calls of one capture share it";
    captured.insert(block);
    const auto zeroed = device_workspace(device(), stream->get(), GpuWorkspace::kZeroed, 64);
    ASSERT_TRUE(zeroed.ok());
    EXPECT_THAT(std::vector<char>(*zeroed, *zeroed + 64), Each('\0'));
    Result<Graph> graph = capture->end();
    ASSERT_TRUE(graph.ok()) << "allocating must not have spoilt it: " << graph.diag().str();
  }
  EXPECT_EQ(captured.size(), 2u);
  EXPECT_EQ(captured.count(eager), 0u);
  EXPECT_EQ(scratch(1000), eager);
}

// torch captures in global mode: loads and allocations of other threads would spoil that.
TEST_F(LaunchTest, OtherThreadsMayLoadAndAllocateDuringACapture) {
  const abi::Api& api = driver_->api();
  Result<Stream> stream = Stream::create(device());
  ASSERT_TRUE(stream.ok());
  ASSERT_EQ(api.StreamBeginCapture(stream->get(), abi::kCaptureGlobal), abi::kSuccess);
  std::thread([&] {
    EXPECT_TRUE(DeviceBuffer::allocate(device(), 1024).ok());
    EXPECT_TRUE(kernel().prepare(device()).ok());
    EXPECT_TRUE(Stream::create(device()).ok());
  }).join();
  abi::Graph graph = nullptr;
  ASSERT_EQ(api.StreamEndCapture(stream->get(), &graph), abi::kSuccess);
  api.GraphDestroy(graph);
}

TEST_F(LaunchTest, AbandonedCaptureEnds) {
  Result<Stream> stream = Stream::create(device());
  ASSERT_TRUE(stream.ok());
  { ASSERT_TRUE(Capture::begin(device(), stream->get()).ok()); }
  EXPECT_FALSE(is_capturing(device(), stream->get()));
  EXPECT_EQ(control_->calls(stub::kGraphDestroy), 1u);
  EXPECT_EQ(Capture::begin(device(), nullptr).diag().code, ErrorCode::kCapture);
}

TEST_F(LaunchTest, GraphsAreLaunchedAndUpdated) {
  const Kernel& gemm = kernel();
  ASSERT_TRUE(gemm.prepare(device()).ok());
  Result<Stream> stream = Stream::create(device());
  LaunchConfig config = kSmall;
  config.stream = stream->get();
  const auto capture = [&](int launches) {
    Result<Capture> begun = Capture::begin(device(), stream->get());
    EXPECT_TRUE(begun.ok());
    for (int i = 0; i < launches; ++i) EXPECT_TRUE(launch(gemm, device(), config, arguments_).ok());
    return begun->end();
  };
  Result<Graph> two = capture(2), again = capture(2), three = capture(3);
  ASSERT_TRUE(two.ok() && again.ok() && three.ok());
  Result<GraphExec> exec = GraphExec::instantiate(*two);
  ASSERT_TRUE(exec.ok());
  EXPECT_TRUE(exec->launch(stream->get()).ok());
  EXPECT_TRUE(exec->update(*again).ok());
  const Status other = exec->update(*three);
  ASSERT_FALSE(other.ok());
  EXPECT_THAT(other.diag().fix, HasSubstr("instantiate"));
  EXPECT_TRUE(exec->launch(stream->get()).ok());
}

// ---- memory, streams, events -----------------------------------------------------------------

TEST_F(LaunchTest, MemoryIsCopiedAndFilledAndGivenBack) {
  const Device& gpu = device(1);
  const uint64_t freed = control_->calls(stub::kMemFree);
  {
    Result<DeviceBuffer> a = DeviceBuffer::allocate(gpu, 64), b = DeviceBuffer::allocate(gpu, 64);
    Result<PinnedBuffer> host = PinnedBuffer::allocate(gpu, 64);
    ASSERT_TRUE(a.ok() && b.ok() && host.ok());
    auto* bytes = static_cast<uint8_t*>(host->data());
    for (int i = 0; i < 64; ++i) bytes[i] = static_cast<uint8_t>(i);
    ASSERT_TRUE(copy_to_device(gpu, a->data(), bytes, 64, nullptr).ok());
    ASSERT_TRUE(fill(gpu, b->data(), 0xee, 64, nullptr).ok());
    ASSERT_TRUE(copy_on_device(gpu, b->data(), a->data(), 32, nullptr).ok());
    ASSERT_TRUE(copy_to_host(gpu, bytes, b->data(), 64, nullptr).ok());
    ASSERT_TRUE(synchronize(gpu, nullptr).ok());
    EXPECT_EQ(bytes[31], 31);
    EXPECT_EQ(bytes[32], 0xee);
    DeviceBuffer moved = std::move(*a);
    EXPECT_EQ(moved.bytes(), 64);
    EXPECT_EQ(a->data(), nullptr);
  }
  EXPECT_EQ(control_->calls(stub::kMemFree) - freed, 2u);
  EXPECT_EQ(DeviceBuffer::allocate(gpu, 0)->data(), nullptr);
}

TEST_F(LaunchTest, TooLittleMemorySaysHowMuchThereIs) {
  const auto out = DeviceBuffer::allocate(device(), int64_t{200} << 30);
  ASSERT_FALSE(out.ok());
  EXPECT_EQ(out.diag().code, ErrorCode::kOutOfMemory);
  EXPECT_THAT(out.diag().str(), HasSubstr("204800 MiB"));
  EXPECT_THAT(out.diag().when, HasSubstr("MiB free"));
  EXPECT_TRUE(DeviceBuffer::allocate(device(), 1024).ok()) << "usable afterwards";
}

TEST_F(LaunchTest, EventsTellTime) {
  Result<Event> start = Event::create(device(), Event::Timing::kOn);
  Result<Event> end = Event::create(device(), Event::Timing::kOn);
  Result<Event> untimed = Event::create(device());
  ASSERT_TRUE(start.ok() && end.ok() && untimed.ok());
  EXPECT_THAT(end->ms_since(*start).diag().found, HasSubstr("never recorded"));
  for (Event* event : {&*start, &*end, &*untimed}) ASSERT_TRUE(event->record(nullptr).ok());
  ASSERT_TRUE(end->synchronize().ok());
  EXPECT_TRUE(*end->done());
  EXPECT_TRUE(end->make_wait(nullptr).ok());
  EXPECT_FLOAT_EQ(*end->ms_since(*start), 1.5f);
  EXPECT_FALSE(untimed->ms_since(*start).ok());
}

// ---- threads and devices ---------------------------------------------------------------------

TEST_F(LaunchTest, ThreadsTimesDevices) {
  constexpr int kThreads = 8, kDevices = 4, kRounds = 50;
  const std::string cubin = new_cubin();
  std::atomic<int> failures = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      for (int round = 0; round < kRounds; ++round) {
        const Device& gpu = device((t + round) % kDevices);
        Result<const Module*> module = Module::load(gpu, cubin, "shared");
        Result<const Kernel*> found =
            module.ok() ? (*module)->kernel({.name = "shared"}) : Result<const Kernel*>(Diag{});
        Result<Stream> stream = Stream::create(gpu);
        if (!found.ok() || !stream.ok()) {
          ++failures;
          continue;
        }
        LaunchConfig config = kSmall;
        config.stream = stream->get();
        config.grid.x = static_cast<uint32_t>(gpu.ordinal()) + 1;
        uint64_t argument = 7;
        void* arguments[] = {&argument};
        if (!launch(**found, gpu, config, arguments).ok()) ++failures;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failures, 0);
  ASSERT_EQ(control_->num_launches(), static_cast<size_t>(kThreads * kRounds));
  for (size_t i = 0; i < control_->num_launches(); ++i) {
    const stub::Launch seen = control_->launch(i);
    ASSERT_EQ(seen.grid[0], static_cast<unsigned>(seen.device) + 1) << "launched elsewhere";
  }
  EXPECT_EQ(control_->calls(stub::kLibraryLoadData), 1u);
  EXPECT_EQ(control_->calls(stub::kKernelGetFunction), static_cast<uint64_t>(kDevices));
}

}  // namespace
}  // namespace rooftile::cuda
