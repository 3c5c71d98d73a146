// SPDX-License-Identifier: Apache-2.0
// Whole kernels and their mistakes: what is right proves, what is wrong is refuted with a call that
// the emulator reports too, and what does no harm is named, with the reason.
#include "rooftile/verify/protocol/prove_protocol.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "rooftile/check/case_inputs.h"
#include "rooftile/check/targets.h"
#include "rooftile/compile/kernel.h"
#include "rooftile/emulate/mutate.h"
#include "rooftile/emulate/testing/cluster_gemm.h"
#include "rooftile/emulate/testing/gemm_run.h"
#include "rooftile/lanes/testing/wgmma_gemm.h"
#include "rooftile/verify/testing/group_release.h"
#include "rooftile/verify/tile/contract_facts.h"

namespace rooftile::verify {
namespace {

using emulate::Mutation;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

struct Kernel {
  lanes::Program program;
  std::vector<Expr> facts;
};

// The first kernel of the tile route for a case: the lanes of a variant.
Kernel shipped(const char* op_name, const char* text, size_t variant = 0) {
  const OpDef* op = find_op(op_name);
  const Result<Case> written = check::parse_case(text);
  EXPECT_TRUE(written.ok());
  const auto call = check::resolve_case(*op, check::for_target(*op, *written, sm90_target()));
  EXPECT_TRUE(call.ok()) << call.diag().str();
  const auto kernels = op->candidates(call->config, call->dims, sm90_target(), Route::kTile);
  const auto source =
      generate(*op, *kernels.at(0), call->config, call->dims, sm90_target(), nullptr, Route::kTile);
  EXPECT_TRUE(source.ok()) << source.diag().str();
  const codegen::GpuVariant& v = source->variants.at(variant);
  return {v.phases.at(0), v.needs.conditions};
}

enum class Outcome { kProved, kRefuted, kUnknown };

Outcome outcome(const std::vector<Finding>& findings, std::string* why = nullptr) {
  Outcome out = Outcome::kProved;
  for (const Finding& f : findings) {
    if (f.verdict == Verdict::kProved) continue;
    if (why != nullptr && (out == Outcome::kProved || f.verdict == Verdict::kRefuted))
      *why = f.reason;
    if (f.verdict == Verdict::kRefuted) return Outcome::kRefuted;
    out = Outcome::kUnknown;
  }
  return out;
}

// Mistakes in numbers are for others: which elements are stored, and with which layout.
bool about_protocol(const emulate::Mutant& m) {
  for (const Mutation numbers :
       {Mutation::kWrongSwizzle, Mutation::kSwappedOperands, Mutation::kShiftedIndex,
        Mutation::kNarrowIndex, Mutation::kDoubleWrite})
    if (m.kind == numbers) return false;
  return m.site.find("global") == std::string::npos;
}

struct Hunt {
  int refuted = 0;
  std::vector<std::string> proved, unknown;
};
Hunt hunt(const Kernel& kernel, int every = 1) {
  Hunt out;
  int count = 0;
  for (const emulate::Mutant& m : emulate::mutants(kernel.program)) {
    if (!about_protocol(m) || count++ % every != 0) continue;
    std::string why;
    const std::string name =
        std::string(mutation_name(m.kind)) + " at " + m.site.substr(0, m.site.find_first_of(" ,&"));
    switch (outcome(prove_protocol(m.program, kernel.facts), &why)) {
      case Outcome::kProved:
        out.proved.push_back(name);
        break;
      case Outcome::kRefuted:
        ++out.refuted;
        break;
      case Outcome::kUnknown:
        out.unknown.push_back(name + ": " + why);
    }
  }
  return out;
}

// One real size an operator; the other shapes and schedules are for `rooftile prove`.
TEST(ProveProtocol, ShippedKernels) {
  int kernels = 0;
  for (const OpDef& op : all_ops()) {
    const auto llm = std::find_if(op.case_list.begin(), op.case_list.end(),
                                  [](const Case& c) { return c.tagged("llm"); });
    if (llm == op.case_list.end()) continue;
    const auto call = check::resolve_case(op, check::for_target(op, *llm, sm90_target()));
    ASSERT_TRUE(call.ok()) << call.diag().str();
    for (const KernelDef* kernel :
         op.candidates(call->config, call->dims, sm90_target(), Route::kTile)) {
      const auto source =
          generate(op, *kernel, call->config, call->dims, sm90_target(), nullptr, Route::kTile);
      ASSERT_TRUE(source.ok()) << source.diag().str();
      for (const codegen::GpuVariant& variant : source->variants)
        for (const lanes::Program& phase : variant.phases) {
          std::string why;
          EXPECT_EQ(outcome(prove_protocol(phase, variant.needs.conditions), &why),
                    Outcome::kProved)
              << phase.name << ": " << why;
          ++kernels;
        }
    }
  }
  EXPECT_GE(kernels, 40);
}

Kernel cluster_gemm() {
  const Result<lanes::Program> program = emulate::testing::cluster_gemm();
  EXPECT_TRUE(program.ok());
  return {*program, {Expr(1) <= Expr::sym("K")}};
}

TEST(ProveProtocol, MistakesInAClusterGemm) {
  const Hunt left = hunt(cluster_gemm());
  EXPECT_THAT(left.proved, ElementsAre(
                               // The cluster's barrier counts every thread.
                               "meeting dropped at bar.warp.sync"));
  EXPECT_THAT(left.unknown, IsEmpty());
  EXPECT_GE(left.refuted, 40);
}

// The kernel releases a slot after its loop over K, whether that ran or not. No test has K = 0.
TEST(ProveProtocol, AnEmptySumDeadlocksTheClusterGemm) {
  const std::vector<Finding> findings = prove_protocol(cluster_gemm().program, {});
  const auto live = std::find_if(findings.begin(), findings.end(),
                                 [](const Finding& f) { return f.kind == Kind::kNoDeadlock; });
  ASSERT_NE(live, findings.end());
  ASSERT_EQ(live->verdict, Verdict::kRefuted);
  EXPECT_EQ(live->example.call.at("K"), 0);
  emulate::testing::GemmCase gemm(live->example.call.at("M"), live->example.call.at("N"), 0);
  emulate::Launch launch = gemm.launch(1);
  launch.sms = static_cast<int>(live->example.call.at("SMS"));
  EXPECT_FALSE(emulate::run(cluster_gemm().program, launch).ok());
}

TEST(ProveProtocol, MistakesInPrefill) {
  const Hunt left = hunt(shipped("attention_prefill", "Tq=2048 Tk=2048 Hq=8 Hkv=8 D=128 causal=1"));
  EXPECT_THAT(left.proved,
              UnorderedElementsAre(
                  // The one fill of q waits for nothing, and nobody waits for its release.
                  "wait dropped at mbarrier.wait.parity", "one arrival more at mbarrier.init",
                  "meeting dropped at bar.warp.sync",
                  // The next fill of this slot of k comes after a fill of v that waits for more.
                  "early release at if",
                  // Of the last v, which nobody overwrites.
                  "early release at if"));
  EXPECT_THAT(left.unknown, IsEmpty());
  EXPECT_GE(left.refuted, 55);
}

TEST(ProveProtocol, MistakesInPagedDecode) {
  const Hunt left = hunt(shipped("attention_decode",
                                 "B=32 P=131072 S=1 MP=4096 block_table=1 kv_layout=paged Hq=32 "
                                 "Hkv=8 D=128"),
                         2);
  EXPECT_THAT(left.proved, ::testing::Each(::testing::AnyOf(
                               "wait dropped at mbarrier.wait.parity",
                               "one arrival more at mbarrier.init", "early release at if",
                               // Which page is looked up is no matter of protocol.
                               "guard dropped at page[piece]", "guard loosened at page[piece]")));
  EXPECT_THAT(left.unknown, IsEmpty());
  EXPECT_GE(left.refuted, 25);
}

TEST(ProveProtocol, MistakesInASplit) {
  const Hunt left = hunt(shipped("gemm", "M=16 N=4096 K=4096"));
  EXPECT_THAT(
      left.proved,
      UnorderedElementsAre(
          // The cluster's barrier orders what they ordered.
          "meeting dropped at bar.sync.all", "meeting dropped at barrier.cluster.wait.acquire",
          // A barrier of kernels that walk on, unused here.
          "one arrival more at mbarrier.init", "one arrival less at mbarrier.init",
          // Of the last slot, which nobody fills again.
          "early release at if",
          // An empty part releases a slot that nobody fills.
          "branch dropped at if",
          // Shorter by a copy of a, behind which the copy of b starts all the same.
          "ring one slot shallower at ring_a"));
  EXPECT_THAT(left.unknown, IsEmpty());
  EXPECT_GE(left.refuted, 24);
}

// A group whose tile has no visible key starts no product, so nothing makes its warps meet between
// the arrival of the queries and their going back. On a persistent grid the slot is filled again.
TEST(ProveProtocol, QueriesGivenBackForWarpsThatMayBeLate) {
  Kernel kernel = shipped("attention_prefill", "Tq=1024 Tk=1024 Hq=512 Hkv=128 D=128 causal=1");
  std::string why;
  EXPECT_EQ(outcome(prove_protocol(kernel.program, kernel.facts), &why), Outcome::kProved) << why;
  ASSERT_TRUE(testing::release_for_the_group(kernel.program, "q"));
  EXPECT_EQ(outcome(prove_protocol(kernel.program, kernel.facts), &why), Outcome::kRefuted) << why;
}

// Packed sequences on a persistent grid: the copying role skips tiles that have no queries, as many
// as there are, and blocks of keys may be short, but the last alone. States stay few all the same.
TEST(ProveProtocol, PackedPrefillWalksItsTiles) {
  const OpDef& op = *find_op("attention_prefill");
  const auto call = check::resolve_case(
      op, *check::parse_case("Tq=16384 Tk=16384 B1=17 cu_q=1 cu_k=1 Hq=32 Hkv=8 D=64 causal=1"));
  ASSERT_TRUE(call.ok()) << call.diag().str();
  const auto kernels = op.candidates(call->config, call->dims, sm90_target(), Route::kTile);
  const auto source =
      generate(op, *kernels.at(0), call->config, call->dims, sm90_target(), nullptr, Route::kTile);
  ASSERT_TRUE(source.ok()) << source.diag().str();
  const codegen::GpuVariant& variant = source->variants.at(0);
  std::vector<Expr> facts = variant.needs.conditions;
  for (const ContractFact& fact : contract_facts(*variant.program)) facts.push_back(fact.fact);
  lanes::Program kernel = variant.phases.at(1);
  ASSERT_EQ(kernel.grid_x.kind(), ExprKind::kMin);
  const ProtocolProof proof = explore_protocol(kernel, facts);
  std::string why;
  EXPECT_EQ(outcome(proof.findings, &why), Outcome::kProved) << why;
  EXPECT_LT(proof.derived.states, 3000U);
  ASSERT_TRUE(testing::release_for_the_group(kernel, "q"));
  EXPECT_NE(outcome(prove_protocol(kernel, facts)), Outcome::kProved);
}

TEST(ProveProtocol, MistakesInStrips) {
  const Hunt left = hunt(shipped("gemm", "M=16 N=4096 K=4096", 1));
  EXPECT_THAT(left.proved, ::testing::Each(::testing::AnyOf(
                               // How long loops are is no matter of protocol.
                               "loop one step longer at for", "loop one step shorter at for",
                               "guard dropped at a_raw[0", "guard dropped at b_raw[0")));
  EXPECT_THAT(left.unknown, IsEmpty());
  EXPECT_GE(left.refuted, 4);
}

// Every refutation of a small kernel, replayed as it says.
TEST(ProveProtocol, RefutationsReplay) {
  const Result<lanes::Program> program = lanes::testing::wgmma_gemm({.bn = 64, .stages = 2});
  ASSERT_TRUE(program.ok());
  int replayed = 0;
  std::vector<std::string> silent;
  for (const emulate::Mutant& m : emulate::mutants(*program)) {
    if (!about_protocol(m)) continue;
    for (const Finding& f : prove_protocol(m.program, {Expr(1) <= Expr::sym("K")})) {
      if (f.verdict != Verdict::kRefuted) continue;
      const Env& call = f.example.call;
      bool told = false;
      for (uint64_t seed = 0; seed < 24 && !told; ++seed) {
        emulate::testing::GemmCase gemm(call.at("M"), call.at("N"), (call.at("K") + 7) / 8 * 8);
        emulate::Launch launch = gemm.launch(seed);
        launch.sms = static_cast<int>(call.at("SMS"));
        launch.max_statements = 20'000'000;
        told = !emulate::run(m.program, launch).ok();
      }
      if (told)
        ++replayed;
      else
        silent.push_back(std::string(mutation_name(m.kind)) + " at " + m.site + ": " + f.reason);
    }
  }
  EXPECT_THAT(silent, IsEmpty());
  EXPECT_GE(replayed, 20);
}

}  // namespace
}  // namespace rooftile::verify
