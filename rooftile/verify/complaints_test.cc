// SPDX-License-Identifier: Apache-2.0
// What users of tile compilers complained of, the second half: rebuilt as small programs that are
// refuted, or as attempts that are turned down. The first half, of barriers and rings, is in
// protocol/complaints_test.cc; the table is in docs/proofs.md. The numbers are issues of TileLang.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <set>

#include "rooftile/check/case_inputs.h"
#include "rooftile/compile/schedule_change.h"
#include "rooftile/emulate/testing/build.h"
#include "rooftile/verify/arith/arithmetic.h"
#include "rooftile/verify/lane_contract.h"
#include "rooftile/verify/parts.h"
#include "rooftile/verify/replay_code.h"
#include "rooftile/verify/shipped.h"
#include "rooftile/verify/testing/tile_mutants.h"
#include "rooftile/verify/tile/prove_tile.h"
#include "rooftile/verify/tile/replay.h"

namespace rooftile::verify {
namespace {

using emulate::testing::dim;
using emulate::testing::i32;
using emulate::testing::ins;
using emulate::testing::tid;
using lanes::Fn;
using lanes::Ins;
using lanes::Ty;
using lanes::Val;
using lanes::ValKind;
using ::testing::HasSubstr;
using ::testing::Not;

struct Kernel {
  const OpDef* op = nullptr;
  const KernelDef* kernel = nullptr;
  RefCall call;
  Schedule schedule;
};

// The first kernel of the tile route for a call.
Kernel kernel_for(const char* op_name, const std::string& text) {
  Kernel out;
  out.op = find_op(op_name);
  const auto call = check::resolve_case(*out.op, *check::parse_case(text));
  EXPECT_TRUE(call.ok()) << call.diag().str();
  out.call = *call;
  out.kernel = out.op->candidates(call->config, call->dims, sm90_target(), Route::kTile).front();
  out.schedule = out.kernel->schedule(call->config, call->dims, sm90_target());
  return out;
}

Result<KernelSource> lowered(const Kernel& k, const std::string& changes = "") {
  Schedule schedule = k.schedule;
  RT_RETURN_IF_ERROR(change_schedule(schedule, changes));
  return generate(*k.op, *k.kernel, k.call.config, k.call.dims, sm90_target(), &schedule,
                  Route::kTile);
}

const Finding* refuted(const std::vector<Finding>& findings, Kind kind) {
  for (const Finding& f : findings)
    if (f.kind == kind && f.verdict == Verdict::kRefuted) return &f;
  return nullptr;
}

// ---- #2522, #2593, PR #2965: products of N = 8 mod 16 read with the wrong strides

// Descriptors whose stride between groups of eight rows, or between columns, is another.
Val restrided(const Val& v, size_t arg) {
  if (!v.present() || v->kind != ValKind::kFn) return v;
  std::vector<Val> args;
  for (const Val& a : v->args) args.push_back(restrided(a, arg));
  if (v->fn == Fn::kMatrixDesc) args[arg] = args[arg] + lanes::int_val(args[arg].type(), 512);
  return lanes::fn(v->fn, v.type(), std::move(args));
}
void restride(lanes::Body& body, size_t arg) {
  for (lanes::Stmt& s : body) {
    if (s.kind == lanes::StmtKind::kInstr && s.instr.ins == Ins::kWgmma)
      for (Val& v : s.instr.args) v = restrided(v, arg);
    restride(s.body, arg);
    restride(s.orelse, arg);
  }
}

TEST(Complaints, ProductsOfEightColumnsWithTheWrongStride) {
  const Result<KernelSource> source = lowered(kernel_for("gemm", "M=5 N=72 K=200"));
  ASSERT_TRUE(source.ok()) << source.diag().str();
  const auto told = [](const KernelSource& s) {
    return prove_lanes(s.variants[0].phases[0], lane_contract(s.variants[0], 0));
  };
  EXPECT_EQ(refuted(told(*source), Kind::kFragments), nullptr);
  KernelSource wrong = *source;
  restride(wrong.variants[0].phases[0].body, 2);
  const std::vector<Finding> findings = told(wrong);
  const Finding* finding = refuted(findings, Kind::kFragments);
  ASSERT_NE(finding, nullptr);
  const Replay replay = replay_code(wrong, 0, 0, *finding);
  EXPECT_TRUE(replay.shown) << replay.what;
}

// ---- #2979, #2560: the end of a region is not looked at; a constant index wraps

TEST(Complaints, RegionsThatEndOutside) {
  const Result<KernelSource> source = lowered(kernel_for("rms_norm", "T=3 H=520"));
  ASSERT_TRUE(source.ok());
  int told = 0;
  for (const testing::TileMutant& mutant : testing::tile_mutants(source->tiles)) {
    if (mutant.kind != "bound one off") continue;
    const std::vector<Finding> findings = prove_tile(mutant.program);
    const Finding* finding = refuted(findings, Kind::kTileBounds);
    ASSERT_NE(finding, nullptr) << mutant.site;
    const auto shown = replay(mutant.program, finding->example.call);
    ASSERT_TRUE(shown) << mutant.site;
    EXPECT_EQ(shown->diag().code, ErrorCode::kOutOfBounds) << shown->str();
    ++told;
  }
  EXPECT_GE(told, 3);
}

TEST(Complaints, ConstantIndicesThatWrap) {
  for (const bool wide : {false, true}) {
    lanes::Program p;
    p.name = "wraps";
    p.tensors = {{.name = "x", .dtype = DType::kF32, .shape = {Expr::sym("X")}, .written = true}};
    p.scalars = {{"X", Ty::kI32}};
    p.threads = 32;
    const Ty type = wide ? Ty::kI64 : Ty::kI32;
    const Val far = lanes::cast(type, tid()) + lanes::int_val(type, INT32_MAX);
    const Val inside = lanes::var(type, "i") < lanes::cast(type, dim("X"));
    p.body = {lanes::decl(type, "i", far), lanes::decl(Ty::kF32, "v", lanes::f32(1)),
              ins(Ins::kStGlobal,
                  {.regs = {{"v"}}, .global = {"x", {lanes::var(type, "i")}, 1}, .guard = inside})};
    const Status status = lanes::verify(p);
    ASSERT_TRUE(status.ok()) << status.str();
    const Finding* wraps = refuted(prove_lanes(p, {}), Kind::kLaneOverflow);
    EXPECT_EQ(wraps != nullptr, !wide);
  }
}

// ---- #1465: compiling got slow once a solver was asked

// It cannot: what compiles asks no prover, and a prover that is asked works under a budget.
TEST(Complaints, CompilingAsksNoSolver) {
  const Kernel k = kernel_for("gemm", "M=16 N=4096 K=4096");
  const Result<KernelSource> before = lowered(k);
  ASSERT_TRUE(before.ok());
  (void)prove_here(*before);
  const Result<KernelSource> after = lowered(k);
  ASSERT_TRUE(after.ok());
  EXPECT_EQ(code_hash(*before), code_hash(*after));

  // Nonlinear, over three unknowns: no solver settles it soon.
  const Expr x = Expr::sym("x"), y = Expr::sym("y"), z = Expr::sym("z");
  Arithmetic arithmetic;
  for (const Expr& e : {x, y, z}) arithmetic.assume(Expr(1) <= e);
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_NE(arithmetic.prove(x * x * x + y * y * y != z * z * z).verdict, Verdict::kRefuted);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  EXPECT_LT(took.count(), 60);
}

// ---- #1552: paged decode, other CUDA each time and other numbers

TEST(Complaints, PagesThatAreNotThere) {
  const Kernel k = kernel_for("attention_decode",
                              "B=2 P=8 S=16 MP=3 block_table=1 kv_layout=paged Hq=2 Hkv=1 D=64");
  const Result<KernelSource> source = lowered(k), again = lowered(k);
  ASSERT_TRUE(source.ok() && again.ok());
  EXPECT_EQ(source->kernel_text, again->kernel_text);
  int told = 0;
  for (const testing::TileMutant& mutant : testing::tile_mutants(source->tiles)) {
    if (mutant.kind != "clause missing" || mutant.site.find("page") == std::string::npos) continue;
    const std::vector<Finding> findings = prove_tile(mutant.program);
    const Finding* finding = refuted(findings, Kind::kTileBounds);
    if (finding == nullptr) continue;
    const auto shown = replay(mutant.program, finding->example.call);
    EXPECT_TRUE(shown && !shown->ok()) << mutant.site;
    ++told;
  }
  EXPECT_GE(told, 1);
}

// ---- #1069, #1535, vllm PR #47807: sizes that change hang, or compile again

// A kernel is of a config and a schedule; sizes are arguments. (What hangs: lanes.live, for any
// trip count.)
TEST(Complaints, SizesAreArguments) {
  std::set<std::string> texts;
  for (int tokens = 1000; tokens < 1040; ++tokens) {
    const Result<KernelSource> source =
        lowered(kernel_for("rms_norm", "T=" + std::to_string(tokens) + " H=4096"));
    ASSERT_TRUE(source.ok());
    texts.insert(code_hash(*source));
  }
  EXPECT_EQ(texts.size(), 1U);
}

// ---- #2929: a wait for all copies at once made a multicast slow

// Waits are the lowering's, one a slot and ring; a schedule has no word that fuses them.
TEST(Complaints, WaitsCannotBeFused) {
  Schedule schedule = kernel_for("gemm", "M=1024 N=1024 K=4096").schedule;
  for (const char* wish : {"wait=fused", "barrier=shared", "waits=1"})
    EXPECT_EQ(change_schedule(schedule, wish).diag().code, ErrorCode::kSchedule) << wish;
}

// ---- #1165, #1374, #2547: layouts that conflict are told as formulas

TEST(Complaints, LayoutConflictsAreToldInWords) {
  const Kernel k = kernel_for("gemm", "M=1024 N=1024 K=4096");
  // Rows of 48 bytes fit no layout that products read; a staged store wants rows of 128 bytes.
  for (const char* wish : {"BK=24", "staging=32x2"}) {
    const Result<KernelSource> source = lowered(k, wish);
    ASSERT_FALSE(source.ok()) << wish;
    const std::string text = source.diag().str();
    EXPECT_THAT(text, Not(::testing::ContainsRegex("[%^]|//|>>|<<|floordiv|floormod"))) << text;
    EXPECT_FALSE(source.diag().expected.empty() && source.diag().fix.empty()) << text;
  }
}

// ---- #2184, #917, #596, #1907: specialisation that is silently not applied

TEST(Complaints, RolesThatCannotBeHadAreRefused) {
  const Kernel k = kernel_for("gemm", "M=1024 N=1024 K=4096");
  const auto with = [&](const std::function<void(Schedule&)>& change) {
    Schedule schedule = k.schedule;
    change(schedule);
    return generate(*k.op, *k.kernel, k.call.config, k.call.dims, sm90_target(), &schedule,
                    Route::kTile);
  };
  ASSERT_GE(k.schedule.gpu.roles.size(), 2U);
  const Result<KernelSource> unknown =
      with([](Schedule& s) { s.gpu.roles[0].runs.push_back("nothing of this name"); });
  ASSERT_FALSE(unknown.ok());
  EXPECT_THAT(unknown.diag().str(), HasSubstr("nothing of this name"));
  // Applied, it shows: copies and products are those of different warps.
  const Result<KernelSource> source = lowered(k);
  ASSERT_TRUE(source.ok());
  ASSERT_NE(source->variants[0].placed[0], nullptr);
  EXPECT_FALSE(source->variants[0].placed[0]->placed.rings.empty());
}

}  // namespace
}  // namespace rooftile::verify
