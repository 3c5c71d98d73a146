// SPDX-License-Identifier: Apache-2.0
// What is known of a kernel: every obligation with its verdict. Plain data, in an order that
// depends on the kernel alone.
#pragma once

#include <string>
#include <vector>

#include "rooftile/ops/waiver.h"
#include "rooftile/verify/verdict.h"

namespace rooftile::verify {

struct Obligation {
  int variant = -1, phase = -1;  // of a GPU kernel; -1: of the whole kernel
  Finding finding;
  std::string waiver;  // unknown: why the source lets it pass
};

struct Tally {
  int proved = 0, refuted = 0, unknown = 0, waived = 0;
  void add(const Obligation& obligation);
  bool all_proved() const { return refuted == 0 && unknown == 0 && waived == 0 && proved > 0; }
  bool passes() const { return refuted == 0 && unknown == 0; }  // waivers admitted
};

struct KernelProof {
  std::string op, kernel, config, schedule, target;  // empty for a program that belongs to no OpDef
  std::string name;                                  // symbol stem
  bool raw = false;  // hand-written: nobody proves it; obligations are those of what stands behind
  std::string code_hash;  // SHA-256 of everything that is compiled
  std::string prover;     // version of what answered
  std::vector<Obligation> obligations;
  std::string error;  // the kernel could not be generated: there is nothing to prove
  double ms = 0;      // proving, without generating
  bool from_cache = false;

  Tally tally() const;
  // The first obligation that is neither proved nor waived; refuted ones first. Null: none.
  const Obligation* first_open() const;
};

// An author's word (obligation id, why) for obligations that nobody can decide. What is refuted is
// wrong, whatever the source says.
void apply_waivers(const std::vector<Waiver>& waivers, KernelProof& proof);

}  // namespace rooftile::verify
