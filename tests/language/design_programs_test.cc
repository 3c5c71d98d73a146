// SPDX-License-Identifier: Apache-2.0
// docs/decisions/0001-language.md shows complete programs. Here those that the language can say
// today are built and verified, and survive printing and parsing; those that wait for a growth of
// the language (section 7 of the page) must be refused, so that the page and the language cannot
// drift apart unnoticed.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "docs/decisions/0001/schedules.h"
#include "rooftile/dsl/dsl.h"

namespace rooftile {
namespace {

using dsl::Kernel;
using ir::Role;

Expr S(const char* name) { return Expr::sym(name); }

ir::TensorParam tensor(std::string name, DType dtype, std::vector<Expr> shape, Role role) {
  ir::TensorParam t;
  t.name = std::move(name);
  t.dtype = dtype;
  t.shape = std::move(shape);
  t.role = role;
  return t;
}
ir::TensorParam in(std::string name, DType dtype, std::vector<Expr> shape) {
  return tensor(std::move(name), dtype, std::move(shape), Role::kIn);
}
ir::TensorParam out(std::string name, DType dtype, std::vector<Expr> shape) {
  return tensor(std::move(name), dtype, std::move(shape), Role::kOut);
}

constexpr DType kBf16 = DType::kBf16, kF32 = DType::kF32, kI32 = DType::kI32;

Result<ir::Program> build(std::string name, std::vector<ir::TensorParam> tensors,
                          const std::function<void(Kernel&)>& author) {
  ir::Program interface;
  interface.name = std::move(name);
  interface.tensors = std::move(tensors);
  ir::ScalarParam scale;
  scale.name = "softmax_scale";
  interface.scalars = {scale};
  Kernel kernel(std::move(interface));
  author(kernel);
  return kernel.finish();
}

Result<ir::Program> gemm() {
  return build("gemm",
               {out("d", kBf16, {S("M"), S("N")}), in("a", kBf16, {S("M"), S("K")}),
                in("b", kBf16, {S("N"), S("K")}), in("bias", kBf16, {S("N")})},
               dsl::design::gemm);
}

Result<ir::Program> attention(bool causal) {
  const std::vector<Expr> q = {S("B"), S("Sq"), S("Hq"), S("D")};
  const std::vector<Expr> kv = {S("B"), S("Sk"), S("Hkv"), S("D")};
  return build("attention",
               {out("out", kBf16, q), out("lse", kF32, {S("B"), S("Hq"), S("Sq")}),
                in("q", kBf16, q), in("k", kBf16, kv), in("v", kBf16, kv)},
               [&](Kernel& k) { dsl::design::attention(k, {causal}); });
}

Result<ir::Program> decode() {
  const std::vector<Expr> q = {S("B"), S("Hkv"), S("G"), S("D")};
  const std::vector<Expr> pages = {S("P"), S("PAGE"), S("Hkv"), S("D")};
  return build(
      "decode",
      {out("out", kBf16, q), in("q", kBf16, q), in("k", kBf16, pages), in("v", kBf16, pages),
       in("table", kI32, {S("B"), S("MP")}), in("lens", kI32, {S("B")})},
      dsl::design::paged_decode);
}

Result<ir::Program> moe() {
  return build("moe",
               {out("y", kBf16, {S("R"), S("N")}), in("x", kBf16, {S("T"), S("K")}),
                in("w", kBf16, {S("E"), S("N"), S("K")}), in("source", kI32, {S("R")}),
                in("offsets", kI32, {S("E") + 1})},
               dsl::design::moe_gemm);
}

Result<ir::Program> int4() {
  return build("int4",
               {out("y", kBf16, {S("M"), S("N")}), in("x", kBf16, {S("M"), S("K")}),
                in("word", kI32, {S("K") / 8, S("N")}), in("scale", kBf16, {S("NG"), S("N")}),
                in("zero", kI32, {S("NG"), S("N")})},
               dsl::design::int4_gemm);
}

Result<ir::Program> softmax() {
  return build("softmax", {out("y", kBf16, {S("R"), S("V")}), in("x", kBf16, {S("R"), S("V")})},
               dsl::design::softmax);
}

TEST(DesignPrograms, BuildVerifyAndRoundTrip) {
  for (const Result<ir::Program>& program :
       {gemm(), attention(false), attention(true), moe(), int4(), softmax()}) {
    ASSERT_TRUE(program.ok()) << program.diag().str();
    const std::string text = ir::print(*program);
    const Result<ir::Program> again = ir::parse(text);
    ASSERT_TRUE(again.ok()) << again.diag().str() << "\n" << text;
    EXPECT_EQ(ir::print(*again), text);
  }
}

// G9 of the page. When this fails because the language has grown, move decode() to the list above
// and strike the row.
TEST(DesignPrograms, PlanComputedByTheKernelWaitsForG9) {
  const Result<ir::Program> program = decode();
  ASSERT_FALSE(program.ok());
  EXPECT_EQ(program.diag().code, ErrorCode::kIrStructure) << program.diag().str();
  EXPECT_NE(program.diag().message.find("index load from `first`"), std::string::npos)
      << program.diag().str();
}

// Every label in a schedule of the page is a label, a tensor, a loop or an axis of its program: the
// check that RT-P001 will make.
TEST(DesignPrograms, SchedulesNameWhatExists) {
  struct Pair {
    Result<ir::Program> program;
    gpu::Schedule schedule;
  };
  const std::vector<Pair> pairs = {{gemm(), gpu::design::gemm_cooperative()},
                                   {gemm(), gpu::design::gemm_pingpong()},
                                   {gemm(), gpu::design::gemm_swap(16)},
                                   {attention(false), gpu::design::attention_d128(false)},
                                   {attention(true), gpu::design::attention_d128(true)},
                                   {moe(), gpu::design::moe_gemm()},
                                   {int4(), gpu::design::int4_gemm(16)},
                                   {softmax(), gpu::design::softmax_long()}};
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
    for (const gpu::Role& role : schedule.roles)
      for (const std::string& label : role.runs) check(label);
    for (const auto& [label, copy] : schedule.copy) check(label);
    for (const auto& [label, product] : schedule.product) check(label);
    for (const auto& [label, home] : schedule.home) check(label);
    for (const auto& [label, spread] : schedule.spread) check(label);
    for (const auto& [label, reduction] : schedule.reduction) check(label);
    for (const auto& [label, plan] : schedule.loop) check(label);
    for (const gpu::Ring& ring : schedule.rings)
      for (const std::string& label : ring.copies) check(label);
    for (const gpu::ClusterAxis& axis : schedule.cluster) check(axis.name);
    for (const gpu::LoopSplit& split : schedule.split) check(split.loop);
    for (const std::string& axis : schedule.order.axes) check(axis);
    for (const auto& [param, value] : schedule.tile) {
      const auto& params = program->tile_params;
      EXPECT_NE(std::find(params.begin(), params.end(), param), params.end())
          << schedule.name << ": " << param << " = " << value;
    }
  }
}

}  // namespace
}  // namespace rooftile
