// SPDX-License-Identifier: Apache-2.0
#include "rooftile/verify/tile/contract_facts.h"

#include <optional>
#include <set>

#include "rooftile/ir/types.h"

namespace rooftile::verify {

using ir::Clause;

namespace {

// The values that the dtype of an index tensor can hold.
std::optional<Expr> fits_dtype(DType dtype, const Expr& term) {
  switch (dtype) {
    case DType::kI8:
      return Expr(-128) <= term && term < Expr(128);
    case DType::kU8:
      return Expr(0) <= term && term < Expr(256);
    case DType::kI32:
      return Expr(-(int64_t{1} << 31)) <= term && term < Expr(int64_t{1} << 31);
    case DType::kU32:
      return Expr(0) <= term && term < Expr(int64_t{1} << 32);
    default:
      return std::nullopt;
  }
}

// Row and position in it of an element that a clause about rows speaks of.
Expr row_end(const ir::TensorParam& tensor, const Expr& term, bool first) {
  std::vector<Expr> at = term.args();
  at.back() = first ? Expr(0) : tensor.shape.back() - Expr(1);
  return Expr::index_load(tensor.name, std::move(at));
}

Expr range_fact(const Clause& clause, const Expr& term) {
  Expr inside = clause.lo <= term && term < clause.hi;
  if (clause.has_except) inside = inside || term == clause.except;
  if (clause.used.empty()) return inside;
  // Entry i of row r is in use if and only if i * unit < used[r].
  const Expr in_use =
      term.args()[1] * clause.used_unit < Expr::index_load(clause.used, {term.args()[0]});
  return !in_use || inside;
}

}  // namespace

std::string clause_text(const Clause& clause) {
  std::string text;
  switch (clause.kind) {
    case Clause::kCondition:
      text = clause.condition.str();
      break;
    case Clause::kIndexRange:
      text = clause.lo.str() + " <= " + clause.tensor + "[...] < " + clause.hi.str();
      if (clause.has_except) text += " or " + clause.tensor + "[...] == " + clause.except.str();
      if (!clause.used.empty())
        text += " for the entries in use by " + clause.used + ", " + clause.used_unit.str() +
                " an entry";
      break;
    case Clause::kNonDecreasing:
      text = clause.tensor + " does not decrease";
      break;
    case Clause::kFirstIs:
      text = clause.tensor + " begins with " + clause.lo.str();
      break;
    case Clause::kLastIs:
      text = clause.tensor + " ends with " + clause.lo.str();
      break;
    case Clause::kDistinct:
      text = "no value stands twice in " + clause.tensor;
      if (clause.has_except) text += ", but for " + clause.except.str();
      break;
  }
  return "clause `" + text + "`" + (clause.why.empty() ? "" : ": " + clause.why);
}

std::vector<ContractFact> contract_facts(const ir::Program& program) {
  std::vector<ContractFact> out;
  std::set<std::string> seen;
  auto add = [&](const Expr& fact, const std::string& source) {
    if (!fact.is_const() && seen.insert(fact.str()).second) out.push_back({fact, source});
  };
  for (const ir::TensorParam& tensor : program.tensors)
    if (tensor.role != ir::Role::kWorkspace)
      for (const Expr& extent : tensor.shape)
        add(Expr(0) <= extent, "extents of `" + tensor.name + "` are not negative");
  for (const std::string& param : program.tile_params)
    add(Expr(1) <= Expr::sym(param), std::string(kTileParametersPositive));
  for (const ir::ScalarParam& scalar : program.scalars) {
    if (scalar.is_float || !scalar.has_range) continue;
    const std::string source = "range of attribute `" + scalar.name + "`";
    add(scalar.min <= Expr::sym(scalar.name), source);
    add(Expr::sym(scalar.name) <= scalar.max, source);
  }
  for (const Clause& clause : program.clauses) {
    if (clause.kind == Clause::kCondition) add(clause.condition, clause_text(clause));
    const bool end = clause.kind == Clause::kFirstIs || clause.kind == Clause::kLastIs;
    const ir::TensorParam* tensor = program.tensor(clause.tensor);
    if (!end || tensor == nullptr || tensor->shape.size() != 1) continue;
    const Expr& count = tensor->shape[0];
    const Expr at = clause.kind == Clause::kFirstIs ? Expr(0) : count - Expr(1);
    add(Expr(1) <= count, clause_text(clause));
    add(Expr::index_load(tensor->name, {at}) == clause.lo, clause_text(clause));
  }
  return out;
}

std::vector<IndexFacts> order_facts(const ir::Program& program) {
  std::vector<IndexFacts> out;
  for (const Clause& clause : program.clauses) {
    const ir::TensorParam* tensor = program.tensor(clause.tensor);
    const bool rises = clause.kind == Clause::kNonDecreasing;
    const bool differs = clause.kind == Clause::kDistinct && !clause.has_except;
    if ((!rises && !differs) || tensor == nullptr || tensor->shape.size() != 1) continue;
    IndexFacts facts;
    facts.tensor = clause.tensor;
    facts.non_decreasing = rises;
    facts.distinct = differs;
    out.push_back(std::move(facts));
  }
  return out;
}

std::vector<ContractFact> element_facts(const ir::Program& program, const Expr& term) {
  std::vector<ContractFact> out;
  const ir::TensorParam* tensor = program.tensor(term.name());
  if (tensor == nullptr) return out;
  if (auto fits = fits_dtype(tensor->dtype, term))
    out.push_back({*fits, "`" + tensor->name + "` holds " + std::string(name(tensor->dtype))});
  for (const Clause& clause : program.clauses) {
    if (clause.tensor != term.name()) continue;
    const std::string source = clause_text(clause);
    if (clause.kind == Clause::kIndexRange) out.push_back({range_fact(clause, term), source});
    if (tensor->shape.size() < 2) continue;
    // Of a matrix every row has its ends.
    if (clause.kind == Clause::kFirstIs || clause.kind == Clause::kLastIs)
      out.push_back({row_end(*tensor, term, clause.kind == Clause::kFirstIs) == clause.lo, source});
  }
  return out;
}

}  // namespace rooftile::verify
