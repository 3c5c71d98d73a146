// SPDX-License-Identifier: Apache-2.0
// docs/decisions/0001-language.md shows complete programs. Here those that the language can say
// today are built and verified, and survive printing and parsing; those that wait for a growth of
// the language (section 7 of the page) must be refused, so that the page and the language cannot
// drift apart unnoticed.
#include "tests/language/design_programs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

namespace rooftile {
namespace {

using namespace design_test;

TEST(DesignPrograms, BuildVerifyAndRoundTrip) {
  for (const Result<ir::Program>& program :
       {gemm(), attention(false), attention(true), decode(), moe(), int4(), softmax()}) {
    ASSERT_TRUE(program.ok()) << program.diag().str();
    const std::string text = ir::print(*program);
    const Result<ir::Program> again = ir::parse(text);
    ASSERT_TRUE(again.ok()) << again.diag().str() << "\n" << text;
    EXPECT_EQ(ir::print(*again), text);
  }
}

// Every label in a schedule of the page is a label, a tensor, a loop or an axis of its program: the
// check that RT-P001 will make.
TEST(DesignPrograms, SchedulesNameWhatExists) {
  struct Pair {
    Result<ir::Program> program;
    gpu_design::Schedule schedule;
  };
  const std::vector<Pair> pairs = {{gemm(), gpu_design::design::gemm_cooperative()},
                                   {gemm(), gpu_design::design::gemm_pingpong()},
                                   {gemm(), gpu_design::design::gemm_swap(16)},
                                   {attention(false), gpu_design::design::attention_d128(false)},
                                   {attention(true), gpu_design::design::attention_d128(true)},
                                   {decode(), gpu_design::design::paged_decode()},
                                   {moe(), gpu_design::design::moe_gemm()},
                                   {int4(), gpu_design::design::int4_gemm(16)},
                                   {softmax(), gpu_design::design::softmax_long()}};
  for (const auto& [program, schedule] : pairs) {
    ASSERT_TRUE(program.ok()) << program.diag().str();
    std::set<std::string> known;
    for (const ir::TensorParam& t : program->tensors) known.insert(t.name);
    for (const ir::Node& node : program->nodes) {
      if (!node.label.empty()) known.insert(node.label);
      if (node.op == ir::Op::kLoop) known.insert(node.name);
      known.insert(node.vars.begin(), node.vars.end());
    }
    auto check = [&](const std::string& name) {
      EXPECT_TRUE(known.count(name)) << schedule.name << " names `" << name << "`\n"
                                     << ir::print(*program);
    };
    for (const gpu_design::Role& role : schedule.roles)
      for (const std::string& label : role.runs) check(label);
    for (const auto& [label, copy] : schedule.copy) check(label);
    for (const auto& [label, product] : schedule.product) check(label);
    for (const auto& [label, home] : schedule.home) check(label);
    for (const auto& [label, spread] : schedule.spread) check(label);
    for (const auto& [label, reduction] : schedule.reduction) check(label);
    for (const auto& [label, plan] : schedule.loop) check(label);
    for (const gpu_design::Ring& ring : schedule.rings)
      for (const std::string& label : ring.copies) check(label);
    for (const gpu_design::ClusterAxis& axis : schedule.cluster) check(axis.name);
    for (const gpu_design::LoopSplit& split : schedule.split) check(split.loop);
    for (const std::string& axis : schedule.order.axes) check(axis);
    int registers = 0;
    for (const gpu_design::Role& role : schedule.roles)
      if (role.beside.empty()) registers += role.groups * 128 * role.regs;
    EXPECT_LE(registers, 65536) << schedule.name;
    for (const auto& [param, value] : schedule.tile) {
      const auto& params = program->tile_params;
      EXPECT_NE(std::find(params.begin(), params.end(), param), params.end())
          << schedule.name << ": " << param << " = " << value;
    }
  }
}

}  // namespace
}  // namespace rooftile
