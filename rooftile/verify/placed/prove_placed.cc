// SPDX-License-Identifier: Apache-2.0
#include "rooftile/verify/placed/prove_placed.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <set>
#include <string>

#include "rooftile/verify/arith/arithmetic.h"
#include "rooftile/verify/placed/layouts.h"
#include "rooftile/verify/placed/live.h"
#include "rooftile/verify/placed/pairing.h"
#include "rooftile/verify/placed/ring_facts.h"
#include "rooftile/verify/placed/ring_lemmas.h"
#include "rooftile/verify/placed/walk.h"

namespace rooftile::verify {

using codegen::Event;
using codegen::Placed;
using codegen::PlacedCopy;
using codegen::PlacedRing;
using ir::Node;
using ir::Op;

namespace {

constexpr int kMostTxBytes = (1 << 20) - 1;  // of an mbarrier's phase (PTX ISA, mbarrier)
constexpr int kMostArrivals = (1 << 20) - 1;

class PlacedProver {
 public:
  PlacedProver(const ir::Program& program, const Placed& placed)
      : program_(program), placed_(placed) {}

  std::vector<Finding> run() {
    timed([&] { found(check_once(program_, placed_)); });
    prove(Kind::kPlacedOnce, phase_name(), Prover::kDataflow);
    timed([&] { found(check_pairing(program_, placed_)); });
    WalkResult walked;
    timed([&] {
      walked = walk_computing(program_, placed_);
      found(walked.problems);
    });
    for (const PlacedRing& ring : placed_.rings) rings(ring);
    timed([&] { counts(); });
    for (const PlacedRing& ring : placed_.rings)
      prove(Kind::kRingCounts, "ring " + ring.name, Prover::kConstant);
    LiveResult live;
    timed([&] {
      live = check_live(program_, placed_);
      found(live.problems);
    });
    prove(Kind::kLive, phase_name(), Prover::kGraph,
          std::to_string(live.graphs) + " marked graphs, " + std::to_string(live.runs) + " runs, " +
              std::to_string(walked.states) + " states of the computing role");
    timed([&] { found(check_layouts(program_, placed_)); });
    for (const PlacedRing& ring : placed_.rings)
      prove(Kind::kLayout, "ring " + ring.name, Prover::kRank);
    for (const std::string& product : products())
      prove(Kind::kLayout, product, Prover::kEnumeration);
    for (const std::string& product : products()) prove(Kind::kTokens, product, Prover::kDataflow);
    timed([&] { turns(); });
    if (!placed_.plan.turns.empty() || takes_turns(placed_))
      prove(Kind::kTurns, "token", Prover::kDataflow);
    return std::move(findings_);
  }

 private:
  template <class Work>
  void timed(const Work& work) {
    const auto begin = std::chrono::steady_clock::now();
    work();
    ms_ =
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
  }

  std::string phase_name() const {
    std::string axes;
    for (const std::string& var : program_.node(placed_.phase).vars)
      axes += (axes.empty() ? "" : ", ") + var;
    return "tiles " + axes;
  }
  std::vector<std::string> products() const {
    std::vector<std::string> out;
    for (const auto& [id, value] : placed_.values)
      if (program_.node(id).op == Op::kMma) out.push_back(node_name(program_, id));
    return out;
  }

  // ---- findings

  void found(const PlacedProblems& problems) {
    for (const PlacedProblem& problem : problems) {
      Finding finding;
      finding.kind = problem.kind;
      finding.subject = problem.subject;
      finding.loc = problem.loc;
      finding.verdict = problem.verdict;
      finding.prover = problem.kind == Kind::kLive ? Prover::kGraph : Prover::kDataflow;
      finding.reason = problem.what;
      finding.example.story = problem.story;
      finding.ms = ms_;
      refuted_.insert({problem.kind, problem.subject});
      refuted_kinds_.insert(problem.kind);
      findings_.push_back(std::move(finding));
    }
  }

  // Proved, unless a check has said otherwise of this subject; a finding of another subject of that
  // kind leaves it.
  void prove(Kind kind, const std::string& subject, Prover prover, std::string evidence = "") {
    const bool whole = subject == phase_name() || subject == "token";
    if (refuted_.count({kind, subject}) > 0 || (whole && refuted_kinds_.count(kind) > 0)) return;
    Finding finding;
    finding.kind = kind;
    finding.subject = subject;
    finding.loc = program_.node(placed_.phase).loc;
    finding.verdict = Verdict::kProved;
    finding.prover = prover;
    finding.evidence = std::move(evidence);
    finding.ms = ms_;
    ms_ = 0;  // counted once
    findings_.push_back(std::move(finding));
  }

  // ---- rings: the arithmetic for their number of slots, and what it presumes of the events

