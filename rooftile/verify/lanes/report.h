// SPDX-License-Identifier: Apache-2.0
// Findings in the making: what was asked of a statement, gathered into one finding a kind.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "rooftile/lanes/lanes.h"
#include "rooftile/verify/arith/arithmetic.h"
#include "rooftile/verify/lanes/symbols.h"
#include "rooftile/verify/verdict.h"

namespace rooftile::verify {

class Report {
 public:
  explicit Report(const Symbols& symbols) : symbols_(symbols) {}

  // `claim` is what was asked, for the reason of a refutation. `estimate`: what was asked, or the
  // way there, rests on bounds that are only estimated, so that a model need not be reachable.
  void note(Kind kind, const lanes::Stmt& stmt, const Answer& answer, const std::string& claim,
            bool estimate = false);
  void proved(Kind kind, const lanes::Stmt& stmt, Prover prover);
  void broken(Kind kind, const lanes::Stmt& stmt, Prover prover, const std::string& reason,
              Counterexample example = {});
  void unknown(Kind kind, const lanes::Stmt& stmt, const std::string& reason);
  // Of the whole kernel.
  void kernel(Kind kind, const std::string& subject, bool holds, Prover prover,
              const std::string& reason);
  std::vector<Finding> take() { return std::move(findings_); }

 private:
  Finding& finding(Kind kind, const lanes::Stmt& stmt);

  const Symbols& symbols_;
  std::vector<Finding> findings_;
  std::map<std::pair<Kind, const lanes::Stmt*>, size_t> index_;
};

}  // namespace rooftile::verify
