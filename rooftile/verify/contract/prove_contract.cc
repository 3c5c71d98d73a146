// SPDX-License-Identifier: Apache-2.0
#include "rooftile/verify/contract/prove_contract.h"

#include <algorithm>
#include <set>

#include "rooftile/codegen/gpu/size_limits.h"
#include "rooftile/verify/contract/contract_model.h"
#include "rooftile/verify/tile/contract_facts.h"

namespace rooftile::verify {

using host::HostCheck;
using ir::Clause;
using ir::TensorParam;

namespace {

// The extent that a call passes, whatever the contract says of it.
Expr extent_of(const TensorParam& tensor, size_t axis) {
  return Expr::sym(tensor.name + ".n" + std::to_string(axis));
}

struct Statement {
  Expr formula;
  std::string text;  // what it says, for the finding
};

// What is known once a check has passed.
std::vector<Statement> statements(const HostCheck& check) {
  std::vector<Statement> out;
  switch (check.kind) {
    case HostCheck::kExtents:
      for (size_t axis = 0; axis < check.tensor->shape.size(); ++axis) {
        const Expr extent = extent_of(*check.tensor, axis);
        out.push_back({Expr(0) <= extent, "extents of `" + check.tensor->name + "`"});
        out.push_back({extent < Expr(int64_t{1} << host::kExtentBits), out[0].text});
      }
      break;
    case HostCheck::kExtentIs:
      out.push_back({extent_of(*check.tensor, check.axis) == check.tensor->shape[check.axis],
                     "extent " + std::to_string(check.axis) + " of `" + check.tensor->name + "`"});
      break;
    case HostCheck::kAttrRange:
      out.push_back({check.scalar->min <= Expr::sym(check.scalar->name),
                     "range of `" + check.scalar->name + "`"});
      out.push_back({Expr::sym(check.scalar->name) <= check.scalar->max, out[0].text});
      break;
    case HostCheck::kCondition:
      out.push_back({check.clause->condition, clause_text(*check.clause)});
      break;
    case HostCheck::kIndex:
      if (check.clause->kind == Clause::kFirstIs || check.clause->kind == Clause::kLastIs)
        out.push_back({Expr(1) <= extent_of(*check.tensor, check.tensor->shape.size() - 1),
                       "an element of `" + check.tensor->name + "`"});
      break;
    default:
      break;  // said of memory or of single elements: compared by what it says
  }
  return out;
}

class ContractProver {
 public:
  ContractProver(const ContractQuestion& question, const std::vector<HostCheck>& checks)
      : q_(question), checks_(checks) {
    // Where a dim comes from is no check: the dim is that extent.
    for (const host::DimSource& source : host::dim_sources(*q_.launched))
      bound_.push_back({Expr::sym(source.dim) == extent_of(*source.tensor, source.axis), ""});
  }

  std::vector<Finding> run() {
    met();
    implied_sizes();
    implied_elements();
    implied_memory();
    admitted();
    if (q_.on_gpu) taken();
    return std::move(findings_);
  }

 private:
  void report(Kind kind, const std::string& subject, Answer answer,
              const std::vector<std::string>& assumptions = {}, const std::string& reason = "") {
    Finding f;
    f.kind = kind;
    f.subject = subject;
    f.verdict = answer.verdict;
    f.prover = answer.prover;
    f.assumptions = assumptions;
    if (f.verdict != Verdict::kProved) f.reason = reason.empty() ? answer.reason : reason;
    if (f.verdict == Verdict::kRefuted) f.example.call = answer.model;
    findings_.push_back(std::move(f));
  }
  static Answer decided(bool holds) {
    return {holds ? Verdict::kProved : Verdict::kRefuted, Prover::kDataflow, {}, ""};
  }

  // ---- contract.met

  void met() {
    Env fixed(q_.fixed_dims.begin(), q_.fixed_dims.end());
    report_met("the contract", contract_model(*q_.proved, {}, fixed));
    for (size_t v = 0; v < q_.variants.size(); ++v)
      if (!q_.variants[v].conditions.empty())
        report_met("the contract and what variant " + std::to_string(v) + " needs",
                   contract_model(*q_.proved, q_.variants[v].conditions, fixed));
  }

  void report_met(const std::string& subject, const ContractModel& model) {
    Finding f;
    f.kind = Kind::kContractMet;
    f.subject = subject;
    f.verdict = model.verdict;
    f.prover = model.prover;
    f.reason = model.reason;
    if (f.verdict == Verdict::kProved) {
      f.reason.clear();
      for (const auto& [name, value] : model.call)
        f.evidence +=
            (f.evidence.empty() ? "a call: " : ", ") + name + " = " + std::to_string(value);
    }
    findings_.push_back(std::move(f));
  }

