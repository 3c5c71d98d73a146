// SPDX-License-Identifier: Apache-2.0
// Every shipped tile program is proved; programs with one fault are refuted, with a call in which
// the interpreter finds the fault too.
#include "rooftile/verify/tile/prove_tile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "rooftile/check/case_inputs.h"
#include "rooftile/dsl/test_programs.h"
#include "rooftile/ops/op_def.h"
#include "rooftile/verify/tile/replay.h"

namespace rooftile::verify {
namespace {

std::string text(const Finding& f) {
  std::string out = std::string(kind_info(f.kind).id) + " " + std::string(verdict_name(f.verdict)) +
                    ": " + f.subject + " at " + f.loc.str() + " " + f.reason;
  for (const auto& [name, value] : f.example.call) out += " " + name + "=" + std::to_string(value);
  out += " |";
  for (const auto& [name, value] : f.example.at) out += " " + name + "=" + std::to_string(value);
  for (const std::string& line : f.example.story) out += "\n" + line;
  return out;
}

struct Subject {
  const OpDef* op;
  const KernelDef* kernel;
};

std::vector<Subject> subjects() {
  std::vector<Subject> list;
  for (const OpDef& op : all_ops())
    for (const KernelDef& kernel : op.kernels)
      if (!kernel.is_raw()) list.push_back({&op, &kernel});
  return list;
}

// What of a config decides over accesses.
std::string without_dtypes(Config config) {
  config.dtypes.clear();
  return config.str();
}

class ShippedProgram : public testing::TestWithParam<Subject> {};

// Every config and every set of tile sizes that small and real cases reach, each once.
TEST_P(ShippedProgram, IsProved) {
  const auto& [op, kernel] = GetParam();
  const TargetInfo cpu, gpu = sm90_target();
  std::set<std::string> seen;
  for (const Case& test_case : op->case_list) {
    if (!test_case.tagged("smoke") && !test_case.tagged("llm")) continue;
    auto call = check::resolve_case(*op, test_case);
    ASSERT_TRUE(call.ok()) << call.diag().str();
    for (const TargetInfo& target : {cpu, gpu}) {
      if (!kernel->takes(call->config, call->dims, target)) continue;
      auto program = op->build(*kernel, call->config);
      ASSERT_TRUE(program.ok()) << program.diag().str();
      std::map<std::string, Expr, std::less<>> values;
      std::string tile_text;
      for (const auto& [name, value] : kernel->schedule(call->config, call->dims, target).tile) {
        values.emplace(name, value);
        tile_text += " " + name + "=" + std::to_string(value);
      }
      const ir::Program tiled = ir::substitute_symbols(*program, values);
      if (!seen.insert(without_dtypes(call->config) + tile_text).second) continue;
      for (const Finding& f : prove_tile(tiled))
        EXPECT_EQ(f.verdict, Verdict::kProved) << test_case.text << "\n" << text(f);
    }
  }
}

std::string test_name(const testing::TestParamInfo<Subject>& param) {
  std::string name = param.param.op->name + "_" + param.param.kernel->name;
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  return name;
}
INSTANTIATE_TEST_SUITE_P(Tile, ShippedProgram, testing::ValuesIn(subjects()), test_name);

// Most programs are right for every tile size, before a schedule has chosen any.
TEST(ProveTile, ProvesForAllTileSizes) {
  const std::pair<const char*, const char*> table[] = {
      {"gemm", "M=3 N=5 K=7 bias=1 c=1"},
      {"gemm_batched", "B=2 M=3 N=5 K=7 layout=nn"},
      {"gemm_fp8", "M=3 N=5 K=7"},
      {"gated_mlp", "M=3 I=5 K=7"},
      {"cross_entropy", "T=3 V=7"},
      {"attention_prefill", "Tq=7 Tk=3 Hq=2 Hkv=1 D=64 causal=1 lse=1"},
      {"attention_decode", "B=7 P=7 S=40 Hq=4 Hkv=2 D=16 lse=1"}};
  for (const auto& [name, sizes] : table) {
    const OpDef& op = *find_op(name);
    auto call = check::resolve_case(op, *check::parse_case(sizes));
    ASSERT_TRUE(call.ok()) << call.diag().str();
    const auto kernels = op.candidates(call->config, call->dims, TargetInfo(), Route::kTile);
    auto program = op.build(*kernels.back(), call->config);
    ASSERT_TRUE(program.ok()) << program.diag().str();
    ASSERT_FALSE(program->tile_params.empty());
    for (const Finding& f : prove_tile(*program))
      EXPECT_EQ(f.verdict, Verdict::kProved) << name << "\n" << text(f);
  }
}

// ---- programs with one fault

using namespace ir::test;  // NOLINT: test vocabulary
using ir::Program;
using ir::Role;

const Expr M = sym("M"), N = sym("N");

// The first finding of this kind that is not proved.
Finding broken(const Program& program, Kind kind) {
  for (Finding& f : prove_tile(program))
    if (f.kind == kind && f.verdict != Verdict::kProved) return f;
  Finding none;
  none.verdict = Verdict::kProved;
  return none;
}

void expect_all_proved(const Program& program) {
  for (const Finding& f : prove_tile(program)) EXPECT_EQ(f.verdict, Verdict::kProved) << text(f);
}

// Refuted, and the interpreter refuses the very call that was found, with this code.
void expect_shown(const Program& program, Kind kind, ErrorCode code) {
  const Finding f = broken(program, kind);
  ASSERT_EQ(f.verdict, Verdict::kRefuted) << text(f);
  EXPECT_GT(f.loc.line, 0) << text(f);
  const std::optional<Status> shown = replay(program, f.example.call);
  ASSERT_TRUE(shown.has_value()) << text(f);
  ASSERT_FALSE(shown->ok()) << text(f);
  EXPECT_EQ(shown->diag().code, code) << shown->diag().str();
}

// out[M] = x[M], by blocks of 4 over `count` tiles, read from `shift` on, each `width` elements
// wide.
Program blocks(const Expr& count, const Expr& shift, int64_t width) {
  Kernel k(interface("blocks",
                     {tensor("out", DType::kF32, {M}, Role::kOut), tensor("x", DType::kF32, {M})}));
  k.tiles({"i", count}, [&](Index i) {
    const Expr extent = min(Expr(width), M - i * 4);
    k.store(k["out"](range(i * 4, extent)), k.load(k["x"](range(i * 4 + shift, extent))));
  });
  return *k.finish();
}

TEST(ProveTile, RefutesReadOneElementTooFar) {
  expect_all_proved(blocks(ceil_div(M, 4), 0, 4));
  expect_shown(blocks(ceil_div(M, 4), 1, 4), Kind::kTileBounds, ErrorCode::kOutOfBounds);
}

TEST(ProveTile, RefutesOverlappingTiles) {
  expect_shown(blocks(ceil_div(M, 4), 0, 5), Kind::kTileOnce, ErrorCode::kRace);
}

TEST(ProveTile, RefutesTailThatNobodyStores) {
  expect_shown(blocks(M / 4, 0, 4), Kind::kTileCovers, ErrorCode::kUnwritten);
  expect_shown(blocks(ceil_div(M, 4), 0, 3), Kind::kTileCovers, ErrorCode::kUnwritten);
}

Program gather(bool with_clause) {
  Program p =
      interface("gather", {tensor("out", DType::kF32, {M}, Role::kOut),
                           tensor("table", DType::kF32, {N}), tensor("ids", DType::kI32, {M})});
  if (with_clause) {
    ir::Clause clause;
    clause.kind = ir::Clause::kIndexRange;
    clause.tensor = "ids";
    clause.hi = N;
    p.clauses = {clause};
  }
  Kernel k(p);
  k.tiles({"i", M}, [&](Index i) {
    k.store(k["out"](range(i, 1)), k.load(k["table"](range(k["ids"].at(i), 1))));
  });
  return *k.finish();
}

TEST(ProveTile, RefutesIndexWithoutClause) {
  expect_all_proved(gather(true));
  expect_shown(gather(false), Kind::kTileBounds, ErrorCode::kOutOfBounds);
}

Program reversed_in_place(bool one_tensor) {
  std::vector<ir::TensorParam> tensors = {
      tensor("out", DType::kF32, {M}, one_tensor ? Role::kInOut : Role::kOut)};
  if (!one_tensor) {
    tensors[0].may_alias = {"x"};
    tensors.push_back(tensor("x", DType::kF32, {M}));
  }
  Kernel k(interface("reversed", tensors));
  k.tiles({"i", M}, [&](Index i) {
    k.store(k["out"](range(i, 1)), k.load(k[one_tensor ? "out" : "x"](range(M - 1 - i, 1))));
  });
  return *k.finish();
}

TEST(ProveTile, RefutesReadOfWhatANeighbourStores) {
  expect_shown(reversed_in_place(true), Kind::kTileOrder, ErrorCode::kRace);
  // The same where two arguments may be one in memory, which no single call shows.
  const Finding f = broken(reversed_in_place(false), Kind::kTileOrder);
  EXPECT_EQ(f.verdict, Verdict::kRefuted) << text(f);
}

Program stored_then_read() {
  std::vector<ir::TensorParam> tensors = {tensor("out", DType::kF32, {M}, Role::kOut),
                                          tensor("x", DType::kF32, {M})};
  tensors[0].may_alias = {"x"};
  Kernel k(interface("stored_then_read", tensors));
  k.tiles({"i", M}, [&](Index i) {
    k.store(k["out"](range(i, 1)), k.full({1}, 1.0));
    k.store(k["out"](range(i, 1)), k.load(k["x"](range(i, 1))));
  });
  return *k.finish();
}

TEST(ProveTile, RefutesInPlaceReadAfterStore) {
  const Finding f = broken(stored_then_read(), Kind::kTileOrder);
  EXPECT_EQ(f.verdict, Verdict::kRefuted) << text(f);
}

// An index tile in i32 over a tensor that may have more elements than that counts.
Program wide_gather(bool limited) {
  Program p = interface(
      "wide", {tensor("out", DType::kF32, {M}, Role::kOut), tensor("x", DType::kF32, {M})});
  if (limited) {
    ir::Clause clause;
    clause.condition = M <= Expr(INT32_MAX);
    p.clauses = {clause};
  }
  Kernel k(p);
  k.tiles({"i", ceil_div(M, 4)}, [&](Index i) {
    const Expr extent = min(Expr(4), M - i * 4);
    k.store(k["out"](range(i * 4, extent)), k.load(k["x"](k.iota(extent, i * 4))));
  });
  return *k.finish();
}

TEST(ProveTile, RefutesIndexThatWraps) {
  expect_all_proved(wide_gather(true));
  const Finding f = broken(wide_gather(false), Kind::kTileBounds);
  EXPECT_EQ(f.verdict, Verdict::kRefuted) << text(f);
  EXPECT_THAT(f.reason, testing::HasSubstr("wraps"));
  EXPECT_GT(f.example.call.at("M"), INT32_MAX) << text(f);
}

Program workspace_program(const Expr& stored) {
  Kernel k(interface("two_phases", {tensor("out", DType::kF32, {M}, Role::kOut)}));
  Tensor w = k.workspace("w", DType::kF32, {M});
  k.tiles({"i", stored}, [&](Index i) { k.store(w(range(i, 1)), k.full({1}, 1.0)); });
  k.tiles({"i2", M}, [&](Index i) { k.store(k["out"](range(i, 1)), k.load(w(range(i, 1)))); });
  return *k.finish();
}

TEST(ProveTile, RefutesWorkspaceReadBeforeItIsStored) {
  expect_all_proved(workspace_program(M));
  expect_shown(workspace_program(M / 2), Kind::kTileCovers, ErrorCode::kUnwritten);
}

// Every clause that a shipped program needs is missed when it is gone.
TEST(ProveTile, MissesClauses) {
  struct Needed {
    const char *op, *config, *tensor;
    ir::Clause::Kind clause;
    Kind kind;
  };
  const Needed table[] = {
      {"append_paged_kv", "T=7 P=3 S=4 Hkv=2 D=16", "slot_mapping", ir::Clause::kDistinct,
       Kind::kTileOnce},
      {"append_paged_kv", "T=7 P=3 S=4 Hkv=2 D=16", "slot_mapping", ir::Clause::kIndexRange,
       Kind::kTileBounds},
      {"embedding", "T=3 V=2 H=7", "ids", ir::Clause::kIndexRange, Kind::kTileBounds},
      {"rope", "T=4 Hq=2 D=128 R=32 P=64", "positions", ir::Clause::kIndexRange, Kind::kTileBounds},
      {"rope", "T=4 Hq=2 D=128 R=32 P=64", "", ir::Clause::kCondition, Kind::kTileBounds}};
  for (const Needed& needed : table) {
    const OpDef& op = *find_op(needed.op);
    auto call = check::resolve_case(op, *check::parse_case(needed.config));
    ASSERT_TRUE(call.ok()) << call.diag().str();
    Program program = *op.build(op.kernels[0], call->config);
    const size_t before = program.clauses.size();
    std::erase_if(program.clauses, [&](const ir::Clause& c) {
      return c.kind == needed.clause && c.tensor == needed.tensor;
    });
    ASSERT_LT(program.clauses.size(), before);
    const Finding f = broken(program, needed.kind);
    EXPECT_EQ(f.verdict, Verdict::kRefuted) << needed.op << " " << text(f);
  }
}

}  // namespace
}  // namespace rooftile::verify
