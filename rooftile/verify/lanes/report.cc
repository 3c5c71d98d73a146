// SPDX-License-Identifier: Apache-2.0
#include "rooftile/verify/lanes/report.h"

#include <algorithm>

#include "rooftile/lanes/program_text.h"

namespace rooftile::verify {

Finding& Report::finding(Kind kind, const lanes::Stmt& stmt) {
  const auto [it, fresh] = index_.emplace(std::pair(kind, &stmt), findings_.size());
  if (fresh) {
    Finding f;
    f.kind = kind;
    f.subject = lanes::print_head(stmt);
    f.loc = stmt.loc;
    f.verdict = Verdict::kProved;
    findings_.push_back(std::move(f));
  }
  return findings_[it->second];
}

void Report::proved(Kind kind, const lanes::Stmt& stmt, Prover prover) {
  Finding& f = finding(kind, stmt);
  if (f.verdict == Verdict::kProved) f.prover = std::max(f.prover, prover);
}

void Report::unknown(Kind kind, const lanes::Stmt& stmt, const std::string& reason) {
  Finding& f = finding(kind, stmt);
  if (f.verdict != Verdict::kProved) return;
  f.verdict = Verdict::kUnknown;
  f.prover = Prover::kNone;
  f.reason = reason;
}

void Report::broken(Kind kind, const lanes::Stmt& stmt, Prover prover, const std::string& reason,
                    Counterexample example) {
  Finding& f = finding(kind, stmt);
  if (f.verdict == Verdict::kRefuted) return;
  f.verdict = Verdict::kRefuted;
  f.prover = prover;
  f.reason = reason;
  f.example = std::move(example);
}

void Report::note(Kind kind, const lanes::Stmt& stmt, const Answer& answer,
                  const std::string& claim, bool estimate) {
  if (answer.verdict == Verdict::kProved) return proved(kind, stmt, answer.prover);
  if (answer.verdict == Verdict::kUnknown) return unknown(kind, stmt, claim + ": " + answer.reason);
  if (estimate)
    return unknown(kind, stmt,
                   claim + ": may fail where a loop's registers are what was not proved");
  Finding& f = finding(kind, stmt);
  if (f.verdict == Verdict::kRefuted) return;
  broken(kind, stmt, answer.prover, claim + " does not hold");
  for (const auto& [name, value] : answer.model) {
    const Symbol* symbol = symbols_.find(name);
    if (symbol == nullptr && name.find('[') != std::string::npos) {
      f.example.call.emplace(name, value);  // an element of an index tensor
    } else if (symbol == nullptr) {
      f.example.story.push_back(name + " = " + std::to_string(value));
    } else if (symbol->kind == SymbolKind::kCall) {
      f.example.call.emplace(name, value);
    } else if (symbol->kind == SymbolKind::kPlace) {
      f.example.at.emplace_back(name, value);
    } else if (symbol->kind == SymbolKind::kLoaded) {
      f.example.story.push_back(name + " = " + std::to_string(value));
    }
  }
}

void Report::kernel(Kind kind, const std::string& subject, bool holds, Prover prover,
                    const std::string& reason) {
  Finding f;
  f.kind = kind;
  f.subject = subject;
  f.verdict = holds ? Verdict::kProved : Verdict::kRefuted;
  f.prover = prover;
  if (!holds) f.reason = reason;
  findings_.push_back(std::move(f));
}

}  // namespace rooftile::verify
