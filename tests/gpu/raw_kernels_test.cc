// SPDX-License-Identifier: Apache-2.0
// The raw route without a GPU: every text compiles clean, launches are what the text expects, and
// whatever the text does not take goes to the tile kernel or is an error.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <mutex>
#include <thread>

#include "rooftile/check/case_inputs.h"
#include "rooftile/compile/dispatch.h"
#include "rooftile/compile/gpu_kernel.h"
#include "rooftile/toolchain/cubin_cache.h"
#include "rooftile/toolchain/nvrtc_find.h"
#include "tests/stub_driver/stub.h"
#include "tests/support/scoped_env.h"

namespace rooftile {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing_support::ScopedEnv;

Result<RefCall> call_of(const OpDef& op, const std::string& text) {
  auto parsed = check::parse_case(text);
  if (!parsed.ok()) return parsed.status();
  return check::resolve_case(op, check::for_target(op, *parsed, sm90_target()));
}

// Names of the kernels that a route offers for a case, first choice first.
std::vector<std::string> offered(const std::string& op_name, const std::string& text, Route route,
                                 const TargetInfo& target = sm90_target()) {
  const OpDef& op = *find_op(op_name);
  auto call = call_of(op, text);
  EXPECT_TRUE(call.ok()) << call.status().str();
  std::vector<std::string> names;
  if (!call.ok()) return names;
  for (const KernelDef* kernel : op.candidates(call->config, call->dims, target, route))
    names.push_back(kernel->name);
  return names;
}

// ---- texts --------------------------------------------------------------------------------------

// The raw kernels alone, by their texts, for every case of every operator.
std::map<std::string, KernelSource> every_raw_source() {
  std::map<std::string, KernelSource> out;
  for (const OpDef& op : all_ops())
    for (const Case& test_case : op.case_list) {
      auto call = call_of(op, test_case.text);
      if (!call.ok()) continue;  // the ladder's test says so
      for (const KernelDef* kernel :
           op.candidates(call->config, call->dims, sm90_target(), Route::kRaw)) {
        auto source =
            generate(op, *kernel, call->config, call->dims, sm90_target(), nullptr, Route::kRaw);
        EXPECT_TRUE(source.ok()) << op.name << " " << test_case.text << source.status().str();
        if (!source.ok()) continue;
        std::string text = source->gpu_texts[0].text;
        out.emplace(std::move(text), std::move(*source));
      }
    }
  return out;
}

TEST(RawKernels, EveryTextCompilesWithNothingSpilledOrSerialised) {
  if (!find_nvrtc().ok()) GTEST_SKIP() << "no NVRTC";
  const std::map<std::string, KernelSource> sources = every_raw_source();
  ASSERT_GE(sources.size(), 10u);
  std::vector<const KernelSource*> queue;
  for (const auto& [text, source] : sources) queue.push_back(&source);
  std::vector<std::string> faults(queue.size());
  std::atomic<size_t> next{0};
  std::vector<std::jthread> workers;
  for (unsigned i = 0; i < std::max(1u, std::thread::hardware_concurrency()); ++i)
    workers.emplace_back([&] {
      for (size_t at = next++; at < queue.size(); at = next++) {
        const GpuText& text = queue[at]->gpu_texts[0];
        auto cubin = compile_cubin_cached(text.text, {}, text.name);
        const Status status =
            cubin.ok() ? shipped_ok(cubin->binary.report, text.name) : cubin.status();
        if (!status.ok()) faults[at] = status.str();
      }
    });
  workers.clear();
  for (size_t at = 0; at < queue.size(); ++at)
    EXPECT_EQ(faults[at], "") << queue[at]->schedule.str();
}

TEST(RawKernels, TheHeadOfATextIsPrintedFromTheLaunch) {
  const OpDef& op = *find_op("attention_prefill");
  auto call = call_of(op, "Tq=300 Tk=300 Hq=2 Hkv=1 D=128 lse=1");
  ASSERT_TRUE(call.ok());
  const KernelDef* kernel =
      op.candidates(call->config, call->dims, sm90_target(), Route::kRaw).front();
  auto source =
      generate(op, *kernel, call->config, call->dims, sm90_target(), nullptr, Route::kRaw);
  ASSERT_TRUE(source.ok()) << source.status().str();
  EXPECT_THAT(source->kernel_text, HasSubstr("#define RT_HAS_LSE 1\n"));
  EXPECT_THAT(source->kernel_text, HasSubstr("#define RT_D 128\n"));
  EXPECT_THAT(source->kernel_text,
              HasSubstr("const __grid_constant__ TensorMap map_v, \\\n    u16* o, \\\n    float* "
                        "lse, \\\n    const i64 o_s0, \\\n    const i64 o_s1, \\\n    const i64 "
                        "lse_s0, \\\n    const i32 Tq, "));
  EXPECT_EQ(source->route, Route::kRaw);
  EXPECT_EQ(source->variants.size(), 1u);
  EXPECT_THAT(source->scheduled, HasSubstr("raw, unproved"));
}

// ---- what is taken ------------------------------------------------------------------------------

TEST(RawKernels, AreOfferedOnAGpuAloneAndUnaskedOnlyWherePreferred) {
  EXPECT_THAT(offered("gemm", "M=128 N=4096 K=4096", Route::kRaw), ElementsAre("sm90_tiles"));
  EXPECT_THAT(offered("gemm", "M=128 N=4096 K=4096", Route::kAuto), ElementsAre("large_m"));
  EXPECT_THAT(offered("sample", "B=2 V=64", Route::kAuto), ElementsAre("rows"));
  EXPECT_THAT(offered("sample", "B=2 V=64 top_k=1", Route::kAuto), ElementsAre("sm90", "rows"));
  const std::string paged = "B=8 P=512 S=16 MP=64 block_table=1 kv_layout=paged Hq=32 Hkv=8 D=128";
  EXPECT_THAT(offered("attention_decode", paged, Route::kAuto),
              ElementsAre("sm90", "single", "split"));
  EXPECT_THAT(offered("attention_decode", paged, Route::kTile), ElementsAre("single", "split"));
  for (const Route route : {Route::kRaw, Route::kAuto})
    for (const std::string& name : offered("attention_decode", paged, route, host_target()))
      EXPECT_NE(name, "sm90");
}

TEST(RawKernels, TakeNoCallThatTheirTextDoesNotMean) {
  const auto raw = [](const std::string& op, const std::string& text) {
    return offered(op, text, Route::kRaw);
  };
  const std::string prefill = "Tq=64 Tk=64 Hq=4 Hkv=2 ";
  EXPECT_THAT(raw("attention_prefill", prefill + "D=64"), ElementsAre("sm90"));
  for (const char* other : {"D=96", "D=128 dtype=f16", "D=128 sink=1",
                            "D=128 softcap_on=1 softcap=2", "D=128 cu_q=1 cu_k=1 B1=3"})
    EXPECT_THAT(raw("attention_prefill", prefill + other), ElementsAre()) << other;
  const std::string decode = "B=3 P=9 MP=3 block_table=1 kv_layout=paged D=128 Hkv=2 ";
  EXPECT_THAT(raw("attention_decode", decode + "S=32 Hq=16"), ElementsAre("sm90"));
  for (const char* other : {"S=24 Hq=8", "S=32 Hq=18", "S=32 Hq=8 sink=1", "S=32 Hq=8 dtype=f16"})
    EXPECT_THAT(raw("attention_decode", decode + other), ElementsAre()) << other;
  EXPECT_THAT(raw("sample", "B=3 V=131056 top_k=1"), ElementsAre("sm90"));
  for (const char* other : {"B=3 V=131064", "B=3 V=100", "B=3 V=64 dtype=f32"})
    EXPECT_THAT(raw("sample", other), ElementsAre()) << other;
  EXPECT_THAT(raw("gemm", "M=64 N=72 K=9"), ElementsAre("sm90_swap", "sm90_tiles"));
  EXPECT_THAT(raw("gemm", "M=65 N=72 K=9"), ElementsAre("sm90_tiles"));
  for (const char* other :
       {"N=70 K=8", "N=72 K=0", "N=72 K=8 bias=1", "N=72 K=8 c=1", "N=72 K=8 activation=relu",
        "N=72 K=8 layout=nn", "N=72 K=8 dtype=f16", "N=72 K=8 d=f32"})
    EXPECT_THAT(raw("gemm", std::string("M=64 ") + other), ElementsAre()) << other;
}

// ---- launches -----------------------------------------------------------------------------------

class RawLaunch : public testing_support::StubDriverTest {
 protected:
  void SetUp() override {
    if (!find_nvrtc().ok()) GTEST_SKIP() << "no NVRTC";
    StubDriverTest::SetUp();
    sms_ = device().info().num_sms;
  }

