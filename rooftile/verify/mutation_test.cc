// SPDX-License-Identifier: Apache-2.0
// The provers' own test: real kernels, each with one mistake, on every level.
//
// A mutant of the code (emulate/mutate.h) is refuted by the provers, and the counterexample is run
// in the emulator; or the emulator alone shows it (wrong numbers: provers do not judge numbers); or
// it is equivalent: all is proved again, and results are the same to the bit. A mutant of a tile
// program is refuted and the interpreter shows it, or all is proved. Nothing is left undecided, and
// of the originals nothing is refuted.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <functional>
#include <map>
#include <mutex>
#include <thread>

#include "rooftile/check/case_inputs.h"
#include "rooftile/check/executor.h"
#include "rooftile/compile/schedule_change.h"
#include "rooftile/emulate/mutate.h"
#include "rooftile/verify/parts.h"
#include "rooftile/verify/replay_code.h"
#include "rooftile/verify/shipped.h"
#include "rooftile/verify/testing/tile_mutants.h"
#include "rooftile/verify/tile/prove_tile.h"
#include "rooftile/verify/tile/replay.h"

namespace rooftile::verify {
namespace {

// A kernel of the library, as it is shipped for a case of its list.
struct Subject {
  const char *op, *shipped_for, *schedule;  // `schedule`: how its name begins
  size_t variant, phase;
  const char *call, *larger;  // of the same configuration, small enough for the emulator
  int a_kind;                 // mutants of one kind, at most
  const char* changes = "";   // of the schedule: what is not shipped, but can be had
};

constexpr const char* kPaged = "B=7 P=40 S=16 MP=5 block_table=1 kv_layout=paged Hq=7 Hkv=1 D=64";
constexpr const char* kPagedCall =
    "B=2 P=8 S=16 MP=3 block_table=1 kv_layout=paged Hq=7 Hkv=1 D=64";
constexpr const char* kPagedLarger =
    "B=1 P=40 S=16 MP=33 block_table=1 kv_layout=paged Hq=7 Hkv=1 D=64";

constexpr Subject kSubjects[] = {
    {"gemm", "M=193 N=160 K=1030", "wgmma_64x64", 0, 0, "M=70 N=72 K=72", "M=130 N=136 K=72", 5},
    {"gemm", "M=1024 N=1024 K=4096", "wgmma_128x64", 0, 0, "M=140 N=72 K=72", "M=9 N=72 K=840", 3},
    {"gemm", "M=1024 N=1024 K=4096", "wgmma_128x64", 0, 0, "M=140 N=72 K=72", "M=9 N=72 K=840", 3,
     "cluster=i:2 multicast=b"},
    {"gemm", "M=12 N=48 K=40 bias=1 activation=gelu_tanh dtype=f16", "swap_64x16", 0, 0,
     "M=12 N=48 K=40 bias=1 activation=gelu_tanh dtype=f16",
     "M=18 N=72 K=840 bias=1 activation=gelu_tanh dtype=f16", 3},
    {"gemm", "M=16 N=4096 K=4096", "swap_64x16_k2", 0, 0, "M=5 N=72 K=328", "M=3 N=72 K=2312", 5},
    {"gemm", "M=16 N=4096 K=4096", "swap_64x16_k2", 1, 0, "M=5 N=72 K=72", "M=40 N=72 K=200", 4},
    {"gemm", "M=12 N=48 K=40 bias=1 activation=gelu dtype=f32", "fma_32x64", 0, 0,
     "M=12 N=48 K=40 bias=1 activation=gelu dtype=f32",
     "M=40 N=72 K=72 bias=1 activation=gelu dtype=f32", 3},
    {"attention_prefill", "Tq=512 Tk=512 Hq=14 Hkv=2 D=64 causal=1 scale=0.125", "wgmma_128x128", 0,
     0, "Tq=70 Tk=70 Hq=2 Hkv=1 D=64 causal=1 scale=0.125",
     "Tq=20 Tk=400 Hq=1 Hkv=1 D=64 causal=1 scale=0.125", 4},
    {"attention_decode", kPaged, "split", 0, 0, kPagedCall, kPagedLarger, 4},
    {"attention_decode", kPaged, "split", 0, 1, kPagedCall, kPagedLarger, 4},
    {"rms_norm", "", "", 0, 0, "T=3 H=248", "T=5 H=8", 6},
    {"rms_norm", "", "", 1, 0, "T=3 H=251", "T=5 H=3", 6},
    {"softmax", "", "", 0, 0, "T=3 V=248", "T=5 V=8", 6},
    {"cross_entropy", "", "", 0, 0, "T=5 V=72", "T=2 V=4104", 6},
    {"cross_entropy", "", "", 1, 0, "T=5 V=77", "T=2 V=4101", 6},
    {"rope", "", "", 0, 0, "T=3 Hq=2 D=64 R=64 P=9", "T=2 Hq=9 D=96 R=64 P=5", 6},
    {"embedding", "", "", 0, 0, "T=3 V=9 H=72", "T=2 V=3 H=248", 6},
};

struct Made {
  const OpDef* op = nullptr;
  std::string name;
  KernelSource source;  // of one variant
  size_t phase = 0;
  std::vector<RefCall> calls;
};

std::optional<Made> make(const Subject& subject) {
  Made out;
  out.op = find_op(subject.op);
  if (out.op == nullptr) return std::nullopt;
  const auto kernels = shipped_kernels(*out.op, "sm90");
  if (!kernels.ok()) return std::nullopt;
  for (const ShippedKernel& shipped : *kernels) {
    const std::string wanted = subject.shipped_for;
    if (shipped.kernel->is_raw() || !shipped.schedule.str().starts_with(subject.schedule) ||
        (!wanted.empty() && shipped.case_text != wanted))
      continue;
    Schedule schedule = shipped.schedule;
    if (!change_schedule(schedule, subject.changes).ok()) return std::nullopt;
    auto source =
        generate(*out.op, *shipped.kernel, shipped.config, shipped.dims, sm90_target(), &schedule);
    if (!source.ok() || source->variants.size() <= subject.variant) return std::nullopt;
    out.source = std::move(*source);
    // Calls that it cannot take go to the others.
    std::swap(out.source.variants[0], out.source.variants[subject.variant]);
    for (const char* text : {subject.call, subject.larger}) {
      const auto test_case = check::parse_case(text[0] == '\0' ? shipped.case_text : text);
      if (!test_case.ok()) return std::nullopt;
      auto call = check::resolve_case(*out.op, *test_case);
      if (!call.ok()) return std::nullopt;
      // Else the equivalent would be what is not run.
      for (const Expr& condition : out.source.variants[0].needs.conditions)
        if (evaluate(condition, call->dims).value_or(0) == 0) return std::nullopt;
      out.calls.push_back(std::move(*call));
    }
    out.phase = subject.phase;
    out.name = std::string(subject.op) + " " + out.source.schedule.name + ", variant " +
               std::to_string(subject.variant) + ", phase " + std::to_string(subject.phase);
    return out;
  }
  return std::nullopt;
}

// The parts of the driver that look at this phase's code, until `enough` of one's findings.
using Enough = std::function<bool(const std::vector<Finding>&)>;
std::vector<Finding> prove_code(const KernelSource& source, size_t phase, const Enough& enough) {
  std::vector<Finding> out;
  const std::vector<ProofPart> parts = parts_of(source);
  for (const char* name : {"lanes", "protocol", "matches"})
    for (const ProofPart& part : parts) {
      if (part.variant != 0 || part.phase != static_cast<int>(phase) || part.name != name) continue;
      std::vector<Finding> findings;
      for (Obligation& obligation : run_part(part))
        findings.push_back(std::move(obligation.finding));
      out.insert(out.end(), findings.begin(), findings.end());
      if (enough(findings)) return out;
    }
  return out;
}

// Results of some runs, each under another order of events; empty: an error.
using Results = std::vector<std::map<std::string, std::vector<double>>>;
Results results(const Made& made, RefCall call, const KernelSource& source) {
  Results out;
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    if (!check::make_inputs(*made.op, call, seed).ok()) return {};
    RefCall expected = call;
    made.op->reference_fn(expected);
    const auto kernel = check::emulator_executor(seed)->prepare(source);
    if (!kernel.ok()) return {};
    const check::Verdict verdict =
        check::judge({*made.op, call, expected, made.op->tolerance_fn(expected), 2, 0}, *kernel);
    if (!verdict.pass()) return {};
    auto& run = out.emplace_back();
    for (const auto& [name, array] : verdict.results) run[name] = array.data;
  }
  return out;
}

enum class Fate { kReplayed, kRefutedAndShown, kRefuted, kShown, kEquivalent, kUndecided };
constexpr const char* kFates[] = {"refuted and replayed", "refuted, shown by another call",
                                  "refuted, not shown",   "shown by execution alone",
                                  "equivalent",           "undecided"};

struct Tried {
  std::string kind, name, why;
  Fate fate = Fate::kUndecided;
};

// A mistake in the code, or in what calls the code is given.
struct Mistake {
  std::string kind, site;
  std::optional<lanes::Program> code;
  size_t condition = 0;  // without code: which of the variant's conditions nobody checks
};

Tried try_mutant(const Made& made, const Mistake& mistake) {
  Tried out;
  out.kind = mistake.kind;
  out.name = made.name + ": " + out.kind + " at " + mistake.site.substr(0, 150);
  KernelSource changed = made.source;
  codegen::GpuVariant& variant = changed.variants[0];
  if (mistake.code)
    variant.phases[made.phase] = *mistake.code;
  else
    variant.needs.conditions.erase(variant.needs.conditions.begin() +
                                   static_cast<std::ptrdiff_t>(mistake.condition));
  bool unknown = false, refuted = false, replayed = false;
  prove_code(changed, made.phase, [&](const std::vector<Finding>& findings) {
    for (const Finding& finding : findings) {
      if (finding.verdict == Verdict::kUnknown) {
        unknown = true;
        if (!refuted) out.why = finding.subject + ": " + finding.reason;
      }
      if (finding.verdict != Verdict::kRefuted) continue;
      refuted = true;
      const Replay replay = replay_code(changed, 0, made.phase, finding);
      out.why = std::string(kind_info(finding.kind).id) + ": " + finding.reason + " {" +
                replay.what + "}";
      replayed = replay.shown;
      if (replayed) return true;
    }
    return false;
  });
  if (replayed) {
    out.fate = Fate::kReplayed;
    return out;
  }
  bool differs = false, shown = false;
  for (const RefCall& call : made.calls) {
    const Results mine = results(made, call, changed);
    shown |= mine.empty();
    differs |= mine != results(made, call, made.source);
  }
  if (refuted)
    out.fate = shown ? Fate::kRefutedAndShown : Fate::kRefuted;
  else if (shown || differs)
    out.fate = Fate::kShown;
  else if (!unknown)
    out.fate = Fate::kEquivalent;
  return out;
}

std::vector<Mistake> chosen(const Made& made, int a_kind) {
  const codegen::GpuVariant& variant = made.source.variants[0];
  std::map<std::string, std::vector<Mistake>> by_kind;
  for (emulate::Mutant& mutant : emulate::mutants(variant.phases[made.phase])) {
    const std::string kind(emulate::mutation_name(mutant.kind));
    by_kind[kind].push_back({kind, std::move(mutant.site), std::move(mutant.program)});
  }
  // Indices have 32 bits because sizes are limited: here one is not.
  const std::vector<Expr>& conditions = variant.needs.conditions;
  for (size_t i = 0; i < conditions.size(); ++i)
    if (conditions[i].kind() == ExprKind::kLe && conditions[i].args()[1].is_const())
      by_kind["size limit dropped"].push_back(
          {"size limit dropped", conditions[i].str(), std::nullopt, i});
  std::vector<Mistake> out;
  for (auto& [kind, mistakes] : by_kind) {
    const auto most = static_cast<size_t>(a_kind);
    const size_t step = (mistakes.size() + most - 1) / most;
    for (size_t i = 0; i < mistakes.size(); i += step) out.push_back(std::move(mistakes[i]));
  }
  return out;
}

struct Counts {
  int fates[6] = {};
  int& of(Fate fate) { return fates[static_cast<size_t>(fate)]; }
  int total() const {
    int out = 0;
    for (const int n : fates) out += n;
    return out;
  }
  std::string str() const {
    std::string out;
    for (size_t f = 0; f < 6; ++f)
      if (fates[f] > 0)
        out += (out.empty() ? "" : ", ") + std::to_string(fates[f]) + " " + kFates[f];
    return out;
  }
};

TEST(Mutation, EveryMutantIsDecided) {
  const char* only = std::getenv("ROOFTILE_MUTATION_SUBJECT");  // a number: one of the table
  std::vector<Made> made;
  std::vector<std::pair<size_t, Mistake>> work;
  for (size_t s = 0; s < std::size(kSubjects); ++s) {
    if (only != nullptr && std::to_string(s) != only) continue;
    std::optional<Made> one = make(kSubjects[s]);
    ASSERT_TRUE(one) << s << " " << kSubjects[s].op;
    const auto all = [](const std::vector<Finding>&) { return false; };
    for (const Finding& finding : prove_code(one->source, one->phase, all))
      EXPECT_EQ(finding.verdict, Verdict::kProved)
          << one->name << ": " << kind_info(finding.kind).id << " of " << finding.subject << ": "
          << finding.reason;
    for (const RefCall& call : one->calls)
      EXPECT_FALSE(results(*one, call, one->source).empty()) << one->name << " does not run";
    for (Mistake& mistake : chosen(*one, kSubjects[s].a_kind))
      work.emplace_back(made.size(), std::move(mistake));
    made.push_back(std::move(*one));
  }
  std::vector<Tried> tried(work.size());
  std::atomic<size_t> next = 0;
  const auto run = [&] {
    for (size_t i; (i = next++) < work.size();)
      tried[i] = try_mutant(made[work[i].first], work[i].second);
  };
  std::thread other(run);
  run();
  other.join();

  std::map<std::string, Counts> by_kind, by_subject;
  Counts all;
  std::vector<std::string> undecided;
  for (size_t i = 0; i < tried.size(); ++i) {
    const Fate fate = tried[i].fate;
    ++by_kind[tried[i].kind].of(fate);
    ++by_subject[made[work[i].first].name].of(fate);
    ++all.of(fate);
    if (fate == Fate::kUndecided) undecided.push_back(tried[i].name + ": " + tried[i].why);
    if (fate != Fate::kReplayed)
      std::printf("%-30s %s: %s\n", kFates[static_cast<size_t>(fate)], tried[i].name.c_str(),
                  tried[i].why.substr(0, 300).c_str());
  }
  for (auto& [name, counts] : by_subject)
    std::printf("%s: %s\n", name.c_str(), counts.str().c_str());
  for (auto& [kind, counts] : by_kind) std::printf("%s: %s\n", kind.c_str(), counts.str().c_str());
  std::printf("%d mutants of %zu kinds of fault: %s\n", all.total(), by_kind.size(),
              all.str().c_str());
  EXPECT_THAT(undecided, ::testing::IsEmpty());
  const int faults = all.total() - all.of(Fate::kEquivalent);
  const int refuted =
      all.of(Fate::kReplayed) + all.of(Fate::kRefutedAndShown) + all.of(Fate::kRefuted);
  EXPECT_GE(10 * refuted, 9 * faults);
  EXPECT_GE(10 * (all.of(Fate::kReplayed) + all.of(Fate::kRefutedAndShown)), 9 * refuted);
  if (only != nullptr) return;
  EXPECT_GE(by_kind.size(), 15U);
  EXPECT_GE(all.total(), 300);
}

// ---- tile programs

class TileMutation : public ::testing::TestWithParam<const char*> {};

TEST_P(TileMutation, IsRefutedAndReplaysOrDoesNoHarm) {
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
