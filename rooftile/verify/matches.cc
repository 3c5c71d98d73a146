// SPDX-License-Identifier: Apache-2.0
#include "rooftile/verify/matches.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <set>

#include "rooftile/verify/placed/ring_facts.h"

namespace rooftile::verify {
namespace {

using lanes::Ins;
using lanes::Val;
using lanes::ValKind;

// The shared allocation that an address is in; "" if it names none.
std::string allocation_of(const Val& address) {
  if (!address.present()) return "";
  if (address->kind == ValKind::kShared) return address->name;
  for (const Val& arg : address->args)
    if (std::string name = allocation_of(arg); !name.empty()) return name;
  return "";
}

// What a program says of one allocation of barriers, or of shared memory.
struct Derived {
  int inits = 0;
  std::set<int64_t> arrivals;  // that barriers are initialised with
  std::set<int> expected;      // bytes announced at once
};
using DerivedBy = std::map<std::string, Derived>;

void derive(const lanes::Body& body, DerivedBy& out) {
  for (const lanes::Stmt& stmt : body) {
    derive(stmt.body, out);
    derive(stmt.orelse, out);
    if (stmt.kind != lanes::StmtKind::kInstr) continue;
    const lanes::Instr& i = stmt.instr;
    if (i.ins == Ins::kBarInit) {
      Derived& barrier = out[allocation_of(i.args[0])];
      ++barrier.inits;
      barrier.arrivals.insert(i.args[1]->kind == ValKind::kInt ? i.args[1]->integer : -1);
    }
    if (i.ins == Ins::kBarExpect) out[allocation_of(i.args[0])].expected.insert(i.bytes);
  }
}

template <class Set>
std::string listed(const Set& values, const char* between = ", ") {
  std::string out;
  for (const auto& value : values) out += (out.empty() ? "" : between) + std::to_string(value);
  return out.empty() ? "none" : out;
}

class Match {
 public:
  Match(const RingFacts& facts, std::string name, const lanes::Program& kernel,
        const DerivedBy& derived)
      : facts_(facts), name_(std::move(name)), kernel_(kernel), derived_(derived) {}

  // What differs; empty: nothing.
  std::string run() {
    const auto slots = std::find_if(kernel_.shared.begin(), kernel_.shared.end(),
                                    [&](const auto& s) { return s.name == "ring_" + name_; });
    const int64_t bytes = int64_t{facts_.depth} * facts_.slot_bytes;
    if (slots == kernel_.shared.end() || slots->bytes != bytes)
      differ("bytes of all slots", std::to_string(bytes),
             slots == kernel_.shared.end() ? "none" : std::to_string(slots->bytes));
    barrier("full_" + name_, facts_.full_arrivals);
    barrier("empty_" + name_, facts_.empty_arrivals());
    std::set<int> announced;
    for (const int alternative : facts_.engine_bytes)
      if (alternative > 0) announced.insert(alternative);
    if (of("full_" + name_).expected != announced)
      differ("bytes announced", listed(announced), listed(of("full_" + name_).expected));
    return differences_;
  }

 private:
  Derived of(const std::string& allocation) const {
    const auto it = derived_.find(allocation);
    return it == derived_.end() ? Derived{} : it->second;
  }
  void barrier(const std::string& allocation, int arrivals) {
    const Derived found = of(allocation);
    if (found.inits != facts_.depth)
      differ("barriers of " + allocation, std::to_string(facts_.depth),
             std::to_string(found.inits));
    if (found.arrivals != std::set<int64_t>{arrivals})
      differ("arrivals of " + allocation, std::to_string(arrivals), listed(found.arrivals));
  }
  void differ(const std::string& what, const std::string& schedule, const std::string& code) {
    differences_ += (differences_.empty() ? "" : "; ") + what + ": " + schedule +
                    " by the schedule, " + code + " in the code";
  }

  const RingFacts& facts_;
  const std::string name_;
  const lanes::Program& kernel_;
  const DerivedBy& derived_;
  std::string differences_;
};

}  // namespace

std::vector<Finding> match_rings(const codegen::Placed& placed, const lanes::Program& kernel) {
  const auto begin = std::chrono::steady_clock::now();
  DerivedBy derived;
  derive(lanes::unrolled(kernel).body, derived);
  std::vector<Finding> out;
  for (const codegen::PlacedRing& ring : placed.rings) {
    const RingFacts facts = ring_facts(placed, ring);
    Finding finding;
    finding.kind = Kind::kMatches;
    finding.subject = "ring " + ring.name;
    finding.prover = Prover::kConstant;
    finding.reason = Match(facts, ring.name, kernel, derived).run();
    finding.verdict = finding.reason.empty() ? Verdict::kProved : Verdict::kRefuted;
    std::set<int> bytes;
    for (const int alternative : facts.engine_bytes)
      if (alternative > 0) bytes.insert(alternative);
    finding.evidence = "depth=" + std::to_string(facts.depth) +
                       " slot=" + std::to_string(facts.slot_bytes) +
                       " full=" + std::to_string(facts.full_arrivals) +
                       " empty=" + std::to_string(facts.empty_arrivals());
    if (!bytes.empty()) finding.evidence += " bytes=" + listed(bytes, ",");
    out.push_back(std::move(finding));
  }
  const double ms =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
  for (Finding& finding : out) finding.ms = ms / static_cast<double>(out.size());
  return out;
}

}  // namespace rooftile::verify
