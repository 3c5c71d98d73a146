// SPDX-License-Identifier: Apache-2.0
// Placing: which values live where, which row loops and passes there are, and what is refused.
#include "rooftile/codegen/cpu/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "rooftile/codegen/cpu/emit_cpu.h"
#include "rooftile/dsl/dsl.h"

namespace rooftile {
namespace {

using dsl::all;
using dsl::Index;
using dsl::Kernel;
using dsl::Tile;
using ::testing::HasSubstr;
using ::testing::Not;

ir::TensorParam tensor(std::string name, DType dtype, std::vector<Expr> shape, ir::Role role) {
  ir::TensorParam t;
  t.name = std::move(name);
  t.dtype = dtype;
  t.shape = std::move(shape);
  t.role = role;
  return t;
}

// Rows of x [T, H] to out; `out` may be x itself when `in_place`.
ir::Program rows(const std::function<void(Kernel&, Index)>& body, bool in_place = false) {
  const Expr T = Expr::sym("T"), H = Expr::sym("H");
  ir::Program interface;
  interface.name = "rows";
  interface.tensors = {tensor("out", DType::kBf16, {T, H}, ir::Role::kOut),
                       tensor("x", DType::kBf16, {T, H}, ir::Role::kIn)};
  if (in_place) interface.tensors[0].may_alias = {"x"};
  Kernel k(interface);
  k.tiles({"row", k.dim("T")}, [&](Index row) { body(k, row); });
  auto program = k.finish();
  EXPECT_TRUE(program.ok()) << program.diag().str();
  return *program;
}

std::string planned(const ir::Program& program, const Schedule& schedule = {}) {
  auto plan = codegen::Plan::make(program, schedule);
  EXPECT_TRUE(plan.ok()) << (plan.ok() ? "" : plan.diag().str());
  return plan.ok() ? plan->str() : "";
}

void softmax(Kernel& k, Index row) {
  Tile x = k.load(k["x"](row, all), "x");
  Tile e = exp(x - reduce_max(x)).named("e");
  k.store(k["out"](row, all), e / sum(e));
}

TEST(Plan, ExpensiveValuesOfTwoPassesAreKept) {
  const std::string text = planned(rows(softmax));
  EXPECT_THAT(text, HasSubstr("keep %"));
  EXPECT_THAT(text, HasSubstr("\"e\" -> b0_keep"));
  EXPECT_THAT(text, HasSubstr("pass 2: store"));
}

TEST(Plan, RecomputeOverridesKeep) {
  Schedule schedule;
  schedule.recompute = {"e"};
  EXPECT_THAT(planned(rows(softmax), schedule), Not(HasSubstr("buffer")));
}

TEST(Plan, CheapValuesAreRecomputed) {
  const auto program = rows([](Kernel& k, Index row) {
    Tile x = k.load(k["x"](row, all), "x") * 2.0;
    k.store(k["out"](row, all), x * rsqrt(sum(x * x)));
  });
  EXPECT_THAT(planned(program), Not(HasSubstr("buffer")));
}

TEST(Plan, InPlaceRowsNeedNoCopyWhenReadInTime) {
  const auto program = rows(
      [](Kernel& k, Index row) {
        Tile x = k.load(k["x"](row, all), "x");
        k.store(k["out"](row, all), x * rsqrt(sum(x * x)));
      },
      true);
  EXPECT_THAT(planned(program), Not(HasSubstr("buffer")));
}

TEST(Plan, ValuesReadAfterTheyAreOverwrittenAreCopied) {
  const auto program = rows(
      [](Kernel& k, Index row) {
        Tile x = k.load(k["x"](row, all), "x");
        k.store(k["out"](row, all), x + 1.0);
        k.store(k["out"](row, all), x * sum(x));  // needs x again, a pass later
      },
      true);
  EXPECT_THAT(planned(program), HasSubstr("b0_read"));
}

TEST(Plan, UnfusedKeepsEveryValue) {
  Schedule schedule;
  schedule.fuse = false;
  const std::string fused = planned(rows(softmax)), unfused = planned(rows(softmax), schedule);
  EXPECT_GT(std::count(unfused.begin(), unfused.end(), '\n'),
            std::count(fused.begin(), fused.end(), '\n'));
  EXPECT_THAT(unfused, HasSubstr("keep %"));
}

// One step of attention: q [M, D] against keys in blocks of BN.
ir::Program attention() {
  const Expr M = Expr::sym("M"), S = Expr::sym("S"), D = Expr::sym("D");
  ir::Program interface;
  interface.name = "attention";
  interface.tensors = {tensor("o", DType::kBf16, {M, D}, ir::Role::kOut),
                       tensor("q", DType::kBf16, {M, D}, ir::Role::kIn),
                       tensor("k", DType::kBf16, {S, D}, ir::Role::kIn),
                       tensor("v", DType::kBf16, {S, D}, ir::Role::kIn)};
  Kernel k(interface);
  k.tiles({"i", ceil_div(M, Expr(16))}, [&](Index i) {
    const auto block = dsl::block(i, 16, M);
    Tile q = k.load(k["q"](block, all), "q");
    auto state = k.loop(
        "j", 0, S, 32,
        {k.zeros({block.extent, D}), k.full({block.extent, 1}, -1e30), k.zeros({block.extent, 1})},
        [&](Index j, std::vector<Tile> s) {
          const auto keys = dsl::range(j, min(Expr(32), S - j));
          Tile score = mma(q, k.load(k["k"](keys, all), "k").t(), "qk");
          Tile m = max(s[1], reduce_max(score, 1));
          Tile p = exp2(score - m), shrink = exp2(s[1] - m);
          Tile o = mma(p.to(DType::kBf16), k.load(k["v"](keys, all), "v"), s[0] * shrink, "pv");
          return std::vector<Tile>{o, m, s[2] * shrink + sum(p, 1)};
        });
    k.store(k["o"](block, all), state[0] / state[2]);
  });
  auto program = k.finish();
  EXPECT_TRUE(program.ok()) << program.diag().str();
  return *program;
}

TEST(Plan, OnlineSoftmaxIsOneRowLoopBetweenItsProducts) {
  const std::string text = planned(attention());
  // Between the two products: one group, in which the sum of the probabilities shares the pass that
  // makes them.
  const size_t first = text.find("product %"), second = text.find("product %", first + 1);
  const std::string between = text.substr(first, second - first);
  EXPECT_EQ(between.find("rows ["), between.rfind("rows [")) << text;
  EXPECT_THAT(between, HasSubstr("reduce"));
  EXPECT_THAT(between, HasSubstr("=> b"));  // m and l are replaced when the row is done
  EXPECT_THAT(text.substr(second),
              Not(HasSubstr("copy")));  // the output is scaled and summed where it is
}

// What each of `parts` is found after the one before it.
void expect_in_order(const std::string& text, const std::vector<std::string>& parts) {
  size_t at = 0;
  for (const std::string& part : parts) {
    at = text.find(part, at);
    ASSERT_NE(at, std::string::npos) << part << " in\n" << text;
    at += part.size();
  }
}

Result<codegen::CpuKernelText> emitted(const ir::Program& program, const Schedule& schedule) {
  TargetInfo target;
  return codegen::emit_cpu(program, "probe", schedule, target);
}

TEST(Gang, MembersTakeTurnsInsideTheLoop) {
  Schedule schedule;
  schedule.gang = {{"i", 4}};
  EXPECT_THAT(planned(attention(), schedule), HasSubstr("4 of i in step"));
  EXPECT_EQ(schedule.str(), "gang(i=4)");
  auto text = emitted(attention(), schedule);
  ASSERT_TRUE(text.ok()) << text.diag().str();
  const std::string members = "for (i64 member = 0; member < members; member++)";
  expect_in_order(text->text, {members, "for (i64 s_j = 0l", members, members});
  // What the loop carries, and the packed query, exist once a member; scores and keys do not.
  expect_in_order(text->text, {"(scratch + lay.at_", "qk", "(own + lay.at_b0_j0)"});
  EXPECT_THAT(text->text, Not(HasSubstr("(own + lay.at_b3_qk)")));
}

// The rows of x summed up to `end`. The state is a row, or one number; `scaled`: divided by a sum
// that is taken before the loop.
Result<codegen::CpuKernelText> ganged(const Expr& end, bool scalar_state, bool scaled = false) {
  const Expr T = Expr::sym("T"), H = Expr::sym("H");
  ir::Program interface;
  interface.name = "running_sum";
  interface.tensors = {tensor("out", DType::kF32, {T, H}, ir::Role::kOut),
                       tensor("x", DType::kF32, {T, H}, ir::Role::kIn)};
  Kernel k(interface);
  k.tiles({"row", T}, [&](Index row) {
    const std::vector<Expr> shape = scalar_state ? std::vector<Expr>{1} : std::vector<Expr>{H};
    Tile total = sum(k.load(k["x"](row, all)), 0) + 1.0;
    auto state = k.loop("j", 0, end, 1, {k.zeros(shape)}, [&](Index, std::vector<Tile> s) {
      Tile x = k.load(k["x"](row, all), "x");
      return std::vector<Tile>{s[0] + (scalar_state ? sum(x, 0) : x)};
    });
    Tile result = k.load(k["x"](row, all)) + state[0];
    k.store(k["out"](row, all), scaled ? result / total : result);
  });
  auto program = k.finish();
  EXPECT_TRUE(program.ok()) << program.diag().str();
  Schedule schedule;
  schedule.gang = {{"row", 2}};
  return emitted(*program, schedule);
}

// In each iteration a member keeps "mine", all keep "page" beside it, and "next" is made of "page".
Result<codegen::CpuKernelText> ganged_pages(bool beside_mine) {
  const Expr T = Expr::sym("T"), H = Expr::sym("H");
  ir::Program interface;
  interface.name = "pages";
  interface.tensors = {tensor("out", DType::kF32, {T, H}, ir::Role::kOut),
                       tensor("x", DType::kF32, {T, H}, ir::Role::kIn)};
  Kernel k(interface);
  k.tiles({"row", T}, [&](Index row) {
    auto state = k.loop("j", 0, 3, 1, {k.zeros({H, 2})}, [&](Index j, std::vector<Tile> s) {
      Tile page = k.load(k["x"](dsl::range(j, 1), all), "page");
      Tile mine = k.load(k["x"](dsl::range(row, 1), all), "mine");
      Tile next = (page + k.zeros({2, H})).named("next");
      return std::vector<Tile>{s[0] + (next + mine).t()};
    });
    k.store(k["out"](dsl::range(row, 1), all), sum(state[0], 1).t());
  });
  auto program = k.finish();
  EXPECT_TRUE(program.ok()) << program.diag().str();
  Schedule schedule;
  schedule.gang = {{"row", 2}};
  schedule.keep = {"page", "next"};
  if (beside_mine) schedule.keep.push_back("mine");
  return emitted(*program, schedule);
}

TEST(Gang, WhatReadsAMembersScratchStaysWithTheMembers) {
  auto before_members = [](const Result<codegen::CpuKernelText>& text) -> std::string {
    EXPECT_TRUE(text.ok()) << text.diag().str();
    if (!text.ok()) return "";
    const size_t loop = text->text.find("for (i64 s_j = 0l");
    const size_t members = text->text.find("for (i64 member = 0;", loop);
    return text->text.substr(loop, members - loop);
  };
  EXPECT_THAT(before_members(ganged_pages(false)), HasSubstr("_next"));
  EXPECT_THAT(before_members(ganged_pages(true)), Not(HasSubstr("_next")));
}

void expect_refused(const Result<codegen::CpuKernelText>& text, ErrorCode code,
                    const std::string& why) {
  ASSERT_FALSE(text.ok());
  EXPECT_EQ(text.diag().code, code);
  EXPECT_THAT(text.diag().str(), HasSubstr(why));
}

TEST(Gang, RefusalsNameTheCondition) {
  EXPECT_TRUE(ganged(3, false).ok());
  expect_refused(ganged(Expr::sym("row"), false), ErrorCode::kPlacement, "`j` depends on row");
  expect_refused(ganged(3, true), ErrorCode::kPlacement, "carries a scalar");
  expect_refused(ganged(3, false, true), ErrorCode::kPlacement, "taken before the loop");
  Schedule schedule;
  schedule.gang = {{"row", 2}};
  expect_refused(emitted(rows(softmax), schedule), ErrorCode::kPlacement, "no serial loop");
  schedule.gang = {{"column", 2}};
  expect_refused(emitted(rows(softmax), schedule), ErrorCode::kSchedule, "column");
  schedule.gang = {{"row", 0}};
  expect_refused(emitted(rows(softmax), schedule), ErrorCode::kPlacement, "no members");
}

TEST(Direct, OperandsOfAmxProductsAreReadWhereTheyLie) {
  TargetInfo amx;
  amx.isa = "avx512";
  amx.amx_bf16 = amx.avx512_bf16 = true;
  Schedule schedule;
  schedule.operand = {{"k", OperandForm::kDirect}, {"v", OperandForm::kDirect}};
  auto text = codegen::emit_cpu(attention(), "probe", schedule, amx);
  ASSERT_TRUE(text.ok()) << text.diag().str();
  EXPECT_THAT(text->text, HasSubstr("  mm_amx_bf16_rows_t("));
  EXPECT_THAT(text->text, HasSubstr("  mm_amx_bf16_rows_n("));
  EXPECT_THAT(text->text, Not(HasSubstr("pack_word_row<bf16>(")));
  schedule.operand = {{"q", OperandForm::kDirect}};
  expect_refused(codegen::emit_cpu(attention(), "probe", schedule, amx), ErrorCode::kPlacement,
                 "the left operand");
}

TEST(Placement, UnknownLabelsAreRefused) {
  Schedule schedule;
  schedule.keep = {"nothing"};
  auto text = emitted(rows(softmax), schedule);
  ASSERT_FALSE(text.ok());
  EXPECT_EQ(text.diag().code, ErrorCode::kSchedule);
  EXPECT_THAT(text.diag().str(), HasSubstr("nothing"));
  schedule = {};
  schedule.operand = {{"weights", OperandForm::kPack}};
  text = emitted(attention(), schedule);
  ASSERT_FALSE(text.ok());
  EXPECT_EQ(text.diag().code, ErrorCode::kSchedule);
}

TEST(Placement, AskingForWhatTheTargetLacksIsRefused) {
  Schedule schedule;
  schedule.mma = {{"qk", MmaMechanism::kAmx}};
  auto text = emitted(attention(), schedule);  // the generic target has no AMX
  ASSERT_FALSE(text.ok());
  EXPECT_EQ(text.diag().code, ErrorCode::kPlacement);
  EXPECT_THAT(text.diag().str(), HasSubstr("kAuto"));
  schedule = {};
  schedule.operand = {{"k", OperandForm::kDirect}};
  text = emitted(attention(), schedule);
  ASSERT_FALSE(text.ok());
  EXPECT_EQ(text.diag().code, ErrorCode::kPlacement);
}

TEST(Placement, PackedOperandsMustBeAddressedInWholePanels) {
  Schedule schedule;
  schedule.operand = {
      {"v", OperandForm::kPrepacked}};  // the left dimension of v is summed: blocks of 32 are fine
  EXPECT_TRUE(emitted(attention(), schedule).ok());
  const Expr M = Expr::sym("M"), N = Expr::sym("N"), K = Expr::sym("K");
  ir::Program interface;
  interface.name = "product";
  interface.tensors = {tensor("d", DType::kF32, {M, N}, ir::Role::kOut),
                       tensor("a", DType::kF32, {M, K}, ir::Role::kIn),
                       tensor("b", DType::kF32, {N, K}, ir::Role::kIn)};
  Kernel k(interface);
  k.tiles({"j", ceil_div(N, Expr(20))}, [&](Index j) {  // 20 columns: not a multiple of a panel
    const auto columns = dsl::block(j, 20, N);
    k.store(k["d"](all, columns),
            mma(k.load(k["a"](all, all), "a"), k.load(k["b"](columns, all), "b").t(), "mm"));
  });
  auto program = k.finish();
  ASSERT_TRUE(program.ok()) << program.diag().str();
  schedule.operand = {{"b", OperandForm::kPrepacked}};
  auto text = emitted(*program, schedule);
  ASSERT_FALSE(text.ok());
  EXPECT_THAT(text.diag().str(), HasSubstr("j * 20"));
}

// One block of rows of head h of b [T, heads, K], transposed, against all of a [M, K].
Result<codegen::CpuKernelText> heads_ahead(const dsl::Range& rows) {
  const Expr M = Expr::sym("M"), T = Expr::sym("T"), H = Expr::sym("H"), K = Expr::sym("K");
  ir::Program interface;
  interface.name = "heads";
  interface.tensors = {tensor("d", DType::kF32, {M, H, T}, ir::Role::kOut),
                       tensor("a", DType::kF32, {M, K}, ir::Role::kIn),
                       tensor("b", DType::kF32, {T, H, K}, ir::Role::kIn)};
  Kernel k(interface);
  k.tiles({"h", H}, [&](Index h) {
    k.store(k["d"](all, h, rows),
            mma(k.load(k["a"](all, all), "a"), k.load(k["b"](rows, h, all), "b").t(), "mm"));
  });
  auto program = k.finish();
  EXPECT_TRUE(program.ok()) << program.diag().str();
  Schedule schedule;
  schedule.operand = {{"b", OperandForm::kAhead}};
  return emitted(*program, schedule);
}

TEST(Placement, EveryHeadIsPackedAheadIntoPanelsOfItsOwn) {
  auto text = heads_ahead(dsl::range(64, 20));
  ASSERT_TRUE(text.ok()) << text.diag().str();
  expect_in_order(text->text, {"collapse(2)", "pack_columns<", "mm_fma_f32(", "ahead_b_part"});
  text = heads_ahead(dsl::range(20, 64));  // begins inside a panel
  ASSERT_FALSE(text.ok());
  EXPECT_THAT(text.diag().str(), HasSubstr("columns from 20"));
}

// The words of an operand packed ahead end with the tensor or a word group: what a product reads
// beyond them would not be zeros.
TEST(Placement, WordsPackedAheadEndWhereZerosBegin) {
  auto text = [](const Expr& extent) {
    const Expr M = Expr::sym("M"), N = Expr::sym("N"), K = Expr::sym("K");
    ir::Program interface;
    interface.name = "part";
    interface.tensors = {tensor("d", DType::kF32, {M, N}, ir::Role::kOut),
                         tensor("a", DType::kF32, {M, K}, ir::Role::kIn),
                         tensor("b", DType::kF32, {K, N}, ir::Role::kIn)};
    Kernel k(interface);
    k.tiles({"i", 1}, [&](Index) {
      const auto deep = dsl::range(32, extent);
      k.store(k["d"](all, all),
              mma(k.load(k["a"](all, deep), "a"), k.load(k["b"](deep, all), "b"), "mm"));
    });
    Schedule schedule;
    schedule.operand = {{"b", OperandForm::kAhead}};
    return emitted(*k.finish(), schedule);
  };
  EXPECT_TRUE(text(48).ok());
  EXPECT_TRUE(text(Expr::sym("K") - 32).ok());
  EXPECT_TRUE(text(min(Expr(64), Expr::sym("K") - 32)).ok());
  ASSERT_FALSE(text(40).ok());
  EXPECT_THAT(text(40).diag().str(), HasSubstr("40 elements"));
}

TEST(Placement, TilesThatMustBeStoredNeedABound) {
  const auto program = [] {
    const Expr T = Expr::sym("T"), H = Expr::sym("H");
    ir::Program interface;
    interface.name = "unbounded";
    interface.tensors = {tensor("out", DType::kF32, {T, H}, ir::Role::kOut),
                         tensor("x", DType::kF32, {T, H}, ir::Role::kIn),
                         tensor("lengths", DType::kI32, {T}, ir::Role::kIn)};
    Kernel k(interface);
    k.tiles({"row", T}, [&](Index row) {
      const auto some = dsl::range(0, k["lengths"].at(row));
      Tile e = exp(k.load(k["x"](row, some), "x"));
      k.store(k["out"](row, some), e / sum(e));
    });
    auto built = k.finish();
    EXPECT_TRUE(built.ok()) << built.diag().str();
    return *built;
  }();
  auto text = emitted(program, {});
  ASSERT_FALSE(text.ok());
  EXPECT_EQ(text.diag().code, ErrorCode::kPlacement);
  EXPECT_THAT(text.diag().str(), HasSubstr("lengths"));
}

TEST(UpperBound, TakesTheBoundedSideOfAMinimum) {
  const Expr i = Expr::sym("i"), M = Expr::sym("M");
  EXPECT_TRUE(codegen::upper_bound(min(Expr(32), M - i * Expr(32)), {"i"})->is_const(32));
  EXPECT_FALSE(codegen::upper_bound(M - i, {"i"}).has_value());
  EXPECT_TRUE(codegen::upper_bound(M / Expr(2), {"i"})->same_as(M / Expr(2)));
}

TEST(Emit, ThreadsNeverExceedWhatTheWorkspaceCounts) {
  Schedule schedule;
  schedule.threads = 64;
  EXPECT_THAT(emitted(attention(), schedule)->text,
              HasSubstr("threads = (int)imin(64, omp_get_max_threads())"));
}

TEST(Emit, TextIsTheSameEveryTime) {
  EXPECT_EQ(emitted(attention(), {})->text, emitted(attention(), {})->text);
}

}  // namespace
}  // namespace rooftile
