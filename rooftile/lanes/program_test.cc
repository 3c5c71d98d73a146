// SPDX-License-Identifier: Apache-2.0
// Placing, verifying, printing and unrolling of small programs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "rooftile/lanes/lanes.h"
#include "rooftile/lanes/testing/wgmma_gemm.h"

namespace rooftile::lanes {
namespace {

using ::testing::HasSubstr;

// y[i] = x[i] for four elements a thread.
Program copy_program() {
  Program p;
  p.name = "copy";
  p.tensors = {{.name = "x", .dtype = DType::kF32, .shape = {Expr::sym("N")}, .read = true},
               {.name = "y", .dtype = DType::kF32, .shape = {Expr::sym("N")}, .written = true}};
  p.scalars = {{"N", Ty::kI32}};
  Instr load;
  load.global = {"x", {var(Ty::kI32, "i")}, 4};
  load.results = {{"v", 0, 4}};
  load.guard = var(Ty::kI32, "i") < param(Ty::kI32, "N");
  Instr store = load;
  store.ins = Ins::kStGlobal;
  store.global.tensor = "y";
  store.regs = std::move(store.results);
  store.results = {};
  p.body = {decl(Ty::kI32, "i", special(Special::kTid) * 4), decl_array(Ty::kF32, "v", 4),
            instr(load), instr(store)};
  return p;
}

Instr& first_instr(Program& p) { return p.body[2].instr; }

std::string refusal(const Program& p) {
  const Status status = verify(p);
  EXPECT_FALSE(status.ok());
  if (status.ok()) return "";
  EXPECT_EQ(status.diag().code, ErrorCode::kLanes);
  return status.str();
}

TEST(LanesVerify, AcceptsAWholeKernel) {
  EXPECT_TRUE(verify(copy_program()).ok()) << verify(copy_program()).str();
  for (const int bn : {8, 64, 256}) {
    const Result<Program> gemm = testing::wgmma_gemm({.bn = bn, .stages = 2});
    EXPECT_TRUE(gemm.ok()) << gemm.status().str();
  }
}

TEST(LanesVerify, NamesTheRegisterThatIsNotInScope) {
  Program p = copy_program();
  p.body.push_back(if_(pred(true), {decl(Ty::kI32, "inner", 1)}));
  p.body.push_back(assign("inner", 2));
  const std::string text = refusal(p);
  EXPECT_THAT(text, HasSubstr("RT-P003"));
  EXPECT_THAT(text, HasSubstr("`inner`"));
  EXPECT_THAT(text, HasSubstr("in `inner = 2`"));
}

TEST(LanesVerify, RefusesASecondDeclarationInScope) {
  Program p = copy_program();
  p.body.push_back(if_(pred(true), {decl(Ty::kI32, "i", 1)}));
  EXPECT_THAT(refusal(p), HasSubstr("already in scope"));
}

TEST(LanesVerify, RefusesTypesThatDisagree) {
  Program p = copy_program();
  p.body.push_back(assign("i", f32(1)));
  EXPECT_THAT(refusal(p), HasSubstr("f32 1.0f"));
  p.body.back() = assign("i", fn(Fn::kAdd, {var(Ty::kI32, "i"), f32(1)}));
  EXPECT_THAT(refusal(p), HasSubstr("add does not take (i32, f32)"));
  p.body.back() = assign("i", var(Ty::kI32, "v"));
  EXPECT_THAT(refusal(p), HasSubstr("used whole"));
}

TEST(LanesVerify, RefusesRegistersOutsideTheirArray) {
  Program p = copy_program();
  p.body.push_back(for_("k", 0, 5, 1, {assign("v", var(Ty::kI32, "k"), f32(0))}, Unroll::kYes));
  EXPECT_THAT(refusal(p), HasSubstr("registers outside array `v`"));
  p.body.back().end = 4;
  EXPECT_TRUE(verify(p).ok()) << verify(p).str();
  p.body.back().unroll = Unroll::kNo;
  EXPECT_THAT(refusal(p), HasSubstr("not constant after unrolling"));
}

TEST(LanesVerify, RefusesUnrolledLoopsOfUnknownLength) {
  Program p = copy_program();
  p.body.push_back(for_("k", 0, param(Ty::kI32, "N"), 1, {}, Unroll::kYes));
  EXPECT_THAT(refusal(p), HasSubstr("bounds of an unrolled loop"));
}

TEST(LanesVerify, ChecksOperandsOfInstructions) {
  Program p = copy_program();
  first_instr(p).results[0].count = 3;
  EXPECT_THAT(refusal(p), HasSubstr("register operand 0 of ld.global"));
  p = copy_program();
  first_instr(p).global.index.clear();
  EXPECT_THAT(refusal(p), HasSubstr("another number of indices"));
  p = copy_program();
  first_instr(p).global.width = 3;
  EXPECT_THAT(refusal(p), HasSubstr("ld.global of this size does not exist"));
  p = copy_program();
  first_instr(p).dtype = DType::kBf16;
  EXPECT_THAT(refusal(p), HasSubstr("accessed as another dtype"));
  p = copy_program();
  first_instr(p).global.tensor = "z";
  EXPECT_THAT(refusal(p), HasSubstr("no such tensor"));
  p = copy_program();
  first_instr(p).args = {1};
  EXPECT_THAT(refusal(p), HasSubstr("another number of arguments"));
  p = copy_program();
  p.tensors[1].written = false;
  EXPECT_THAT(refusal(p), HasSubstr("`y` is written"));
}

TEST(LanesVerify, ChecksShapesOfProducts) {
  Program p = copy_program();
  Instr product;
  product.ins = Ins::kWgmma;
  product.dtype = DType::kF8E4M3;
  product.n = 8;
  const Val descriptor = fn(Fn::kMatrixDesc, {int_val(Ty::kU32, 0), 16, 1024, 3});
  product.args = {int_val(Ty::kU32, 0), descriptor, descriptor};
  product.regs = {{"v", 0, 4}};
  p.body.push_back(instr(product));
  EXPECT_TRUE(verify(p).ok()) << verify(p).str();
  p.body.back().instr.trans_b = true;
  EXPECT_THAT(refusal(p), HasSubstr("K-major only"));
  p.body.back().instr.trans_b = false;
  p.body.back().instr.n = 12;
  EXPECT_THAT(refusal(p), HasSubstr("12"));
}

TEST(LanesVerify, ChecksDeclarations) {
  Program p = copy_program();
  p.scalars.push_back({"x.s3", Ty::kI64});
  EXPECT_THAT(refusal(p), HasSubstr("stride of no dimension"));
  p = copy_program();
  p.maps = {{.name = "m", .tensor = "x", .box = {64}, .swizzle = Swizzle::k128}};
  EXPECT_THAT(refusal(p), HasSubstr("256 bytes"));
  p.maps[0].box = {32};
  EXPECT_TRUE(verify(p).ok()) << verify(p).str();
  p.shared = {{.name = "bars", .bytes = 12, .align = 8, .barriers = true}};
  EXPECT_THAT(refusal(p), HasSubstr("mbarriers `bars`"));
}

TEST(LanesPlanShared, AlignsInOrderAndRefusesTooMuch) {
  Program p = copy_program();
  p.shared = {{.name = "small", .bytes = 8, .align = 8},
              {.name = "tile", .bytes = 4096, .align = 1024},
              {.name = "bars", .bytes = 16, .align = 8}};
  ASSERT_TRUE(plan_shared(p).ok());
  EXPECT_EQ(p.shared[1].offset, 1024);
  EXPECT_EQ(p.shared[2].offset, 5120);
  EXPECT_EQ(p.shared_bytes, 5136);
  const Status refused = plan_shared(p, 5000);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.diag().code, ErrorCode::kPlacement);
  EXPECT_THAT(refused.str(), HasSubstr("5136 bytes: small 8, tile 4096, bars 16"));
}

TEST(LanesPrint, OneStatementALine) {
  EXPECT_EQ(print(copy_program()),
            "kernel copy: 128 threads, grid [1, 1, 1], at least 1 a multiprocessor\n"
            "  tensor x f32[N] read align 1\n"
            "  tensor y f32[N] written align 1\n"
            "  param i32 N\n"
            "  i32 i = tid * 4\n"
            "  f32 v[4]\n"
            "  v[0 +: 4] = ld.global x[i] x 4, f32  if i < N\n"
            "  st.global y[i] x 4, v[0 +: 4], f32  if i < N\n");
}

TEST(LanesPrint, ShowsRingsAndProducts) {
  const std::string text = print(*testing::wgmma_gemm());
  EXPECT_THAT(text, HasSubstr("shared ring_b 16384 bytes align 1024 at 16384"));
  EXPECT_THAT(text, HasSubstr("map map_a of a box [64, 64] swizzle 128B promote 256B"));
  EXPECT_THAT(text, HasSubstr("tma.load map_a, &ring_a + u32(stage) * 8192u, &full + u32(stage) * "
                              "8u, kb * 64, m0, bytes=8192"));
  EXPECT_THAT(text, HasSubstr("for kk = 0 .. 4, unrolled {"));
}

TEST(LanesUnrolled, CopiesGetNamesOfTheirOwn) {
  Program p = copy_program();
  const Val k = var(Ty::kI32, "k"), t = var(Ty::kF32, "t");
  const auto loop = [&] {
    return for_("k", 0, 4, 2, {decl(Ty::kF32, "t", elem(Ty::kF32, "v", k)), assign("v", k + 1, t)},
                Unroll::kYes);
  };
  p.body.push_back(loop());
  p.body.push_back(loop());
  const Program flat = unrolled(p);
  EXPECT_TRUE(verify(flat).ok()) << verify(flat).str();
  EXPECT_THAT(print(flat), HasSubstr("  f32 t.0 = v[0]\n"
                                     "  v[1] = t.0\n"
                                     "  f32 t.1 = v[2]\n"
                                     "  v[3] = t.1\n"
                                     "  f32 t.2 = v[0]\n"));
}

TEST(LanesUnrolled, KnownBranchesAreTaken) {
  Program p = copy_program();
  const Val k = var(Ty::kI32, "k");
  p.body.push_back(for_("k", 0, 2, 1,
                        {if_(equal(k, 0), {assign("i", 7)},
                             {for_("j", k, param(Ty::kI32, "N"), 1, {assign("i", k)})})},
                        Unroll::kYes));
  EXPECT_THAT(print(unrolled(p)), HasSubstr("  i = 7\n"
                                            "  for j = 1 .. N {\n"
                                            "    i = 1\n"
                                            "  }\n"));
}

}  // namespace
}  // namespace rooftile::lanes
