// SPDX-License-Identifier: Apache-2.0
#include "rooftile/verify/protocol/prove_protocol.h"

#include <fmt/format.h>

#include <chrono>
#include <optional>

#include "rooftile/lanes/program_text.h"
#include "rooftile/verify/protocol/explore.h"
#include "rooftile/verify/protocol/uniform.h"
#include "rooftile/verify/protocol/witness.h"

namespace rooftile::verify {
namespace {

using protocol::Exploration;

constexpr Kind kKinds[] = {Kind::kNoDeadlock,  Kind::kBarriers, Kind::kSharedRace,
                           Kind::kInitialised, Kind::kFences,   Kind::kProductTokens,
                           Kind::kUniform};

std::vector<std::string> story_of(const Exploration& e, const protocol::Terms& terms) {
  std::vector<std::string> out;
  for (const auto& [leaf, yes] : e.decisions)
    out.push_back(fmt::format("{}: {}", terms.atom_text(leaf), yes ? "yes" : "no"));
  for (const std::string& line : e.waits) out.push_back(line);
  if (e.waits.empty()) out.push_back(e.place + " " + e.fault.reason);
  return out;
}

void refute(Finding& f, const Exploration& e, const protocol::Flat& flat,
            const protocol::Terms& terms) {
  f.prover = Prover::kExploration;
  f.subject = e.place;
  if (e.fault.op >= 0)
    if (const lanes::Stmt* stmt = flat.ops[static_cast<size_t>(e.fault.op)].stmt) f.loc = stmt->loc;
  f.reason = e.call ? e.fault.reason : e.unknown;
  f.verdict = e.call ? Verdict::kRefuted : Verdict::kUnknown;
  f.example.story = story_of(e, terms);
  if (e.call) f.example.call = *e.call;
}

// Beyond the events, which the exploration has seen executed by all lanes.
void whole_warps(Finding& f, const protocol::Flat& flat) {
  f.prover = Prover::kDataflow;
  const lanes::Stmt* stmt = protocol::apart(flat.program);
  if (stmt == nullptr) return;
  f.verdict = Verdict::kUnknown;
  f.prover = Prover::kNone;
  f.loc = stmt->loc;
  f.subject = lanes::print_head(*stmt);
  f.reason = "it wants a whole warp, and lanes may part above it";
}

void derive(const Exploration& e, const lanes::Program& kernel, ProtocolFacts& out) {
  out.states = e.states;
  for (const auto& [key, use] : e.barriers)
    for (const lanes::SharedAlloc& a : kernel.shared)
      if (a.barriers && use.offset >= a.offset && use.offset < a.offset + a.bytes)
        out.barriers.push_back({a.name, use.cta, static_cast<int>((use.offset - a.offset) / 8),
                                use.arrivals, use.bytes});
}

}  // namespace

ProtocolProof explore_protocol(const lanes::Program& kernel, const std::vector<Expr>& facts) {
  const auto begin = std::chrono::steady_clock::now();
  ProtocolProof out;
  protocol::Terms terms;
  Result<protocol::Flat> flat = protocol::flatten(kernel, facts, terms);
  Exploration e;
  if (flat.ok())
    e = protocol::explore(*flat, terms, [&](const auto& decisions) {
      return protocol::find_call(*flat, terms, decisions, facts);
    });
  else
    e.unknown = flat.diag().message;
  for (const Kind kind : kKinds) {
    Finding f;
    f.kind = kind;
    f.subject = kernel.name;
    if (e.complete) {
      f.verdict = Verdict::kProved;
      f.prover = Prover::kExploration;
      f.assumptions = {"lanes.overflow: no index wraps",
                       "lanes.shared: accesses stay inside their allocations",
                       "contract: no argument overlaps an output"};
      f.evidence = fmt::format("{} states", e.states);
    } else if (e.faulty && e.fault.kind == kind) {
      refute(f, e, *flat, terms);
    } else {
      f.reason = e.faulty ? "the exploration ended at a fault: " + e.fault.reason : e.unknown;
    }
    if (kind == Kind::kUniform && f.verdict == Verdict::kProved) whole_warps(f, *flat);
    out.findings.push_back(std::move(f));
  }
  if (e.faulty && e.fault.kind != kKinds[0]) {
    bool told = false;
    for (const Kind kind : kKinds) told = told || kind == e.fault.kind;
    if (!told) {  // of a kind that others prove too: uniformity, budgets
      Finding f;
      f.kind = e.fault.kind;
      refute(f, e, *flat, terms);
      out.findings.push_back(std::move(f));
    }
  }
  derive(e, kernel, out.derived);
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
  for (Finding& f : out.findings) f.ms = took.count() / static_cast<double>(out.findings.size());
  return out;
}

std::vector<Finding> prove_protocol(const lanes::Program& kernel, const std::vector<Expr>& facts) {
  return explore_protocol(kernel, facts).findings;
}

}  // namespace rooftile::verify
