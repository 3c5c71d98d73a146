// SPDX-License-Identifier: Apache-2.0
// Kernels as they are lowered prove; each with one mistake is refuted, and says where.
#include "rooftile/verify/lanes/prove_lanes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>

#include "rooftile/check/case_inputs.h"
#include "rooftile/compile/kernel.h"
#include "rooftile/emulate/mutate.h"
#include "rooftile/ops/op_def.h"
#include "rooftile/verify/lane_contract.h"

namespace rooftile::verify {
namespace {

using ::testing::IsEmpty;
using ::testing::Not;

KernelSource lowered(const std::string& op_name, const std::string& text) {
  const OpDef& op = *find_op(op_name);
  const TargetInfo target = sm90_target();
  const Result<RefCall> call = check::resolve_case(op, *check::parse_case(text));
  EXPECT_TRUE(call.ok()) << call.diag().str();
  const KernelDef& kernel = *op.candidates(call->config, call->dims, target, Route::kTile).front();
  Result<KernelSource> source =
      generate(op, kernel, call->config, call->dims, target, nullptr, Route::kTile);
  EXPECT_TRUE(source.ok()) << source.diag().str();
  return std::move(*source);
}

// The clauses that these tests need: conditions, ranges and alignment.
LaneContract contract_of(const KernelSource& source, size_t variant) {
  LaneContract out;
  for (const ir::Clause& clause : source.program.clauses) {
    if (clause.kind == ir::Clause::kCondition) out.facts.push_back(clause.condition);
    if (clause.kind != ir::Clause::kIndexRange && clause.kind != ir::Clause::kDistinct) continue;
    IndexClause index;
    index.facts.tensor = clause.tensor;
    if (clause.kind == ir::Clause::kDistinct) {
      index.distinct_but = clause.has_except;
      index.facts.distinct = !clause.has_except;
      index.repeated = clause.except;
      out.index.push_back(std::move(index));
      continue;
    }
    index.facts.has_range = true;
    index.facts.lo = clause.lo;
    index.facts.hi = clause.hi;
    index.has_except = clause.has_except;
    index.except = clause.except;
    out.index.push_back(std::move(index));
  }
  for (const ir::TensorParam& tensor : source.program.tensors)
    if (tensor.role == ir::Role::kInOut) out.kept.insert(tensor.name);
  const codegen::GpuNeeds& needs = source.variants[variant].needs;
  out.facts.insert(out.facts.end(), needs.conditions.begin(), needs.conditions.end());
  for (const std::string& tensor : needs.aligned) out.align_bytes[tensor] = needs.align_bytes;
  return out;
}

std::vector<std::string> not_proved(const std::vector<Finding>& findings) {
  std::vector<std::string> out;
  for (const Finding& f : findings)
    if (f.verdict != Verdict::kProved)
      out.push_back(std::string(kind_info(f.kind).id) + " " + std::string(verdict_name(f.verdict)) +
                    ": " + f.subject + ": " + f.reason);
  return out;
}

void expect_proved(const std::string& op, const std::string& text) {
  const KernelSource source = lowered(op, text);
  for (size_t v = 0; v < source.variants.size(); ++v)
    for (const lanes::Program& kernel : source.variants[v].phases)
      EXPECT_THAT(not_proved(prove_lanes(kernel, contract_of(source, v))), IsEmpty())
          << kernel.name;
}

TEST(ProveLanes, RowsInVectorsHeldInRegisters) { expect_proved("rms_norm", "T=16 H=4096"); }
TEST(ProveLanes, RowsOfTwoDims) {
  expect_proved("append_paged_kv", "T=16 P=1024 S=16 Hkv=8 D=128");
}
TEST(ProveLanes, ProductsByRolesAndInStrips) { expect_proved("gemm", "M=4096 N=4096 K=4096"); }
TEST(ProveLanes, IndicesFromMemory) { expect_proved("embedding", "T=16 V=32000 H=4096"); }

// Every access that a guard or the end of a loop keeps inside is outside without it.
TEST(ProveLanes, DroppedGuardsAndLongLoopsAreRefutedWithACall) {
  const KernelSource source = lowered("layer_norm", "T=16 H=4096");
  const lanes::Program& kernel = source.variants[0].phases[0];
  int refuted = 0;
  for (const emulate::Mutant& mutant : emulate::mutants(kernel)) {
    if (mutant.kind != emulate::Mutation::kDropGuard &&
        mutant.kind != emulate::Mutation::kLooseGuard &&
        mutant.kind != emulate::Mutation::kLongLoop)
      continue;
    for (const Finding& f : prove_lanes(mutant.program, contract_of(source, 0))) {
      if (f.verdict != Verdict::kRefuted || f.kind != Kind::kGlobalBounds) continue;
      ++refuted;
      EXPECT_TRUE(f.example.call.contains("H")) << f.subject;
      EXPECT_THAT(f.example.at, Not(IsEmpty())) << f.subject;
    }
  }
  EXPECT_GE(refuted, 2);
}

// Two stores to one place, and a tensor of which a part is left out.
TEST(ProveLanes, DoubleAndMissingStores) {
  const KernelSource source = lowered("rms_norm", "T=16 H=4096");
  const lanes::Program& kernel = source.variants[0].phases[0];
  const auto verdict = [&](const lanes::Program& program) {
    Verdict worst = Verdict::kProved;
    for (const Finding& f : prove_lanes(program, contract_of(source, 0)))
      if (f.kind == Kind::kWriteOnce && f.verdict != Verdict::kProved) worst = f.verdict;
    return worst;
  };
  EXPECT_EQ(verdict(kernel), Verdict::kProved);
  lanes::Program twice = kernel;
  twice.body.push_back(twice.body.back());
  EXPECT_NE(verdict(twice), Verdict::kProved);
  lanes::Program less = kernel;
  less.grid_x = less.grid_x - Expr(1);
  EXPECT_NE(verdict(less), Verdict::kProved);
}

// The last block of a row is short: how many elements all blocks have is a sum, not a product.
TEST(ProveLanes, RowsInBlocks) {
  for (const char* text :
       {"T=1 H=14336", "T=512 H=4864", "T=4096 H=14336", "T=5 H=14336 dtype=f32"})
    expect_proved("silu_and_mul", text);
  const KernelSource source = lowered("silu_and_mul", "T=512 H=4864");
  const auto once = [&](const lanes::Program& program, size_t variant) {
    for (const Finding& f : prove_lanes(program, contract_of(source, variant)))
      if (f.kind == Kind::kWriteOnce && f.verdict != Verdict::kProved) return false;
    return true;
  };
  for (size_t v = 0; v < source.variants.size(); ++v) {
    const lanes::Program& kernel = source.variants[v].phases[0];
    ASSERT_TRUE(once(kernel, v));
    for (const Expr& ctas : {Expr(-1), Expr::sym("T"), Expr(0) - Expr::sym("T")}) {
      lanes::Program other = kernel;
      other.grid_x = kernel.grid_x + ctas;
      EXPECT_FALSE(once(other, v)) << ctas.str() << " CTAs more";
    }
    lanes::Program wider = kernel;
    for (lanes::TensorUse& tensor : wider.tensors)
      if (tensor.name == "out") tensor.shape.back() = tensor.shape.back() + Expr(8);
    EXPECT_FALSE(once(wider, v)) << "a column block of the tensor that nobody stores";
  }
}

// Every store to `tensor` as `edit` makes it.
void each_store(lanes::Body& body, const std::string& tensor,
                const std::function<void(lanes::Instr&)>& edit) {
  for (lanes::Stmt& stmt : body) {
    if (stmt.kind == lanes::StmtKind::kInstr && stmt.instr.ins == lanes::Ins::kStGlobal &&
        stmt.instr.global.tensor == tensor)
      edit(stmt.instr);
    each_store(stmt.body, tensor, edit);
    each_store(stmt.orelse, tensor, edit);
  }
}

bool stored_once(const lanes::Program& kernel, const LaneContract& contract,
                 const std::string& tensor) {
  bool any = false, all = true;
  for (const Finding& f : prove_lanes(kernel, contract)) {
    if (f.kind != Kind::kWriteOnce ||
        f.subject.find("st.global " + tensor + "[") == std::string::npos)
      continue;
    any = true;
    all = all && f.verdict == Verdict::kProved;
  }
  return any && all;
}

// Packed sequences: what the first phase leaves in `owner` is known to the proof of the second,
// which only reads it; rows of a sequence that blocks share are stored once, and all are.
TEST(ProveLanes, RunsThatATableLaysOut) {
  for (const char* text : {"Tq=210 Tk=210 B1=5 cu_q=1 cu_k=1 Hq=2 Hkv=1 D=64 causal=1",
                           "Tq=300 Tk=70 B1=5 cu_q=1 cu_k=1 Hq=2 Hkv=2 D=16 window_left=9",
                           "Tq=8192 Tk=8192 B1=17 cu_q=1 cu_k=1 Hq=32 Hkv=8 D=64"}) {
    const KernelSource source = lowered("attention_prefill", text);
    const codegen::GpuVariant& variant = source.variants[0];
    const lanes::Program& kernel = variant.phases[1];
    for (const lanes::TensorUse& tensor : kernel.tensors)
      if (tensor.name == "owner") {
        EXPECT_TRUE(tensor.read && !tensor.written);
      }
    const LaneContract contract = lane_contract(variant, 1);
    EXPECT_TRUE(stored_once(kernel, contract, "o")) << text;

    LaneContract unknown = contract;  // of the elements nothing but their range
    for (IndexClause& clause : unknown.index) clause.each.clear();
    EXPECT_FALSE(stored_once(kernel, unknown, "o")) << text;

    LaneContract shifted = contract;  // an element says which slot is behind it
    for (IndexClause& clause : shifted.index)
      for (Expr& fact : clause.each)
        fact = substitute(fact, {{"at.0", Expr::sym("at.0") - Expr(1)}});
    EXPECT_FALSE(stored_once(kernel, shifted, "o")) << text;

    lanes::Program beyond = kernel;  // rows of the next sequence as well
    each_store(beyond.body, "o", [](lanes::Instr& store) { store.guard = lanes::Val(); });
    EXPECT_FALSE(stored_once(beyond, contract, "o")) << text;

    lanes::Program behind = kernel;  // every row one too far
    each_store(behind.body, "o",
               [](lanes::Instr& store) { store.global.index[0] = store.global.index[0] + 1; });
    EXPECT_FALSE(stored_once(behind, contract, "o")) << text;

    lanes::Program few = kernel;  // a slot of the last head is left out
    few.grid_x = few.grid_x - Expr(1);
    const bool persistent = kernel.grid_x.kind() == ExprKind::kMin;  // then others take it
    EXPECT_EQ(stored_once(few, contract, "o"), persistent) << text;
  }
}

// The statement around the first instruction of this kind, in `body`, put under a condition.
bool put_under(lanes::Body& body, lanes::Ins ins, const lanes::Val& condition) {
  for (lanes::Stmt& stmt : body) {
    if (stmt.kind == lanes::StmtKind::kInstr && stmt.instr.ins == ins) {
      stmt = lanes::if_(condition, {stmt});
      return true;
    }
    if (put_under(stmt.body, ins, condition) || put_under(stmt.orelse, ins, condition)) return true;
  }
  return false;
}

// Products by mma.sync are a whole warp's. Half a warp at one is told, with a lane of either half;
// a condition that parts warps alone is none, however it is written.
TEST(ProveLanes, ProductsOfHalfAWarpAreRefutedWithTwoLanes) {
  const KernelSource source = lowered("attention_prefill", "Tq=33 Tk=40 Hq=2 Hkv=1 D=16 causal=1");
  const lanes::Program& kernel = source.variants[0].phases[0];
  const auto uniform = [&](const lanes::Val& condition) {
    lanes::Program changed = kernel;
    EXPECT_TRUE(put_under(changed.body, lanes::Ins::kMmaSync, condition));
    Finding worst;
    worst.verdict = Verdict::kProved;
    for (Finding& f : prove_lanes(changed, contract_of(source, 0)))
      if (f.kind == Kind::kUniform && f.verdict != Verdict::kProved) worst = std::move(f);
    return worst;
  };
  const lanes::Val tid = lanes::cast(lanes::Ty::kI32, lanes::special(lanes::Special::kTid));
  const Finding half = uniform(lanes::floor_mod(tid, 32) < 16);
  EXPECT_EQ(half.verdict, Verdict::kRefuted) << half.reason;
  std::map<std::string, int64_t> at(half.example.at.begin(), half.example.at.end());
  ASSERT_TRUE(at.count("tid") != 0 && at.count("other_tid") != 0);
  EXPECT_EQ(at["tid"] / 32, at["other_tid"] / 32);
  EXPECT_LT(at["tid"] % 32, 16);
  EXPECT_GE(at["other_tid"] % 32, 16);
  EXPECT_EQ(uniform(tid - lanes::floor_mod(tid, 32) < 64).verdict, Verdict::kProved);
  EXPECT_EQ(uniform(tid < 40).verdict, Verdict::kRefuted);
}

// A tensor whose stores are gone, or in a branch that nobody takes.
TEST(ProveLanes, OutputsThatNobodyStoresAreRefuted) {
  const KernelSource source = lowered("attention_decode", "B=2 P=2 S=300 Hq=4 Hkv=1 D=64 lse=1");
  const codegen::GpuVariant& variant = source.variants[0];
  const size_t last = variant.phases.size() - 1;
  const std::function<void(lanes::Body&, bool)> without = [&](lanes::Body& body, bool never) {
    for (size_t i = 0; i < body.size(); ++i) {
      without(body[i].body, never);
      without(body[i].orelse, never);
      if (body[i].kind != lanes::StmtKind::kInstr || body[i].instr.global.tensor != "lse") continue;
      if (never)
        body[i] = lanes::if_(lanes::equal(lanes::Val(0), lanes::Val(1)), {body[i]});
      else
        body.erase(body.begin() + static_cast<std::ptrdiff_t>(i--));
    }
  };
  for (const bool never : {false, true}) {
    lanes::Program changed = variant.phases[last];
    without(changed.body, never);
    EXPECT_THAT(not_proved(prove_lanes(changed, lane_contract(variant, static_cast<int>(last)))),
                ::testing::Contains(::testing::StartsWith("lanes.once")))
        << never;
  }
}

// Thread 0 of each CTA stores y[cta] if cta < 7, else y[otherwise].
lanes::Program two_ways(const std::function<lanes::Val(const lanes::Val&)>& otherwise) {
  using lanes::Ty;
  const lanes::Val cta = lanes::cast(Ty::kI32, lanes::special(lanes::Special::kCtaX));
  const lanes::Val tid = lanes::cast(Ty::kI32, lanes::special(lanes::Special::kTid));
  const auto store = [](const lanes::Val& at) {
    lanes::Instr instr;
    instr.ins = lanes::Ins::kStGlobal;
    instr.regs = {{"zero"}};
    instr.global = {"y", {at}, 1};
    instr.dtype = DType::kI32;
    return lanes::instr(std::move(instr));
  };
  lanes::Program p;
  p.name = "two_ways";
  p.tensors = {{.name = "y", .dtype = DType::kI32, .shape = {Expr::sym("N")}, .written = true}};
  p.scalars = {{"N", Ty::kI32}};
  p.threads = 32;
  p.grid_x = Expr::sym("N");
  p.body = {lanes::decl(Ty::kI32, "zero", lanes::Val(0)),
            lanes::if_(lanes::equal(tid, 0),
                       {lanes::if_(cta < 7, {store(cta)}, {store(otherwise(cta))})})};
  return p;
}

// Either way alone would store everything once. CTAs that go different ways store some elements
// twice and others never.
TEST(ProveLanes, CtasThatGoDifferentWaysStoreTheSame) {
  LaneContract contract;
  contract.facts = {Expr(1) <= Expr::sym("N"), Expr::sym("N") <= Expr(1 << 20)};
  const auto once = [&](const lanes::Program& program) {
    Verdict worst = Verdict::kProved;
    for (const Finding& f : prove_lanes(program, contract))
      if (f.kind == Kind::kWriteOnce && f.verdict != Verdict::kProved) worst = f.verdict;
    return worst;
  };
  EXPECT_EQ(once(two_ways([](const lanes::Val& cta) { return cta; })), Verdict::kProved);
  EXPECT_NE(once(two_ways([](const lanes::Val& cta) {
              return lanes::param(lanes::Ty::kI32, "N") - 1 - cta;
            })),
            Verdict::kProved);
}

// A phase that may start early waits for the one before, ahead of everything else.
TEST(ProveLanes, EarlyStartsWaitForTheKernelBefore) {
  const KernelSource source = lowered("softmax", "T=1 V=128256");
  const codegen::GpuVariant& variant = source.variants[0];
  for (size_t phase = 0; phase < variant.phases.size(); ++phase) {
    lanes::Program kernel = variant.phases[phase];
    ASSERT_TRUE(kernel.dependent_launch);
    const auto wait = std::find_if(kernel.body.begin(), kernel.body.end(), [](const auto& stmt) {
      return stmt.kind == lanes::StmtKind::kInstr && stmt.instr.ins == lanes::Ins::kGridWait;
    });
    ASSERT_NE(wait, kernel.body.end());
    const LaneContract contract = lane_contract(variant, static_cast<int>(phase));
    const auto told = [&](const lanes::Program& program) {
      const std::vector<std::string> open = not_proved(prove_lanes(program, contract));
      return std::any_of(open.begin(), open.end(), [](const std::string& finding) {
        return finding.starts_with("lanes.global-race refuted");
      });
    };
    EXPECT_FALSE(told(kernel));
    lanes::Program late = kernel;
    const auto at = late.body.begin() + (wait - kernel.body.begin());
    std::rotate(at, at + 1, late.body.end());
    EXPECT_TRUE(told(late)) << "behind everything";
    kernel.body.erase(wait);
    EXPECT_TRUE(told(kernel)) << "dropped";
  }
}

// A size that the variant does not limit lets an index wrap.
TEST(ProveLanes, WithoutSizeLimitsIndicesWrap) {
  const KernelSource source = lowered("gemm", "M=4096 N=4096 K=4096");
  LaneContract open = contract_of(source, 0);
  std::erase_if(open.facts,
                [](const Expr& fact) { return fact.str().find("2147") != std::string::npos; });
  bool overflow = false;
  for (const Finding& f : prove_lanes(source.variants[0].phases[0], open))
    overflow |= f.kind == Kind::kLaneOverflow && f.verdict == Verdict::kRefuted;
  EXPECT_TRUE(overflow);
}

}  // namespace
}  // namespace rooftile::verify
