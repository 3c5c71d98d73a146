// SPDX-License-Identifier: Apache-2.0
// Publicly reported faults of host code: devices, sizes beyond 16 bits, calls from several threads,
// messages that name the wrong thing.
#include <thread>

#include "rooftile/api.h"
#include "tests/known_faults/fault_call.h"

namespace rooftile::known_faults {
namespace {

// Runs fn(worker) on several threads at once.
template <class Fn>
void at_once(int workers, const Fn& fn) {
  std::vector<std::thread> threads;
  for (int worker = 0; worker < workers; ++worker)
    threads.emplace_back([&, worker] { fn(worker); });
  for (std::thread& thread : threads) thread.join();
}

// A tensor that lives elsewhere is refused, never read as if it were here.
TEST(KnownFaults, kf_host_01_OtherDevicesAreRefused) {
  FaultCall call("attention_prefill", "Tq=4 Tk=4 Hq=2 Hkv=2 D=16 lse=1");
  call.view("k").device = DeviceKind::kCuda;
  call.view("k").device_id = 1;
  call.expect_refused(ErrorCode::kDevice, "`k`");
}

// More than 65535 sequences, and more than 65535 heads.
TEST(KnownFaults, kf_host_05_SizesBeyond16Bits) {
  for (int64_t count : {65535, 65536}) {
    const std::string tokens = std::to_string(count * 10);
    FaultCall sequences("attention_prefill", "Tq=" + tokens + " Tk=" + tokens +
                                                 " B1=" + std::to_string(count + 1) +
                                                 " cu_q=1 cu_k=1 Hq=1 Hkv=1 D=16 causal=1 lse=1");
    for (const char* offsets : {"cu_q", "cu_k"})
      for (int64_t b = 0; b <= count; ++b)
        sequences.input(offsets)({b}) = static_cast<double>(b * 10);
    sequences.expect_right();
    FaultCall("attention_prefill", "Tq=10 Tk=10 Hq=" + std::to_string(count) +
                                       " Hkv=" + std::to_string(count) + " D=16 causal=1 lse=1")
        .expect_right();
  }
}

// Calls of one shape from several host threads, each with its own data: no shared workspace.
TEST(KnownFaults, kf_host_06_ConcurrentCallsKeepApart) {
  at_once(4, [](int worker) {
    FaultCall call("gemm", "M=40 N=96 K=130 bias=1 activation=silu");
    for (double& value : call.input("a").data) value *= 1 + worker;
    call.expect_right();
    const auto alone = call.bytes("d");
    for (int round = 0; round < 50; ++round) {
      ASSERT_TRUE(call.run().ok());
      ASSERT_EQ(call.bytes("d"), alone) << "worker " << worker << ", round " << round;
    }
  });
}

// The same for kernels whose phases pass partial sums through a workspace.
TEST(KnownFaults, kf_host_07_ConcurrentSplitsKeepApart) {
  at_once(4, [](int worker) {
    const int length = 300 + 100 * worker;
    FaultCall call("attention_decode",
                   "B=2 P=2 S=" + std::to_string(length) + " Hq=4 Hkv=2 D=64 lse=1");
    call.expect_right();
    const auto alone = call.bytes("o");
    for (int round = 0; round < 50; ++round) {
      ASSERT_TRUE(call.run().ok());
      ASSERT_EQ(call.bytes("o"), alone) << "worker " << worker << ", round " << round;
    }
  });
}

// The message names the dimension that is wrong, and no other.
TEST(KnownFaults, kf_host_08_MessageNamesTheCulprit) {
  FaultCall call("gemm", "M=48 N=24 K=32");
  call.view("b").shape[1] = 31;
  const Status status = call.run();
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.diag().code, ErrorCode::kExtent);
  EXPECT_EQ(status.diag().argument, "b");
  EXPECT_NE(status.str().find("31"), std::string::npos) << status.str();
  EXPECT_NE(status.str().find("32"), std::string::npos) << status.str();
  EXPECT_EQ(status.str().find("48"), std::string::npos) << status.str();
  EXPECT_EQ(status.str().find("24"), std::string::npos) << status.str();
}

}  // namespace
}  // namespace rooftile::known_faults