  // ---- contract.implies

  std::vector<Expr> checked() const {
    std::vector<Expr> out;
    for (const Statement& s : bound_) out.push_back(s.formula);
    for (const HostCheck& check : checks_)
      for (const Statement& s : statements(check)) out.push_back(s.formula);
    return out;
  }

  void implied_sizes() {
    Arithmetic arithmetic;
    for (const Expr& fact : checked()) arithmetic.assume(fact);
    auto follows = [&](const Expr& goal, const std::string& what) {
      report(Kind::kHostImplies, what, arithmetic.prove(goal), {},
             "the launcher lets calls through that break it");
    };
    for (const TensorParam& tensor : q_.launched->tensors)
      if (tensor.role != ir::Role::kWorkspace)
        for (size_t axis = 0; axis < tensor.shape.size(); ++axis)
          follows(extent_of(tensor, axis) == tensor.shape[axis],
                  "extent " + std::to_string(axis) + " of `" + tensor.name + "` is " +
                      tensor.shape[axis].str());
    for (const ContractFact& fact : contract_facts(*q_.proved))
      if (!reads_elements(fact.fact) && fact.source != kTileParametersPositive)
        follows(fact.fact, fact.fact.str() + " (" + fact.source + ")");
  }

  static bool reads_elements(const Expr& e) {
    return e.kind() == ExprKind::kIndexLoad ||
           std::any_of(e.args().begin(), e.args().end(), reads_elements);
  }

  // Clauses about elements: the same clause is checked, or on a GPU promised.
  void implied_elements() {
    for (const Clause& clause : q_.proved->clauses) {
      const bool condition = clause.kind == Clause::kCondition;
      if ((condition && !reads_elements(clause.condition)) ||
          (!condition && q_.proved->tensor(clause.tensor) == nullptr))
        continue;
      const std::string text = clause_text(clause);
      const bool is_checked = std::any_of(checks_.begin(), checks_.end(), [&](const HostCheck& c) {
        return c.clause != nullptr && clause_text(*c.clause) == text;
      });
      std::vector<std::string> promise;
      if (!is_checked && q_.on_gpu)
        promise.push_back("the caller keeps to " + text +
                          " (values in device memory are not read)");
      report(Kind::kHostImplies, text, decided(is_checked || !promise.empty()), promise,
             "no check of the launcher says so");
    }
  }

  bool listed(HostCheck::Kind kind, const TensorParam& tensor,
              const TensorParam* other = nullptr) const {
    return std::any_of(checks_.begin(), checks_.end(), [&](const HostCheck& c) {
      return c.kind == kind && c.tensor == &tensor && c.other == other;
    });
  }

  // What addresses rest on: inner strides, alignment, reach, outputs apart from everything else.
  void implied_memory() {
    for (const TensorParam& tensor : q_.launched->tensors) {
      if (tensor.role == ir::Role::kWorkspace) continue;
      std::vector<std::string> missing;
      auto need = [&](bool holds, const std::string& what) {
        if (!holds) missing.push_back(what);
      };
      const bool has_axes = !tensor.shape.empty();
      need(!tensor.unit_inner_stride || !has_axes || listed(HostCheck::kUnitStride, tensor),
           "its innermost stride is 1");
      need(host::required_alignment(tensor) == 1 || listed(HostCheck::kAligned, tensor),
           "it is aligned");
      need(listed(HostCheck::kReach, tensor), "its offsets fit 64 bits");
      if (host::is_output(tensor)) {
        need(!has_axes || listed(HostCheck::kApart, tensor), "its elements are apart");
        for (const TensorParam& other : q_.launched->tensors)
          if (&other != &tensor && other.role != ir::Role::kWorkspace)
            need(listed(HostCheck::kNoOverlap, tensor, &other) ||
                     (host::is_output(other) && listed(HostCheck::kNoOverlap, other, &tensor)),
                 "it shares no byte with `" + other.name + "`");
      }
      std::string reason;
      for (const std::string& what : missing)
        reason += (reason.empty() ? "not checked: " : "; ") + what;
      report(Kind::kHostImplies, "memory of `" + tensor.name + "`", decided(missing.empty()), {},
             reason);
    }
  }

  // ---- contract.admits

