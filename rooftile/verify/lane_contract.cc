// SPDX-License-Identifier: Apache-2.0
#include "rooftile/verify/lane_contract.h"

#include <algorithm>

#include "rooftile/verify/tile/contract_facts.h"

namespace rooftile::verify {
namespace {

IndexClause& clause_of(LaneContract& contract, const ir::TensorParam& tensor) {
  for (IndexClause& clause : contract.index)
    if (clause.facts.tensor == tensor.name) return clause;
  IndexClause& fresh = contract.index.emplace_back();
  fresh.facts.tensor = tensor.name;
  fresh.facts.rank = static_cast<int>(tensor.shape.size());
  return fresh;
}

bool speaks_of(const IndexClause& index, const std::string& tensor) {
  return index.facts.tensor == tensor ||
         std::any_of(index.each.begin(), index.each.end(), [&](const Expr& fact) {
           return fact.str().find(tensor + "[") != std::string::npos;
         });
}

}  // namespace

LaneContract lane_contract(const codegen::GpuVariant& variant, size_t phase) {
  const ir::Program& program = *variant.program;
  const codegen::GpuNeeds& needs = variant.needs;
  LaneContract out;
  for (const ContractFact& fact : contract_facts(program)) out.facts.push_back(fact.fact);
  out.facts.insert(out.facts.end(), needs.conditions.begin(), needs.conditions.end());
  for (const ir::Clause& clause : program.clauses) {
    const ir::TensorParam* tensor = program.tensor(clause.tensor);
    if (tensor == nullptr) continue;
    if (clause.kind == ir::Clause::kNonDecreasing)
      clause_of(out, *tensor).facts.non_decreasing = true;
    if (clause.kind == ir::Clause::kDistinct) {
      IndexClause& index = clause_of(out, *tensor);
      index.facts.distinct = !clause.has_except;
      index.distinct_but = clause.has_except;
      index.repeated = clause.except;
    }
    if (clause.kind != ir::Clause::kIndexRange) continue;
    IndexClause& index = clause_of(out, *tensor);
    index.facts.has_range = true;
    index.facts.lo = clause.lo;
    index.facts.hi = clause.hi;
    index.has_except = clause.has_except;
    index.except = clause.except;
    index.used = clause.used;
    index.used_unit = clause.used_unit;
  }
  for (const std::string& tensor : needs.aligned) out.align_bytes[tensor] = needs.align_bytes;
  for (const ir::TensorParam& tensor : program.tensors) {
    if (tensor.role == ir::Role::kInOut) out.kept.insert(tensor.name);
    for (const std::string& other : tensor.may_alias)
      out.may_alias.emplace_back(tensor.name, other);
  }
  for (size_t before = 0; before < phase; ++before) {
    std::vector<IndexClause> left = stored_indices(variant.phases[before], out);
    // What was known of a tensor ends with the phase that stores others in it.
    for (const lanes::TensorUse& use : variant.phases[before].tensors)
      if (use.written)
        std::erase_if(out.index,
                      [&](const IndexClause& index) { return speaks_of(index, use.name); });
    for (IndexClause& index : left) out.index.push_back(std::move(index));
  }
  return out;
}

}  // namespace rooftile::verify
