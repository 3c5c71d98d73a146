// SPDX-License-Identifier: Apache-2.0
#include "rooftile/verify/parts.h"

#include <algorithm>
#include <chrono>
#include <exception>

#include "rooftile/base/hash.h"
#include "rooftile/verify/contract/prove_contract.h"
#include "rooftile/verify/cpu/prove_cpu.h"
#include "rooftile/verify/lane_contract.h"
#include "rooftile/verify/matches.h"
#include "rooftile/verify/owed.h"
#include "rooftile/verify/placed/prove_placed.h"
#include "rooftile/verify/protocol/prove_protocol.h"
#include "rooftile/verify/tile/contract_facts.h"
#include "rooftile/verify/tile/prove_tile.h"

namespace rooftile::verify {

using codegen::GpuVariant;

namespace {

std::vector<Finding> lane_findings(const GpuVariant& variant, size_t phase) {
  return prove_lanes(variant.phases[phase], lane_contract(variant, phase));
}

// What the launcher has checked of dims and attributes before it takes this variant.
std::vector<Expr> checked_facts(const GpuVariant& variant) {
  std::vector<Expr> out;
  for (const ContractFact& fact : contract_facts(*variant.program)) out.push_back(fact.fact);
  out.insert(out.end(), variant.needs.conditions.begin(), variant.needs.conditions.end());
  return out;
}

std::vector<Finding> protocol_findings(const GpuVariant& variant, size_t phase) {
  return prove_protocol(variant.phases[phase], checked_facts(variant));
}

std::vector<Finding> cpu_findings(const KernelSource& source) {
  return prove_cpu(source.tiles, source.schedule, source.target);
}

std::vector<Finding> contract_findings(const KernelSource& source) {
  ContractQuestion question;
  question.proved = &source.tiles;
  question.launched = &source.program;
  question.on_gpu = source.gpu();
  for (const GpuVariant& variant : source.variants) question.variants.push_back(variant.needs);
  question.fixed_dims = source.schedule.gpu.dims;
  return prove_contract(question);
}

void gpu_parts(const GpuVariant& variant, int number, std::vector<ProofPart>& out) {
  for (size_t p = 0; p < variant.phases.size(); ++p) {
    const lanes::Program& kernel = variant.phases[p];
    const int phase = static_cast<int>(p);
    if (const auto& placed = variant.placed[p]) {
      out.push_back({"placed", number, phase, owed_by_placed(placed->placed),
                     [placed] { return prove_placed(placed->program, placed->placed); }});
      if (!placed->placed.rings.empty())
        out.push_back({"matches", number, phase, {Kind::kMatches}, [placed, &kernel] {
                         return match_rings(placed->placed, kernel);
                       }});
    }
    out.push_back({"lanes", number, phase, owed_by_addresses(kernel),
                   [&variant, p] { return lane_findings(variant, p); }});
    out.push_back({"protocol", number, phase, owed_by_protocol(kernel),
                   [&variant, p] { return protocol_findings(variant, p); }});
  }
}

double ms_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin)
      .count();
}

// A prover never throws; what it stands on (memory, a solver) may.
std::vector<Finding> run_safely(const ProofPart& part, std::string& error) {
  try {
    return part.prove();
  } catch (const std::exception& e) {
    error = std::string("the prover failed: ") + e.what();
  }
  return {};
}

Obligation unknown(const ProofPart& part, Kind kind, std::string reason) {
  Obligation out{.variant = part.variant, .phase = part.phase};
  out.finding.kind = kind;
  out.finding.subject = part.name;
  out.finding.reason = std::move(reason);
  return out;
}

}  // namespace

std::vector<ProofPart> parts_of(const KernelSource& source) {
  std::vector<ProofPart> out;
  out.push_back(
      {"contract", -1, -1, owed_by_contract(), [&source] { return contract_findings(source); }});
  if (!source.gpu()) {
    out.push_back({"tile", -1, -1, owed_by_tiles(source.tiles),
                   [&source] { return prove_tile(source.tiles); }});
    out.push_back({"cpu", -1, -1, owed_by_cpu(), [&source] { return cpu_findings(source); }});
    return out;
  }
  const ir::Program* last = nullptr;
  for (size_t v = 0; v < source.variants.size(); ++v) {
    const GpuVariant& variant = source.variants[v];
    if (variant.program == nullptr) continue;  // hand-written
    // Variants of one schedule (vectors, elements) share their tile program.
    if (variant.program.get() != last)
      out.push_back({"tile", static_cast<int>(v), -1, owed_by_tiles(*variant.program),
                     [&variant] { return prove_tile(*variant.program); }});
    last = variant.program.get();
    gpu_parts(variant, static_cast<int>(v), out);
  }
  return out;
}

std::vector<Obligation> run_part(const ProofPart& part) {
  const auto begin = std::chrono::steady_clock::now();
  std::string error;
  std::vector<Obligation> out;
  for (Finding& finding : run_safely(part, error))
    out.push_back({part.variant, part.phase, std::move(finding), ""});
  for (const Kind kind : part.owes) {
    const bool answered = std::any_of(out.begin(), out.end(), [&](const Obligation& obligation) {
      return obligation.finding.kind == kind;
    });
    if (!answered)
      out.push_back(unknown(part, kind, error.empty() ? "no prover has answered" : error));
  }
  std::stable_sort(out.begin(), out.end(), [](const Obligation& a, const Obligation& b) {
    return a.finding.kind < b.finding.kind;
  });
  double counted = 0;
  for (const Obligation& obligation : out) counted += obligation.finding.ms;
  // What is not any one obligation's (walks, set-up) is the first's.
  if (!out.empty()) out.front().finding.ms += std::max(0.0, ms_since(begin) - counted);
  return out;
}

std::vector<Obligation> unanswered(const ProofPart& part, const std::string& reason) {
  std::vector<Obligation> out;
  for (const Kind kind : part.owes) out.push_back(unknown(part, kind, reason));
  return out;
}

std::string code_hash(const KernelSource& source) {
  Sha256 hash;
  hash.field(source.kernel_text).field(source.launcher_text);
  return hash.hex();
}

KernelProof prove_here(const KernelSource& source) {
  KernelProof proof;
  proof.name = source.name;
  proof.raw = source.route == Route::kRaw;
  proof.schedule = source.schedule.str();
  proof.target = source.target_key;
  proof.code_hash = code_hash(source);
  proof.prover = prover_version();
  for (const ProofPart& part : parts_of(source))
    for (Obligation& obligation : run_part(part)) {
      proof.ms += obligation.finding.ms;
      proof.obligations.push_back(std::move(obligation));
    }
  return proof;
}

}  // namespace rooftile::verify