  // A call that meets the contract, below the limits that every call has.
  std::vector<Expr> promised() const {
    std::vector<Expr> out;
    for (const Statement& s : bound_) out.push_back(s.formula);
    for (const TensorParam& tensor : q_.launched->tensors)
      if (tensor.role != ir::Role::kWorkspace)
        for (size_t axis = 0; axis < tensor.shape.size(); ++axis) {
          const Expr extent = extent_of(tensor, axis);
          out.push_back(extent == tensor.shape[axis]);
          out.push_back(extent < Expr(int64_t{1} << host::kExtentBits));
        }
    for (const ContractFact& fact : contract_facts(*q_.proved)) out.push_back(fact.fact);
    return out;
  }

  void admitted() {
    Arithmetic arithmetic;
    for (const Expr& fact : promised()) arithmetic.assume(fact);
    std::set<std::string> promises;
    for (const Clause& clause : q_.proved->clauses) promises.insert(clause_text(clause));
    for (const HostCheck& check : checks_) {
      for (const Statement& s : statements(check))
        if (!reads_elements(s.formula))
          report(Kind::kHostAdmits, s.text + " lets through what the contract admits",
                 arithmetic.prove(s.formula), {}, "the launcher refuses calls that it should take");
      if (check.clause == nullptr ||
          (check.kind == HostCheck::kCondition && !reads_elements(check.clause->condition)))
        continue;
      const std::string text = clause_text(*check.clause);
      report(Kind::kHostAdmits, text + " lets through what the contract admits",
             decided(promises.count(text) > 0), {}, "the contract does not ask for it");
    }
  }

  // ---- a variant for every call

  // Limits that a GPU kernel declares beyond the contract, and dims that its schedule fixes.
  bool is_declared_limit(const Expr& condition) const {
    if (condition.kind() == ExprKind::kEq && condition.args()[0].kind() == ExprKind::kSym) {
      const auto fixed = q_.fixed_dims.find(condition.args()[0].name());
      return fixed != q_.fixed_dims.end() && condition.args()[1].is_const(fixed->second);
    }
    if (condition.kind() != ExprKind::kLe || !condition.args()[1].is_const()) return false;
    const int64_t limit = condition.args()[1].value();
    return limit == codegen::kLargestSize || limit == codegen::kLargestGrid;
  }

  // The last variant takes what all others leave: it must ask for nothing that the contract does
  // not give.
  void taken() {
    const std::string subject = "a variant for every call";
    if (q_.variants.empty()) return report(Kind::kHostAdmits, subject, decided(false), {}, "none");
    const codegen::GpuNeeds& last = q_.variants.back();
    Arithmetic arithmetic;
    for (const Expr& fact : promised()) arithmetic.assume(fact);
    for (const auto& [dim, value] : q_.fixed_dims) arithmetic.assume(Expr::sym(dim) == Expr(value));
    std::vector<std::string> limits;
    for (const auto& [dim, value] : q_.fixed_dims)
      limits.push_back("calls with another " + dim + " than " + std::to_string(value) +
                       " get another kernel");
    Answer answer = decided(true);
    std::string reason;
    for (const Expr& condition : last.conditions) {
      if (is_declared_limit(condition)) {
        limits.push_back("size limit of GPU kernels: " + condition.str());
        continue;
      }
      const Answer one = arithmetic.prove(condition);
      if (one.verdict != Verdict::kProved) {
        answer = one;
        reason = "no variant takes a call with !(" + condition.str() + ")";
        break;
      }
      answer.prover = std::max(answer.prover, one.prover);
    }
    if (reason.empty() && !last.ranges.empty()) {
      answer = decided(false);
      reason = "the last variant limits `" + last.ranges[0].attr + "`";
    }
    for (const std::string& name : last.aligned) {
      const TensorParam* tensor = q_.launched->tensor(name);
      if (!reason.empty() || tensor == nullptr || tensor->role == ir::Role::kWorkspace) continue;
      // The copy engine walks forwards only, so even a small alignment asks for something.
      answer = decided(false);
      reason = "the last variant wants `" + name + "` aligned to " +
               std::to_string(last.align_bytes) + " bytes, with positive strides";
    }
    report(Kind::kHostAdmits, subject, answer, limits, reason);
  }

  const ContractQuestion& q_;
  const std::vector<HostCheck>& checks_;
  std::vector<Statement> bound_;
  std::vector<Finding> findings_;
};

}  // namespace

std::vector<Finding> prove_contract(const ContractQuestion& question,
                                    const std::vector<HostCheck>* checks) {
  const std::vector<HostCheck> own = host::host_checks(*question.launched, question.on_gpu);
  return ContractProver(question, checks != nullptr ? *checks : own).run();
}

}  // namespace rooftile::verify
