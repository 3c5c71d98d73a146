// SPDX-License-Identifier: Apache-2.0
// Of every shipped kernel, launcher and contract say the same; a launcher that forgets one check is
// refuted, and so is a variant that leaves calls over.
#include "rooftile/verify/contract/prove_contract.h"

#include <gtest/gtest.h>

#include <set>

#include "rooftile/check/case_inputs.h"
#include "rooftile/compile/kernel.h"
#include "rooftile/ops/op_def.h"
#include "rooftile/verify/contract/contract_model.h"

namespace rooftile::verify {
namespace {

std::string text(const Finding& f) {
  std::string out = std::string(kind_info(f.kind).id) + " " + std::string(verdict_name(f.verdict)) +
                    ": " + f.subject + ": " + f.reason;
  for (const auto& [name, value] : f.example.call) out += " " + name + "=" + std::to_string(value);
  return out;
}

TargetInfo machine(bool gpu) {
  if (gpu) return sm90_target();
  TargetInfo target;
  target.isa = "avx2";
  target.threads = 8;
  return target;
}

// What the driver asks about a generated kernel.
ContractQuestion question(const KernelSource& source) {
  ContractQuestion q;
  q.proved = q.launched = &source.program;
  q.on_gpu = source.gpu();
  for (const codegen::GpuVariant& variant : source.variants) q.variants.push_back(variant.needs);
  q.fixed_dims = {source.schedule.gpu.dims.begin(), source.schedule.gpu.dims.end()};
  return q;
}

class ShippedContract : public testing::TestWithParam<const OpDef*> {};

TEST_P(ShippedContract, IsWhatTheLauncherChecks) {
  const OpDef& op = *GetParam();
  std::set<std::string> seen;
  for (const Case& test_case : op.case_list) {
    if (!test_case.tagged("smoke")) continue;
    auto call = check::resolve_case(op, test_case);
    ASSERT_TRUE(call.ok()) << call.diag().str();
    for (const bool gpu : {false, true}) {
      const TargetInfo target = machine(gpu);
      const auto kernels = op.candidates(call->config, call->dims, target, Route::kTile);
      if (kernels.empty() ||
          !seen.insert(call->config.str() + kernels[0]->name + target.isa).second)
        continue;
      auto source = generate(op, *kernels[0], call->config, call->dims, target);
      ASSERT_TRUE(source.ok()) << source.diag().str();
      ContractQuestion q = question(*source);
      const auto program = op.build(*kernels[0], call->config);
      q.proved = &*program;
      for (const Finding& f : prove_contract(q))
        EXPECT_EQ(f.verdict, Verdict::kProved) << test_case.text << "\n" << text(f);
    }
  }
}

std::vector<const OpDef*> all() {
  std::vector<const OpDef*> out;
  for (const OpDef& op : all_ops()) out.push_back(&op);
  return out;
}
INSTANTIATE_TEST_SUITE_P(Contract, ShippedContract, testing::ValuesIn(all()),
                         [](const auto& op) { return op.param->name; });

bool any_refuted(const std::vector<Finding>& findings, Kind kind) {
  for (const Finding& f : findings)
    if (f.kind == kind && f.verdict == Verdict::kRefuted) return true;
  return false;
}

// Paged attention has every kind of check.
TEST(ProveContract, MissesEachCheckThatIsGone) {
  const OpDef& op = *find_op("attention_decode");
  auto call = check::resolve_case(
      op,
      *check::parse_case("B=7 P=40 S=16 MP=5 block_table=1 kv_layout=paged Hq=7 Hkv=1 D=64 lse=1"));
  ASSERT_TRUE(call.ok()) << call.diag().str();
  const ir::Program program = *op.interface(call->config);
  ContractQuestion q;
  q.proved = q.launched = &program;
  const std::vector<host::HostCheck> checks = host::host_checks(program, false);
  EXPECT_FALSE(any_refuted(prove_contract(q, &checks), Kind::kHostImplies));
  size_t missed_extents = 0;
  for (size_t i = 0; i < checks.size(); ++i) {
    std::vector<host::HostCheck> fewer = checks;
    fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i));
    const bool missed = any_refuted(prove_contract(q, &fewer), Kind::kHostImplies);
    // Most extents must equal those of another tensor, and are looked at there.
    if (checks[i].kind == host::HostCheck::kExtents)
      missed_extents += missed ? 1 : 0;
    else
      EXPECT_TRUE(missed) << "check " << i << " of kind " << static_cast<int>(checks[i].kind);
  }
  EXPECT_GT(missed_extents, 0U);
}