  void rings(const PlacedRing& ring) {
    const std::string subject = "ring " + ring.name;
    std::map<Kind, Finding> by_kind;
    for (const Lemma& lemma : ring_lemmas(ring.depth)) {
      Answer answer;
      timed([&] {
        arithmetic_.push();
        for (const Expr& fact : lemma.facts) arithmetic_.assume(fact);
        answer = arithmetic_.prove(lemma.goal);
        arithmetic_.pop();
      });
      Finding& finding = by_kind[lemma.kind];
      finding.kind = lemma.kind;
      finding.subject = subject;
      finding.loc = program_.node(placed_.phase).loc;
      finding.ms += ms_;
      finding.prover = std::max(finding.prover, answer.prover);
      finding.evidence += std::string(finding.evidence.empty() ? "" : "\n") +
                          question_text(lemma.facts, {}, lemma.goal);
      if (finding.verdict == Verdict::kRefuted) continue;
      if (answer.verdict == Verdict::kProved) {
        if (finding.reason.empty()) finding.verdict = Verdict::kProved;
        continue;
      }
      finding.verdict = answer.verdict;
      finding.reason =
          std::string(lemma.what) +
          (answer.verdict == Verdict::kRefuted ? ": it does not" : ": " + answer.reason);
      finding.example.call = answer.model;
    }
    for (auto& [kind, finding] : by_kind)
      if (finding.verdict != Verdict::kProved || refuted_.count({kind, subject}) == 0)
        findings_.push_back(std::move(finding));
  }

  // ---- counts

  void refuse(Kind kind, std::string subject, std::string what) {
    found({{.kind = kind,
            .subject = std::move(subject),
            .what = std::move(what),
            .story = {},
            .loc = program_.node(placed_.phase).loc}});
  }

  void counts() {
    for (const PlacedRing& ring : placed_.rings) {
      const RingFacts facts = ring_facts(placed_, ring);
      const std::string subject = "ring " + ring.name;
      const auto differ = [&](const std::string& what, int expected, int come) {
        if (expected != come)
          refuse(Kind::kRingCounts, subject,
                 what + ": " + std::to_string(expected) + " expected, " + std::to_string(come) +
                     " come");
      };
      if (ring.depth < 1 || ring.alternatives.empty())
        refuse(Kind::kRingCounts, subject, "has no slots, or nothing to hold");
      differ("arrivals that fill a slot", ring.arrivals(), facts.full_arrivals);
      for (size_t a = 0; a < ring.alternatives.size(); ++a) {
        differ("bytes of a slot", ring.engine_bytes(a), facts.engine_bytes[a]);
        int bytes = 0;
        bool engine = false, threads = false;
        for (const PlacedCopy& copy : ring.alternatives[a]) {
          bytes += copy.bytes();
          (copy.by_threads() ? threads : engine) = true;
        }
        differ("bytes of an alternative", ring.slot_bytes, bytes);
        // Every slot's barrier counts the same, whichever alternative it holds.
        if (engine != ring.has_engine() || threads != ring.has_threads())
          refuse(Kind::kRingCounts, subject, "alternatives are copied by different mechanisms");
      }
      if (facts.slot_bytes > kMostTxBytes || facts.full_arrivals > kMostArrivals ||
          facts.empty_arrivals() > kMostArrivals)
        refuse(Kind::kRingCounts, subject, "a barrier cannot count so much");
    }
  }

  // ---- groups in turn: each skips the slots of the others' tiles, so a tile takes the same number
  // of slots wherever it lies, and the token goes round behind them

  void turns() {
    if (!takes_turns(placed_)) return;
    const Node& phase = program_.node(placed_.phase);
    if (placed_.plan.grid != gpu::Grid::kPersistent)
      refuse(Kind::kTurns, "token", "groups in turn walk the tiles of a persistent grid");
    if (placed_.plan.turns.empty()) refuse(Kind::kTurns, "token", "groups in turn have no token");
    for (const Event& event : placed_.copying) {
      const Node& node = program_.node(event.id);
      std::set<std::string> symbols;
      for (const Expr* e : {&node.begin, &node.end, &node.step}) collect_symbols(*e, symbols);
      const bool varies = std::any_of(phase.vars.begin(), phase.vars.end(),
                                      [&](const auto& var) { return symbols.count(var) > 0; });
      const bool fills_only =
          std::all_of(event.body.begin(), event.body.end(),
                      [](const Event& inner) { return inner.kind == Event::kFill; });
      if (event.kind != Event::kLoop || varies || !fills_only)
        refuse(Kind::kTurns, "token",
               "tiles take different numbers of slots, and groups skip those of others");
    }
  }

  const ir::Program& program_;
  const Placed& placed_;
  Arithmetic arithmetic_;
  std::vector<Finding> findings_;
  std::set<std::pair<Kind, std::string>> refuted_;
  std::set<Kind> refuted_kinds_;
  double ms_ = 0;
};

}  // namespace

std::vector<Finding> prove_placed(const ir::Program& program, const Placed& placed) {
  return PlacedProver(program, placed).run();
}

}  // namespace rooftile::verify
