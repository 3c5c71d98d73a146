// SPDX-License-Identifier: Apache-2.0
// What a proof says: an obligation, a verdict, and for a refuted one the call that shows it.
//
// Plain values. Every part of verify/ returns a list of Findings; nothing here is ever read by a
// lowering: verdicts do not change code.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rooftile/base/diag.h"
#include "rooftile/base/expr.h"

namespace rooftile::verify {

enum class Level : uint8_t { kTile, kPlaced, kLanes, kCpu, kContract };
std::string_view level_name(Level level);

enum class Kind : uint8_t {
#define RT_OBLIGATION(e, id, level, what) e,
#include "rooftile/verify/obligations.def"
#undef RT_OBLIGATION
};
struct KindInfo {
  Kind kind;
  std::string_view id;
  Level level;
  std::string_view what;
};
const KindInfo& kind_info(Kind kind);
const KindInfo* kind_find(std::string_view id);

enum class Verdict : uint8_t { kProved, kRefuted, kUnknown };
std::string_view verdict_name(Verdict verdict);

// How it was decided. The cheapest that can decide is asked first; kSolver is the last.
enum class Prover : uint8_t {
  kNone,         // nothing could decide
  kConstant,     // arithmetic on constants
  kEnumeration,  // every thread, register or element was looked at
  kRank,         // linear algebra over F2
  kInterval,     // bounds of linear terms
  kDataflow,     // over the statements of a program
  kLemma,        // a form about which lemmas are shown: docs/decisions/0004-proofs.md, "Parts"
  kGraph,        // a marked graph without a token-free cycle
  kExploration,  // every reachable state of the protocol was visited
  kSolver,       // Z3
};
std::string_view prover_name(Prover prover);

// A call, and a place in it, that break an obligation.
struct Counterexample {
  Env call;  // dims, strides, integer attributes: enough to make the arguments
  // where: "cta.x", "tid", loop variables, outermost first
  std::vector<std::pair<std::string, int64_t>> at;
  std::vector<std::string> story;  // what happens, in order; one line an event
  // Run: what the interpreter or the emulator reports, or why there is nothing to be seen. "": not
  // tried.
  bool replayed = false;
  std::string replay;
};

struct Finding {
  Kind kind = Kind::kTileBounds;
  std::string subject;  // the statement or node, as the stage's print shows it
  SourceLoc loc;        // of the tile program
  Verdict verdict = Verdict::kUnknown;
  Prover prover = Prover::kNone;
  std::string reason;                    // unknown: why. refuted: what is wrong, in one sentence
  Counterexample example;                // refuted
  std::vector<std::string> assumptions;  // contract clauses and machine rules that it rests on
  // What a checker without a solver can redo: the formula with its facts, the table that was
  // enumerated. Empty where the checker repeats the derivation from the program.
  std::string evidence;
  double ms = 0;
};

}  // namespace rooftile::verify
