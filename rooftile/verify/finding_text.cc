// SPDX-License-Identifier: Apache-2.0
#include "rooftile/verify/finding_text.h"

namespace rooftile::verify {

std::string place_text(const Obligation& obligation) {
  std::string out;
  if (obligation.variant >= 0) out = "variant " + std::to_string(obligation.variant);
  if (obligation.phase >= 0)
    out += (out.empty() ? "" : ", ") + ("phase " + std::to_string(obligation.phase));
  return out;
}

std::string when_text(const Counterexample& example) {
  std::string call, at;
  for (const auto& [name, value] : example.call)
    call += (call.empty() ? "" : ", ") + name + " = " + std::to_string(value);
  for (const auto& [name, value] : example.at)
    at += (at.empty() ? "" : ", ") + name + " = " + std::to_string(value);
  return call + (call.empty() || at.empty() ? "" : "; ") + at;
}

Diag diag_of(const KernelProof& proof, const Obligation& obligation) {
  const Finding& finding = obligation.finding;
  const KindInfo& kind = kind_info(finding.kind);
  const bool refuted = finding.verdict == Verdict::kRefuted;
  Diag diag;
  diag.code = refuted ? ErrorCode::kRefuted : ErrorCode::kUnproved;
  diag.subject = proof.op.empty() ? proof.name : proof.op;
  diag.message = std::string(kind.id) + (refuted ? " is refuted: " : " is not proved: ") +
                 (finding.reason.empty() ? std::string(kind.what) : finding.reason);
  diag.argument = finding.subject;
  diag.found = std::string(verdict_name(finding.verdict)) + " by " +
               std::string(prover_name(finding.prover));
  diag.expected = std::string(kind.what);
  diag.when = when_text(finding.example);
  for (const std::string& event : finding.example.story)
    diag.when += (diag.when.empty() ? "" : "\n            ") + event;
  if (!finding.example.replay.empty())
    diag.when += std::string(diag.when.empty() ? "" : "\n            ") +
                 (finding.example.replayed ? "replayed: " : "does not replay: ") +
                 finding.example.replay;
  const std::string place = place_text(obligation);
  diag.fix = "kernel " + proof.name + (place.empty() ? "" : ", " + place) +
             "; `rooftile explain` shows its code";
  diag.at = finding.loc;
  return diag;
}

}  // namespace rooftile::verify
