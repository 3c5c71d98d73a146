// SPDX-License-Identifier: Apache-2.0
#include "rooftile/verify/proof.h"

namespace rooftile::verify {

void Tally::add(const Obligation& obligation) {
  switch (obligation.finding.verdict) {
    case Verdict::kProved:
      ++proved;
      return;
    case Verdict::kRefuted:
      ++refuted;
      return;
    case Verdict::kUnknown:
      ++(obligation.waiver.empty() ? unknown : waived);
      return;
  }
}

Tally KernelProof::tally() const {
  Tally out;
  for (const Obligation& obligation : obligations) out.add(obligation);
  return out;
}

const Obligation* KernelProof::first_open() const {
  for (const Verdict verdict : {Verdict::kRefuted, Verdict::kUnknown})
    for (const Obligation& obligation : obligations)
      if (obligation.finding.verdict == verdict && obligation.waiver.empty()) return &obligation;
  return nullptr;
}

void apply_waivers(const std::vector<Waiver>& waivers, KernelProof& proof) {
  for (Obligation& obligation : proof.obligations)
    for (const Waiver& waiver : waivers)
      if (obligation.finding.verdict == Verdict::kUnknown &&
          waiver.obligation == kind_info(obligation.finding.kind).id)
        obligation.waiver = waiver.why;
}

}  // namespace rooftile::verify
