// SPDX-License-Identifier: Apache-2.0
// The programs of docs/decisions/0001-language.md, compiled for this CPU and called through their
// generated launchers, against the interpreter: the same tile programs that the page schedules for
// Hopper.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>

#include "rooftile/check/host_tensor.h"
#include "rooftile/compile/kernel.h"
#include "rooftile/ir/interp.h"
#include "rooftile/runtime/call.h"
#include "tests/language/design_programs.h"

namespace rooftile {
namespace {

using namespace design_test;

NdArray random_array(std::vector<int64_t> shape, uint64_t seed, double spread = 1) {
  NdArray a;
  a.shape = std::move(shape);
  size_t count = 1;
  for (int64_t extent : a.shape) count *= static_cast<size_t>(extent);
  a.data.resize(count);
  std::mt19937_64 random(seed);
  std::uniform_int_distribution<int> value(-64, 64);  // exact in bf16
  for (double& v : a.data) v = spread * value(random) / 64.0;
  return a;
}

NdArray integers(std::vector<int64_t> shape, std::vector<double> values) {
  return {std::move(shape), std::move(values)};
}

// Compiles and runs `program`, whose first tensors are its outputs, and compares with the
// interpreter in the declared dtypes.
void compare_with_interpreter(const Result<ir::Program>& program, const Env& tile,
                              ir::InterpTensors tensors) {
  ASSERT_TRUE(program.ok()) << program.diag().str();
  const ir::InterpTensors inputs = tensors;
  const Status interpreted =
      ir::interpret(*program, tile, {{"softmax_scale", 0.5}}, tensors, ir::InterpOptions{});
  ASSERT_TRUE(interpreted.ok()) << interpreted.str();

  Schedule schedule;
  schedule.name = "design";
  for (const auto& [name, value] : tile) schedule.tile[name] = value;
  Result<KernelSource> source =
      generate(*program, "design_" + program->name, schedule, host_target());
  ASSERT_TRUE(source.ok()) << source.diag().str();
  const auto kernel = compile(*std::move(source));
  ASSERT_TRUE(kernel.ok()) << kernel.diag().str();

  std::vector<check::HostTensor> memory;
  std::vector<TensorView> views;
  for (const ir::TensorParam& t : program->tensors) {
    if (t.role == Role::kWorkspace) continue;
    memory.emplace_back(t.dtype, tensors.at(t.name).shape);
    if (t.role == Role::kIn)
      memory.back().store(inputs.at(t.name));
    else
      memory.back().poison(check::Poison::kFirst);
  }
  for (const check::HostTensor& m : memory) views.push_back(m.view());
  const std::vector<Scalar> scalars = {Scalar(0.5)};
  const Status called = invoke((*kernel)->launch, views, scalars);
  ASSERT_TRUE(called.ok()) << called.str();

  size_t position = 0;
  for (const ir::TensorParam& t : program->tensors) {
    if (t.role == Role::kWorkspace) continue;
    const check::HostTensor& m = memory[position++];
    EXPECT_EQ(m.guard_damage(), std::nullopt) << t.name;
    if (t.role == Role::kIn) continue;
    const NdArray found = m.load();
    const NdArray& wanted = tensors.at(t.name);
    // A sum in another order may round to the neighbouring bf16.
    const double slack = t.dtype == kBf16 ? 0x1p-7 : 0x1p-18;
    for (size_t i = 0; i < wanted.data.size(); ++i) {
      const double x = found.data[i], y = wanted.data[i];
      ASSERT_TRUE(x == y || std::fabs(x - y) <= slack * (std::fabs(y) + 0x1p-6))
          << t.name << "[" << i << "]: " << x << ", interpreted " << y;
    }
  }
}

TEST(DesignCpu, Gemm) {
  compare_with_interpreter(gemm(), {{"BM", 32}, {"BN", 64}, {"BK", 64}},
                           {{"a", random_array({67, 200}, 1)},
                            {"b", random_array({131, 200}, 2)},
                            {"bias", random_array({131}, 3)}});
}

TEST(DesignCpu, Attention) {
  struct Case {
    int64_t Sq, Sk;
    bool causal;
  };
  for (const Case& c :
       {Case{11, 5, true}, Case{70, 130, true}, Case{130, 70, true}, Case{20, 75, false}})
    compare_with_interpreter(attention(c.causal), {{"BM", 16}, {"BN", 32}},
                             {{"q", random_array({1, c.Sq, 4, 16}, 1, 2)},
                              {"k", random_array({1, c.Sk, 2, 16}, 2, 2)},
                              {"v", random_array({1, c.Sk, 2, 16}, 3)}});
}

TEST(DesignCpu, PagedDecodeInPieces) {
  for (int64_t pieces : {1, 5})
    compare_with_interpreter(decode(), {{"UNIT", 4}, {"PIECES", pieces}},
                             {{"q", random_array({4, 2, 3, 16}, 1, 2)},
                              {"k", random_array({9, 8, 2, 16}, 2, 2)},
                              {"v", random_array({9, 8, 2, 16}, 3)},
                              {"table", integers({4, 3}, {3, 6, 0, 0, 0, 0, 7, 1, 5, 2, 0, 0})},
                              {"lens", integers({4}, {13, 0, 24, 1})}});
}

TEST(DesignCpu, MoeWithGatheredRows) {
  compare_with_interpreter(moe(), {{"BM", 2}, {"BN", 4}, {"BK", 3}},
                           {{"x", random_array({4, 5}, 1)},
                            {"w", random_array({4, 6, 5}, 2)},
                            {"source", integers({7}, {3, 0, 1, 1, 2, 0, 3})},
                            {"offsets", integers({5}, {0, 5, 5, 6, 7})}});
}

TEST(DesignCpu, Int4) {
  NdArray word = random_array({4, 40}, 1), zero = random_array({2, 40}, 2);
  std::mt19937_64 random(3);
  for (double& w : word.data) w = static_cast<double>(static_cast<int32_t>(random()));
  for (double& z : zero.data) z = static_cast<double>(random() % 16);
  compare_with_interpreter(int4(), {{"BM", 2}, {"BN", 32}, {"BK", 8}},
                           {{"x", random_array({3, 32}, 4)},
                            {"word", word},
                            {"scale", random_array({2, 40}, 5)},
                            {"zero", zero}});
}

TEST(DesignCpu, Softmax) {
  compare_with_interpreter(softmax(), {}, {{"x", random_array({3, 1013}, 1, 16)}});
}

}  // namespace
}  // namespace rooftile
