// SPDX-License-Identifier: Apache-2.0
// The provers' own test: real kernels, each with one mistake, on every level.
//
// Of the lowered code (emulate/mutate.h), a mutant is refuted by the provers, or else the emulator
// shows it (a fault, or wrong numbers: provers do not judge numbers), or else it is equivalent: all
// is proved again and the results are the same to the bit. Of tile programs, a mutant is refuted
// and the interpreter shows it, or all is proved. Nothing may be left undecided.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "rooftile/check/case_inputs.h"
#include "rooftile/emulate/mutate.h"
#include "rooftile/verify/parts.h"
#include "rooftile/verify/replay_call.h"
#include "rooftile/verify/shipped.h"
#include "rooftile/verify/testing/tile_mutants.h"
#include "rooftile/verify/tile/prove_tile.h"
#include "rooftile/verify/tile/replay.h"

namespace rooftile::verify {
namespace {

// A kernel of the library, as it is shipped, and a call small enough for the emulator.
struct Subject {
  const char *op, *request, *schedule;  // `schedule`: part of its name
  int a_kind;                           // mutants of one kind, at most
};

constexpr Subject kSubjects[] = {
    {"gemm", "M=130 N=264 K=200", "persistent", 4},
    {"gemm", "M=5 N=72 K=200", "swap", 3},
    {"attention_prefill", "B=1 Sq=70 Sk=70 Hq=2 Hkv=1 D=128 causal=1", "wgmma", 3},
    {"attention_decode", "B=2 P=8 S=16 MP=3 block_table=1 kv_layout=paged Hq=2 Hkv=1 D=64", "", 3},
    {"rms_norm", "T=3 H=520", "", 6},
    {"softmax", "R=3 N=300", "", 6},
    {"cross_entropy", "", "", 4},
    {"rope", "", "", 4},
};

struct Tried {
  std::string name;
  bool refuted = false, unknown = false, shown = false, replays = false;
};

struct Made {
  ShippedKernel shipped;
  KernelSource source;
  RefCall call;
};

std::optional<Made> make(const Subject& subject) {
  const OpDef* op = find_op(subject.op);
  if (op == nullptr) return std::nullopt;
  const auto kernels = shipped_kernels(*op, "sm90");
  if (!kernels.ok()) return std::nullopt;
  const std::string text = subject.request;
  for (const ShippedKernel& shipped : *kernels) {
    if (shipped.kernel->is_raw() ||
        shipped.schedule.str().find(subject.schedule) == std::string::npos)
      continue;
    auto test_case = check::parse_case(text.empty() ? shipped.case_text : text);
    if (!test_case.ok()) return std::nullopt;
    auto call = check::resolve_case(*op, *test_case);
    if (!call.ok()) return std::nullopt;
    if (op->complete(call->config).str() != op->complete(shipped.config).str()) continue;
    auto source = job_for(shipped).source();
    if (!source.ok()) continue;
    return Made{shipped, std::move(*source), std::move(*call)};
  }
  return std::nullopt;
}

// The parts of the driver that look at one phase's code.
std::vector<Finding> prove_code(const KernelSource& source, int variant, int phase) {
  std::vector<Finding> out;
  for (const ProofPart& part : parts_of(source)) {
    if (part.variant != variant || part.phase != phase) continue;
    if (part.name != "lanes" && part.name != "protocol" && part.name != "matches") continue;
    for (Obligation& obligation : run_part(part)) out.push_back(std::move(obligation.finding));
  }
  return out;
}

Tried try_mutant(const Made& made, size_t variant, size_t phase, const emulate::Mutant& mutant) {
  Tried out;
  out.name = std::string(made.shipped.op->name) + ": " +
             std::string(emulate::mutation_name(mutant.kind)) + " at " + mutant.site;
  KernelSource changed = made.source;
  changed.variants[variant].phases[phase] = mutant.program;
  Counterexample example;
  for (const Finding& finding :
       prove_code(changed, static_cast<int>(variant), static_cast<int>(phase))) {
    out.unknown |= finding.verdict == Verdict::kUnknown;
    if (finding.verdict != Verdict::kRefuted || out.refuted) continue;
    out.refuted = true;
    example = finding.example;
  }
  const Replay replay = replay_in_emulator(*made.shipped.op, changed, made.call.config,
                                           made.call.dims, example, out.refuted ? 2 : 4);
  out.shown = replay.shown;
  out.replays = out.refuted && replay.shown;
  return out;
}

class Mutation : public ::testing::TestWithParam<Subject> {};

// TODO: mutants of the newest lowerings are not all decided: docs/proofs.md.
TEST_P(Mutation, DISABLED_IsRefutedOrDoesNoHarm) {
  const std::optional<Made> made = make(GetParam());
  ASSERT_TRUE(made);
  int tried = 0, refuted = 0, replayed = 0;
  std::vector<std::string> equivalent, undecided;
  for (size_t v = 0; v < made->source.variants.size(); ++v)
    for (size_t p = 0; p < made->source.variants[v].phases.size(); ++p) {
      std::map<emulate::Mutation, std::vector<emulate::Mutant>> by_kind;
      for (emulate::Mutant& mutant : emulate::mutants(made->source.variants[v].phases[p]))
        by_kind[mutant.kind].push_back(std::move(mutant));
      for (const auto& [kind, mutants] : by_kind) {
        const size_t most = static_cast<size_t>(GetParam().a_kind);
        const size_t step = (mutants.size() + most - 1) / most;
        for (size_t i = 0; i < mutants.size(); i += step) {
          const Tried result = try_mutant(*made, v, p, mutants[i]);
          ++tried;
          refuted += result.refuted ? 1 : 0;
          replayed += result.replays ? 1 : 0;
          if (result.refuted) continue;
          if (result.unknown) undecided.push_back(result.name);
          if (!result.shown) equivalent.push_back(result.name);
        }
      }
    }
  RecordProperty("tried", tried);
  RecordProperty("refuted", refuted);
  RecordProperty("replayed", replayed);
  std::printf("%s: %d mutants, %d refuted, %d of them replayed; neither refuted nor shown: %s\n",
              made->source.name.c_str(), tried, refuted, replayed,
              ::testing::PrintToString(equivalent).c_str());
  EXPECT_THAT(undecided, ::testing::IsEmpty());
  EXPECT_GE(10 * refuted, 9 * (tried - static_cast<int>(equivalent.size())));
}

INSTANTIATE_TEST_SUITE_P(Kernels, Mutation, ::testing::ValuesIn(kSubjects),
                         [](const auto& subject) {
                           std::string name =
                               std::string(subject.param.op) + subject.param.schedule;
                           std::erase(name, '_');
                           return name + std::to_string(subject.index);
                         });

// ---- tile programs

class TileMutation : public ::testing::TestWithParam<const char*> {};

// TODO: mutants of the newest lowerings are not all decided: docs/proofs.md.
TEST_P(TileMutation, DISABLED_IsRefutedAndReplaysOrDoesNoHarm) {
  const auto kernels = shipped_kernels(*find_op(GetParam()), "sm90");
  ASSERT_TRUE(kernels.ok());
  const auto kernel = std::find_if(kernels->begin(), kernels->end(),
                                   [](const ShippedKernel& k) { return !k.kernel->is_raw(); });
  ASSERT_NE(kernel, kernels->end());
  const auto source = job_for(*kernel).source();
  ASSERT_TRUE(source.ok());
  int refuted = 0, replayed = 0, proved = 0;
  for (const testing::TileMutant& mutant : testing::tile_mutants(source->tiles)) {
    const std::string name = mutant.kind + " at " + mutant.site;
    bool broken = false, open = false;
    for (const Finding& finding : prove_tile(mutant.program)) {
      open |= finding.verdict == Verdict::kUnknown;
      if (finding.verdict != Verdict::kRefuted || broken) continue;
      broken = true;
      ++refuted;
      const auto shown = replay(mutant.program, finding.example.call);
      EXPECT_TRUE(shown && !shown->ok()) << name << " is refuted, and the interpreter sees nothing";
      replayed += shown && !shown->ok() ? 1 : 0;
    }
    if (broken) continue;
    EXPECT_FALSE(open) << name << " is undecided";
    ++proved;
    // What must not pass, whatever the program.
    EXPECT_NE(mutant.kind, "space too short") << name;
  }
  std::printf("%s: %d refuted, %d replayed, %d without harm\n", GetParam(), refuted, replayed,
              proved);
  EXPECT_GT(refuted, 4);
}

INSTANTIATE_TEST_SUITE_P(Programs, TileMutation,
                         ::testing::Values("gemm", "attention_prefill", "rms_norm", "softmax",
                                           "embedding", "cross_entropy"));

}  // namespace
}  // namespace rooftile::verify
