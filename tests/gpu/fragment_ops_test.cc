// SPDX-License-Identifier: Apache-2.0
// Kernels of the fragment way (roles, rings, wgmma) in the emulator against the float64 reference:
// edges on every side, clusters with multicast, persistent walks, staged stores, late products,
// short key blocks; under several seeds of everything that hardware leaves open.
#include <gtest/gtest.h>

#include <functional>

#include "rooftile/codegen/gpu/lower.h"
#include "rooftile/compile/target.h"
#include "tests/gpu/emulated_call.h"

namespace rooftile {
namespace {

using Edit = std::function<void(Schedule&)>;

const KernelDef& kernel_named(const OpDef& op, const std::string& name) {
  for (const KernelDef& kernel : op.kernels)
    if (kernel.name == name) return kernel;
  return op.kernels[0];
}

struct FragmentCase {
  std::string name, op, kernel, text;
  Edit edit;  // of the operator's own schedule
  int seeds = 3;
};

Result<std::vector<codegen::GpuVariant>> lower(const FragmentCase& c, const RefCall& call) {
  const OpDef& op = *find_op(c.op);
  const KernelDef& kernel = kernel_named(op, c.kernel);
  Result<ir::Program> program = op.build(kernel, call.config);
  if (!program.ok()) return program.diag();
  Schedule schedule = kernel.schedule(call.config, call.dims, sm90_target());
  if (c.edit) c.edit(schedule);
  std::map<std::string, Expr, std::less<>> values;
  for (const auto& [param, value] : schedule.tile) values.emplace(param, Expr(value));
  ir::Program specialised = ir::substitute_symbols(*program, values);
  specialised.tile_params.clear();
  Result<codegen::GpuKernelLanes> lanes = codegen::lower_gpu(specialised, "kernel", schedule);
  if (!lanes.ok()) return lanes.diag();
  return std::move(lanes->variants);
}

class FragmentOps : public ::testing::TestWithParam<FragmentCase> {};

TEST_P(FragmentOps, MatchTheReferenceUnderSeveralSeeds) {
  const FragmentCase& c = GetParam();
  auto emulated = testing::EmulatedCase::make(*find_op(c.op), c.text, 1);
  ASSERT_TRUE(emulated.ok()) << emulated.diag().str();
  auto variants = lower(c, emulated->call());
  ASSERT_TRUE(variants.ok()) << variants.diag().str();
  ASSERT_TRUE(emulated->meets((*variants)[0].needs));
  for (int seed = 1; seed <= c.seeds; ++seed) {
    auto result = emulated->run((*variants)[0], false, static_cast<uint64_t>(seed));
    ASSERT_TRUE(result.ok()) << result.diag().str();
    ASSERT_TRUE(result->pass) << result->reason;
  }
}

Edit gemm_tile(int64_t rows, int64_t columns, int groups, int cluster, int depth, bool staged) {
  return [=](Schedule& s) {
    s.tile["BM"] = rows;
    s.tile["BN"] = columns;
    s.gpu.roles[1].groups = groups;
    s.gpu.roles[0].regs = groups > 1 ? 40 : 0;
    s.gpu.roles[1].regs = groups > 1 ? 232 : 0;
    s.gpu.cluster.clear();
    if (cluster > 1) s.gpu.cluster = {{"i", cluster}};
    s.gpu.copy["b"].multicast = cluster > 1;
    s.gpu.rings[0].depth = depth;
    s.gpu.copy.erase("d");
    if (staged)
      s.gpu.copy["d"] = {.via = gpu::Via::kTma, .staging_columns = 64, .staging_buffers = 2};
  };
}

Edit never_late() {
  return [](Schedule& s) { s.gpu.loop.clear(); };
}

Edit boxes_of_keys() {
  return [](Schedule& s) { s.gpu.copy["k"].via = s.gpu.copy["v"].via = gpu::Via::kTma; };
}

std::vector<FragmentCase> cases() {
  return {
      {"gemm_edges", "gemm", "large_m", "M=70 N=72 K=136", gemm_tile(64, 64, 1, 1, 2, true)},
      {"gemm_two_groups", "gemm", "large_m", "M=130 N=72 K=200", gemm_tile(128, 64, 2, 1, 2, true)},
      {"gemm_cluster", "gemm", "large_m", "M=260 N=72 K=136", gemm_tile(128, 64, 2, 2, 2, true)},
      {"gemm_two_row_blocks", "gemm", "large_m", "M=130 N=40 K=72",
       gemm_tile(128, 32, 1, 1, 3, false)},
      {"gemm_nn", "gemm", "large_m", "M=70 N=72 K=136 layout=nn", gemm_tile(64, 64, 1, 1, 2, true)},
      {"gemm_epilogue", "gemm", "large_m",
       "M=70 N=40 K=72 bias=1 activation=silu c=1 beta=0.5 dtype=f16",
       gemm_tile(64, 32, 1, 1, 2, false)},
      {"gemm_int8", "gemm", "large_m", "M=70 N=48 K=144 a=i8 d=i32",
       gemm_tile(64, 32, 1, 1, 2, false)},
      {"gemm_batched", "gemm_batched", "tiled", "B=3 M=70 N=40 K=72", {}},
      {"gated_mlp", "gated_mlp", "large_m", "M=70 I=72 K=136", {}},
      {"gemm_fp8_edges", "gemm_fp8", "tiled", "M=70 N=72 K=144 d=f32",
       gemm_tile(64, 64, 1, 1, 2, false)},
      {"gemm_fp8_e5m2_bias", "gemm_fp8", "tiled", "M=130 N=72 K=272 a=f8e5m2 bias=1",
       gemm_tile(128, 64, 2, 1, 2, true)},
      {"gemm_fp8_cluster", "gemm_fp8", "tiled", "M=260 N=72 K=144 d=f16 bias=bf16",
       gemm_tile(128, 64, 2, 2, 2, true)},
      {"gemm_fp8_one_row", "gemm_fp8", "tiled", "M=1 N=40 K=16 a=f8e5m2 d=f32 bias=1",
       gemm_tile(64, 32, 1, 1, 2, false)},
      {"prefill_full", "attention_prefill", "one", "Tq=70 Tk=150 Hq=2 Hkv=1 D=64 lse=1", {}},
      {"prefill_causal",
       "attention_prefill",
       "one",
       "Tq=140 Tk=270 Hq=2 Hkv=1 D=64 causal=1 lse=1",
       {}},
      {"prefill_window",
       "attention_prefill",
       "one",
       "Tq=140 Tk=300 Hq=1 Hkv=1 D=128 window_left=100 window_right=20 dtype=f16",
       {}},
      {"prefill_sees_nothing",
       "attention_prefill",
       "one",
       "Tq=140 Tk=20 Hq=1 Hkv=1 D=64 causal=1 lse=1",
       {}},
      {"prefill_in_order", "attention_prefill", "one", "Tq=70 Tk=150 Hq=1 Hkv=1 D=64 causal=1",
       never_late()},
      {"decode", "attention_decode", "single", "B=3 P=3 S=150 Hq=4 Hkv=2 D=64 lse=1", {}},
      {"decode_window_sink", "attention_decode", "single",
       "B=2 P=2 S=100 Hq=8 Hkv=1 D=128 window_left=40 sink=1", boxes_of_keys()},
      {"decode_split", "attention_decode", "split", "B=2 P=2 S=300 Hq=4 Hkv=2 D=64 lse=1", {}},
      {"decode_pages_of_one",
       "attention_decode",
       "single",
       "B=2 P=170 S=1 MP=80 block_table=1 kv_layout=paged Hq=4 Hkv=2 D=128 lse=1",
       {}},
      {"decode_pages_window", "attention_decode", "single",
       "B=2 P=30 S=16 MP=9 block_table=1 kv_layout=paged Hq=4 Hkv=2 D=64 window_left=70 sink=1 "
       "dtype=f16",
       boxes_of_keys()},
      {"decode_pages_split",
       "attention_decode",
       "split",
       "B=2 P=14 S=24 MP=7 block_table=1 kv_layout=paged Hq=4 Hkv=2 D=64 lse=1",
       {}},
  };
}

INSTANTIATE_TEST_SUITE_P(All, FragmentOps, ::testing::ValuesIn(cases()),
                         [](const auto& test) { return test.param.name; });

// Rows that are looked up: what each mechanism cannot do is refused by name, not done otherwise.
TEST(FragmentLookups, RefuseWhatTheMechanismCannotDo) {
  struct Wish {
    const char* pages;
    gpu::Copy how;
    const char* says;
  };
  const Wish wishes[] = {
      {"S=20", {.via = gpu::Via::kTma}, "side by side in runs of eight"},
      {"S=16", {.via = gpu::Via::kCpAsync, .multicast = true}, "reaches one CTA only"},
      {"S=16", {.via = gpu::Via::kVector}, "a mechanism that goes on by itself"},
  };
  for (const Wish& wish : wishes) {
    const std::string text =
        std::string(wish.pages) + " B=2 P=20 MP=5 block_table=1 kv_layout=paged Hq=4 Hkv=2 D=64";
    auto emulated = testing::EmulatedCase::make(*find_op("attention_decode"), text, 1);
    ASSERT_TRUE(emulated.ok()) << emulated.diag().str();
    const FragmentCase c = {"", "attention_decode", "single", text,
                            [&](Schedule& s) { s.gpu.copy["k"] = wish.how; }};
    const auto variants = lower(c, emulated->call());
    ASSERT_FALSE(variants.ok()) << wish.says;
    EXPECT_EQ(variants.diag().code, ErrorCode::kPlacement);
    EXPECT_NE(variants.diag().str().find(wish.says), std::string::npos) << variants.diag().str();
  }
}

}  // namespace
}  // namespace rooftile