TEST(ProveContract, RefutesACheckThatTheContractDoesNotAskFor) {
  const ir::Program program = *find_op("rms_norm")->interface({});
  ContractQuestion q;
  q.proved = q.launched = &program;
  std::vector<host::HostCheck> checks = host::host_checks(program, false);
  ir::Clause clause;
  clause.condition = Expr::sym("H") % Expr(8) == Expr(0);
  host::HostCheck check;
  check.kind = host::HostCheck::kCondition;
  check.clause = &clause;
  checks.push_back(check);
  EXPECT_TRUE(any_refuted(prove_contract(q, &checks), Kind::kHostAdmits));
}

TEST(ProveContract, RefutesVariantsThatLeaveCallsOver) {
  const ir::Program program = *find_op("rms_norm")->interface({});
  ContractQuestion q;
  q.proved = q.launched = &program;
  q.on_gpu = true;
  codegen::GpuNeeds all, some;
  some.conditions = {Expr::sym("H") % Expr(8) == Expr(0)};
  q.variants = {some, all};
  EXPECT_FALSE(any_refuted(prove_contract(q), Kind::kHostAdmits));
  q.variants = {all, some};
  EXPECT_TRUE(any_refuted(prove_contract(q), Kind::kHostAdmits));
  some.conditions.clear();
  some.align_bytes = 16;
  some.aligned = {"x"};
  q.variants = {some};
  EXPECT_TRUE(any_refuted(prove_contract(q), Kind::kHostAdmits));
}

// Clauses that contradict each other would prove anything.
TEST(ProveContract, RefutesContractsThatNoCallMeets) {
  const OpDef& op = *find_op("attention_decode");
  const auto call = check::resolve_case(
      op, *check::parse_case("B=7 P=40 S=16 MP=5 block_table=1 kv_layout=paged Hq=7 Hkv=1 D=64"));
  ASSERT_TRUE(call.ok()) << call.diag().str();
  const ir::Program program = *op.interface(call->config);
  EXPECT_EQ(contract_model(program).verdict, Verdict::kProved);

  const auto with = [&](ir::Clause clause) {
    ir::Program changed = program;
    clause.why = "added";
    changed.clauses.push_back(std::move(clause));
    ContractQuestion q;
    q.proved = q.launched = &changed;
    return prove_contract(q);
  };
  ir::Clause sizes;
  sizes.condition = Expr::sym("Hq") < Expr::sym("Hkv");
  EXPECT_TRUE(any_refuted(with(sizes), Kind::kContractMet));
  ir::Clause pages;  // no page is in the range of pages
  pages.kind = ir::Clause::kIndexRange;
  pages.tensor = "lengths";
  pages.lo = 5;
  pages.hi = 5;
  EXPECT_TRUE(any_refuted(with(pages), Kind::kContractMet));
  ir::Clause harmless;
  harmless.condition = Expr::sym("Hq") == Expr::sym("Hkv");
  EXPECT_FALSE(any_refuted(with(harmless), Kind::kContractMet));

  // Of a variant that nobody can get, proofs say nothing.
  ContractQuestion q;
  q.proved = q.launched = &program;
  q.on_gpu = true;
  codegen::GpuNeeds all, none;
  none.conditions = {Expr::sym("D") % Expr(8) == Expr(0), Expr::sym("D") % Expr(8) == Expr(4)};
  q.variants = {none, all};
  EXPECT_TRUE(any_refuted(prove_contract(q), Kind::kContractMet));
}

}  // namespace
}  // namespace rooftile::verify
