// SPDX-License-Identifier: Apache-2.0
#include "rooftile/verify/arith/relevance.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>

namespace rooftile::verify::arith {
namespace {

constexpr int kHops = 3;
constexpr int kMostOfOne = 12;  // facts with an atom, for it to connect them

// What a fact speaks of: atoms, and of a quotient, a minimum or a conditional value what it is made
// from; of an element its tensor, and what its index is the sum of.
struct Topics {
  std::set<AtomId> atoms;
  std::set<std::string> tensors;

  bool includes(const Topics& other) const {
    return std::includes(atoms.begin(), atoms.end(), other.atoms.begin(), other.atoms.end());
  }
  void add(const Topics& other) {
    atoms.insert(other.atoms.begin(), other.atoms.end());
    tensors.insert(other.tensors.begin(), other.tensors.end());
  }
};

void collect(const AtomTable& atoms, const Term& t, Topics& out) {
  for (const auto& part : t.parts) {
    const AtomId id = part.first;
    if (!out.atoms.insert(id).second) continue;
    const Atom& atom = atoms[id];
    out.atoms.insert(atom.factors.begin(), atom.factors.end());
    if (atom.kind != Atom::Kind::kLoad) {
      for (const Term& arg : atom.args) collect(atoms, arg, out);
      continue;
    }
    out.tensors.insert(atom.name);
    for (const Term& arg : atom.args)
      for (const auto& of_index : arg.parts) out.atoms.insert(of_index.first);
  }
}

void collect(const AtomTable& atoms, const Formula& f, Topics& out) {
  if (f->kind == FormulaNode::Kind::kLiteral) collect(atoms, f->literal.term, out);
  for (const Formula& arg : f->args) collect(atoms, arg, out);
}

// Facts on fixed elements of a tensor (its first, its last) bear on all of it.
bool of_one_tensor(const AtomTable& atoms, const Topics& topics) {
  return topics.tensors.size() == 1 &&
         std::none_of(topics.atoms.begin(), topics.atoms.end(), [&](AtomId id) {
           const Atom& atom = atoms[id];
           return atom.kind == Atom::Kind::kLoad &&
                  std::any_of(atom.args.begin(), atom.args.end(), [&](const Term& index) {
                    return std::any_of(index.parts.begin(), index.parts.end(), [&](const auto& p) {
                      return atoms[p.first].kind != Atom::Kind::kSymbol;
                    });
                  });
         });
}

}  // namespace

std::vector<Formula> relevant(const AtomTable& atoms, const std::vector<Formula>& facts,
                              const Formula& question) {
  std::vector<Topics> of(facts.size());
  std::map<AtomId, int> count;
  for (size_t i = 0; i < facts.size(); ++i) {
    collect(atoms, facts[i], of[i]);
    for (const AtomId id : of[i].atoms) ++count[id];
  }
  Topics reached;
  collect(atoms, question, reached);
  // Products that the question does not speak of are what leads astray first.
  std::vector<bool> strange(facts.size());
  for (size_t i = 0; i < facts.size(); ++i)
    strange[i] = std::any_of(of[i].atoms.begin(), of[i].atoms.end(), [&](AtomId id) {
      return atoms.is_product(id) && reached.atoms.count(id) == 0;
    });
  std::vector<bool> taken(facts.size());
  for (int hop = 0; hop < kHops; ++hop) {
    Topics more;
    for (size_t i = 0; i < facts.size(); ++i) {
      if (taken[i] || strange[i]) continue;
      taken[i] =
          std::any_of(
              of[i].atoms.begin(), of[i].atoms.end(),
              [&](AtomId id) { return reached.atoms.count(id) != 0 && count[id] <= kMostOfOne; }) ||
          (of_one_tensor(atoms, of[i]) && reached.tensors.count(*of[i].tensors.begin()) != 0);
      if (taken[i]) more.add(of[i]);
    }
    reached.add(more);
  }
  std::vector<Formula> out;
  for (size_t i = 0; i < facts.size(); ++i)
    if (taken[i] || (!strange[i] && reached.includes(of[i]))) out.push_back(facts[i]);
  return out;
}

}  // namespace rooftile::verify::arith