  // On the stub's device, at an address of its own.
  TensorView view(DType dtype, std::initializer_list<int64_t> shape) {
    TensorView out(reinterpret_cast<void*>(next_), dtype, shape);
    next_ += uintptr_t{1} << 32;
    out.device = DeviceKind::kCuda;
    return out;
  }

  // The arguments of a causal prefill of Tq queries over Tk keys, 4 heads on 2.
  struct Prefill {
    std::vector<TensorView> tensors;
    std::vector<Scalar> attrs;
    std::vector<int64_t> flags;
    double scale = 0.1;
    int64_t window_left = -1;
  };
  Prefill prefill(int64_t Tq, int64_t Tk) {
    return {{view(DType::kBf16, {Tq, 4, 128}), TensorView(), view(DType::kBf16, {Tq, 4, 128}),
             view(DType::kBf16, {Tk, 2, 128}), view(DType::kBf16, {Tk, 2, 128}), TensorView(),
             TensorView(), TensorView()},
            {},
            {}};
  }
  Status run(const Prefill& p, Route route) {
    const OpDef& op = *find_op("attention_prefill");
    std::vector<Scalar> attrs;
    for (const AttrDef& attr : op.attrs)
      if (attr.name == "scale")
        attrs.emplace_back(p.scale);
      else if (attr.name == "window_left")
        attrs.emplace_back(p.window_left);
      else if (attr.is_float)
        attrs.emplace_back(attr.default_value);
      else
        attrs.emplace_back(static_cast<int64_t>(attr.default_value));
    std::vector<int64_t> flags;
    for (const FlagDef& flag : op.flags) flags.push_back(flag.name == "causal" ? 1 : 0);
    std::vector<TensorView> tensors;
    for (const ArgDef& arg : op.args)  // by name: their order is the operator's business
      tensors.push_back(tensor_of(p, arg.name));
    return call(op, {tensors, attrs, flags}, {.route = route});
  }
  static TensorView tensor_of(const Prefill& p, const std::string& name) {
    if (name == "o") return p.tensors[0];
    if (name == "q") return p.tensors[2];
    if (name == "k") return p.tensors[3];
    if (name == "v") return p.tensors[4];
    return {};
  }
  stub::Launch last() const { return control_->launch(control_->num_launches() - 1); }

