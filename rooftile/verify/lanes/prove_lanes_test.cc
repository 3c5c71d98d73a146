// SPDX-License-Identifier: Apache-2.0
// Kernels as they are lowered prove; each with one mistake is refuted, and says where.
#include "rooftile/verify/lanes/prove_lanes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "rooftile/check/case_inputs.h"
#include "rooftile/compile/kernel.h"
#include "rooftile/emulate/mutate.h"
#include "rooftile/ops/op_def.h"

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
