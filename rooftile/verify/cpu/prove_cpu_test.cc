// SPDX-License-Identifier: Apache-2.0
// The CPU text of every shipped kernel is proved, fused and unfused; a layout that is too small is
// refuted.
#include "rooftile/verify/cpu/prove_cpu.h"

#include <gtest/gtest.h>

#include <set>

#include "rooftile/check/case_inputs.h"
#include "rooftile/codegen/cpu/emit_cpu.h"
#include "rooftile/ops/op_def.h"

namespace rooftile::verify {
namespace {

std::string text(const Finding& f) {
  return std::string(kind_info(f.kind).id) + " " + std::string(verdict_name(f.verdict)) + ": " +
         f.subject + " at " + f.loc.str() + " " + f.reason;
}

TargetInfo machine(bool amx) {
  TargetInfo target;
  target.isa = amx ? "avx512" : "avx2";
  target.amx_bf16 = target.amx_int8 = target.avx512_bf16 = target.avx512_vnni = amx;
  target.threads = 8;
  target.l2_bytes = 2 << 20;
  return target;
}

ir::Program tiled(const ir::Program& program, const Schedule& schedule) {
  std::map<std::string, Expr, std::less<>> values;
  for (const auto& [name, value] : schedule.tile) values.emplace(name, value);
  ir::Program out = ir::substitute_symbols(program, values);
  out.tile_params.clear();
  return out;
}

class ShippedText : public testing::TestWithParam<const OpDef*> {};

// Each program and schedule that the smoke cases lead to, once.
TEST_P(ShippedText, IsProved) {
  const OpDef& op = *GetParam();
  std::set<std::string> seen;
  for (const Case& test_case : op.case_list) {
    if (!test_case.tagged("smoke")) continue;
    auto call = check::resolve_case(op, test_case);
    ASSERT_TRUE(call.ok()) << call.diag().str();
    for (const bool amx : {true, false}) {
      const TargetInfo target = machine(amx);
      const auto kernels = op.candidates(call->config, call->dims, target, Route::kTile);
      ASSERT_FALSE(kernels.empty()) << test_case.text;
      auto program = op.build(*kernels[0], call->config);
      ASSERT_TRUE(program.ok()) << program.diag().str();
      Schedule schedule = kernels[0]->schedule(call->config, call->dims, target);
      for (const bool fuse : {true, false}) {
        schedule.fuse = fuse;
        const ir::Program given = tiled(*program, schedule);
        if (!seen.insert(ir::print(given) + schedule.str() + target.isa).second) continue;
        for (const Finding& f : prove_cpu(given, schedule, target))
          EXPECT_EQ(f.verdict, Verdict::kProved) << test_case.text << "\n" << text(f);
      }
    }
  }
}

std::vector<const OpDef*> all() {
  std::vector<const OpDef*> out;
  for (const OpDef& op : all_ops()) out.push_back(&op);
  return out;
}
INSTANTIATE_TEST_SUITE_P(Cpu, ShippedText, testing::ValuesIn(all()),
                         [](const auto& op) { return op.param->name; });

// A kernel with buffers, a product and packed operands.
struct Subject {
  ir::Program program;
  Schedule schedule;
  TargetInfo target;
  std::vector<codegen::ScratchPart> scratch;
};
Subject gemm() {
  const OpDef& op = *find_op("gemm");
  auto call = check::resolve_case(op, *check::parse_case("M=300 N=300 K=600 bias=1"));
  Subject s;
  s.target = machine(true);
  const KernelDef& kernel = *op.candidates(call->config, call->dims, s.target, Route::kTile)[0];
  s.schedule = kernel.schedule(call->config, call->dims, s.target);
  s.schedule.operand.clear();
  s.program = tiled(*op.build(kernel, call->config), s.schedule);
  s.scratch = codegen::emit_cpu(s.program, "k", s.schedule, s.target)->scratch;
  return s;
}

size_t refuted(const Subject& s, Kind kind) {
  size_t count = 0;
  for (const Finding& f : prove_cpu(s.program, s.schedule, s.target, &s.scratch))
    count += f.kind == kind && f.verdict == Verdict::kRefuted ? 1 : 0;
  return count;
}

TEST(ProveCpu, RefutesMemoryThatIsTooSmall) {
  const Subject good = gemm();
  EXPECT_EQ(refuted(good, Kind::kCpuBounds), 0U);
  ASSERT_FALSE(good.scratch.empty());
  for (size_t i = 0; i < good.scratch.size(); ++i) {
    Subject s = good;
    codegen::ScratchPart& part = s.scratch[i];
    for (Expr& extent : part.extents) extent = extent - Expr(1);
    EXPECT_GT(refuted(s, Kind::kCpuBounds), 0U) << part.name;
  }
}

TEST(ProveCpu, RefutesRowsWithoutRoomForAVector) {
  Subject s = gemm();
  bool any = false;
  for (codegen::ScratchPart& part : s.scratch)
    if (part.form == codegen::ScratchPart::kRows) {
      any = true;
      part.pitch_unit = 1;
      part.pitch_pad = 0;
    }
  ASSERT_TRUE(any);
  EXPECT_GT(refuted(s, Kind::kCpuBounds), 0U);
}

TEST(ProveCpu, RefutesSharedScratch) {
  Subject s = gemm();
  s.scratch.back().owner = codegen::ScratchPart::kShared;
  EXPECT_EQ(refuted(s, Kind::kCpuRace), 1U);
}

TEST(ProveCpu, RefutesElementsThatDoNotDivideALine) {
  Subject s = gemm();
  s.scratch.back().element_bytes = 12;
  EXPECT_EQ(refuted(s, Kind::kCpuAlignment), 1U);
}

// A workspace as large as the product of three sizes that only single limits bound.
TEST(ProveCpu, RefutesSizesThatDoNotFit64Bits) {
  Subject s = gemm();
  codegen::ScratchPart part;
  part.form = codegen::ScratchPart::kWorkspace;
  part.name = part.like = "cube";
  part.owner = codegen::ScratchPart::kShared;
  part.extents = {Expr::sym("M"), Expr::sym("N"), Expr::sym("K")};
  s.scratch.push_back(part);
  EXPECT_EQ(refuted(s, Kind::kCpuOverflow), 1U);
}

}  // namespace
}  // namespace rooftile::verify