  uintptr_t next_ = uintptr_t{1} << 40;
  int sms_ = 0;
  ScopedEnv driver_path_{"ROOFTILE_CUDA_DRIVER", testing_support::stub_path()};
};

TEST_F(RawLaunch, OfPrefillHasOneCtaATileThatSeesAKeyAndItsCounterZeroedOnce) {
  const Prefill p = prefill(300, 40);  // tiles of 128 rows; rows below 260 see no key
  const Status first = run(p, Route::kAuto);
  ASSERT_TRUE(first.ok()) << first.str();
  const stub::Launch launch = last();
  EXPECT_THAT(launch.kernel, HasSubstr("attention_prefill_sm90"));
  EXPECT_EQ(launch.grid[0], 4u);  // one live tile a head
  EXPECT_EQ(launch.block[0], 384u);
  EXPECT_EQ(launch.cluster[0], 1u);
  EXPECT_EQ(launch.dynamic_smem_bytes, 1024u + 288 + 2 * 128 * (2 * 128 + 2 * 2 * 128));
  const uint64_t fills = control_->calls(stub::kMemsetD8Async);
  const uint64_t maps = control_->calls(stub::kTensorMapEncodeTiled);
  EXPECT_LE(fills, 1u);  // 0 if another test of this process brought the counters up
  ASSERT_TRUE(run(p, Route::kAuto).ok());
  EXPECT_EQ(control_->calls(stub::kMemsetD8Async), fills);
  EXPECT_EQ(control_->calls(stub::kTensorMapEncodeTiled), maps);

  ASSERT_TRUE(run(prefill(128 * 300, 128 * 300), Route::kAuto).ok());
  EXPECT_EQ(last().grid[0], static_cast<unsigned>(sms_));  // persistent
}

TEST_F(RawLaunch, TakesTheTileKernelForWhatTheTextDoesNotTakeOrSaysSo) {
  Prefill windowed = prefill(256, 256), negative = prefill(256, 256), skewed = prefill(256, 256);
  windowed.window_left = 5;
  negative.scale = -0.1;
  skewed.tensors[3].strides[0] = 2 * 128 + 4;  // rows of k 8 bytes off a multiple of 16
  for (const Prefill& p : {windowed, negative, skewed}) {
    const Status status = run(p, Route::kAuto);
    ASSERT_TRUE(status.ok()) << status.str();
    EXPECT_THAT(last().kernel, Not(HasSubstr("attention_prefill_sm90")));
    const Status alone = run(p, Route::kRaw);
    ASSERT_FALSE(alone.ok());
    EXPECT_EQ(alone.diag().code, ErrorCode::kAlignment);
  }
  ASSERT_TRUE(run(prefill(256, 256), Route::kTile).ok());
  EXPECT_THAT(last().kernel, Not(HasSubstr("attention_prefill_sm90")));
  Prefill wrong = prefill(256, 256);
  wrong.tensors[4].shape[0] = 255;  // v has fewer rows than k
  EXPECT_FALSE(run(wrong, Route::kRaw).ok());
}

}  // namespace
}  // namespace rooftile
