// SPDX-License-Identifier: Apache-2.0
// Arithmetic of terms, and the rules that make atoms canonical: quotients lose what divides
// exactly, min and max are both min(t, 0) plus something, common factors stand outside.
#include "rooftile/verify/arith/terms.h"

#include <algorithm>
#include <iterator>

namespace rooftile::verify::arith {
namespace {

template <class Combine>
Term merge(const Term& a, const Term& b, Combine combine) {
  Term out;
  out.constant = combine(a.constant, b.constant);
  out.parts.reserve(a.parts.size() + b.parts.size());
  auto x = a.parts.begin(), y = b.parts.begin();
  while (x != a.parts.end() || y != b.parts.end()) {
    AtomId id = 0;
    Wide c = 0;
    if (y == b.parts.end() || (x != a.parts.end() && x->first < y->first)) {
      id = x->first, c = (x++)->second;
    } else if (x == a.parts.end() || y->first < x->first) {
      id = y->first, c = combine(0, (y++)->second);
    } else {
      id = x->first, c = combine((x++)->second, (y++)->second);
    }
    if (c != 0) out.parts.emplace_back(id, c);
  }
  return out;
}

void append_key(std::string& out, const Term& t) {
  for (const auto& [id, c] : t.parts) {
    out += std::to_string(id);
    out += '*';
    out += to_string(c);
    out += '+';
  }
  out += to_string(t.constant);
}

std::string key(char kind, const std::vector<Term>& args) {
  std::string out(1, kind);
  for (const Term& arg : args) {
    out += ' ';
    append_key(out, arg);
  }
  return out;
}

bool leads_negative(const Term& t) { return !t.parts.empty() && t.parts.front().second < 0; }

// Divides t, its constant too, by a common factor, which is returned.
Wide take_factor(Term& t) {
  const Wide g = gcd(content(t), t.constant);
  if (g <= 1) return 1;
  for (auto& part : t.parts) part.second /= g;
  t.constant /= g;
  return g;
}

}  // namespace

std::string to_string(Wide v) {
  if (v == 0) return "0";
  std::string digits;
  const bool negative = v < 0;
  for (; v != 0; v /= 10)
    digits += static_cast<char>('0' + static_cast<int>(v % 10) * (negative ? -1 : 1));
  if (negative) digits += '-';
  std::reverse(digits.begin(), digits.end());
  return digits;
}

Wide Term::coefficient(AtomId id) const {
  auto it = std::lower_bound(parts.begin(), parts.end(), id,
                             [](const auto& part, AtomId wanted) { return part.first < wanted; });
  return it != parts.end() && it->first == id ? it->second : 0;
}

Term operator+(const Term& a, const Term& b) {
  return merge(a, b, [](Wide x, Wide y) { return add(x, y); });
}
Term operator-(const Term& a, const Term& b) {
  return merge(a, b, [](Wide x, Wide y) { return sub(x, y); });
}
Term operator-(const Term& a) { return a * Wide{-1}; }

Term operator*(const Term& a, Wide factor) {
  if (factor == 0) return {};
  Term out = a;
  for (auto& part : out.parts) part.second = mul(part.second, factor);
  out.constant = mul(out.constant, factor);
  return out;
}

Wide content(const Term& t) {
  Wide g = 0;
  for (const auto& part : t.parts) g = gcd(g, part.second);
  return g;
}

// ---- formulas

Formula truth(bool value) {
  static const Formula kYes =
      std::make_shared<FormulaNode>(FormulaNode{FormulaNode::Kind::kTrue, {}, {}});
  static const Formula kNo =
      std::make_shared<FormulaNode>(FormulaNode{FormulaNode::Kind::kFalse, {}, {}});
  return value ? kYes : kNo;
}

Formula at_least_zero(const Term& t) {
  if (t.is_const()) return truth(t.constant >= 0);
  Term out = t;
  if (const Wide g = content(t); g > 1) {
    for (auto& part : out.parts) part.second /= g;
    out.constant =
        floor_div(out.constant, g);  // g (s) + c >= 0 over integers: s >= -c / g, rounded up
  }
  return std::make_shared<FormulaNode>(
      FormulaNode{FormulaNode::Kind::kLiteral, {Relation::kGe, std::move(out)}, {}});
}

Formula is_zero(const Term& t) {
  if (t.is_const()) return truth(t.constant == 0);
  Term out = leads_negative(t) ? -t : t;
  if (const Wide g = content(out); g > 1) {
    if (out.constant % g != 0) return truth(false);
    take_factor(out);
  }
  return std::make_shared<FormulaNode>(
      FormulaNode{FormulaNode::Kind::kLiteral, {Relation::kEq, std::move(out)}, {}});
}

Formula not_zero(const Term& t) { return any_of({at_least_zero(t - 1), at_least_zero(-t - 1)}); }

namespace {

Formula gather(FormulaNode::Kind kind, std::vector<Formula> args) {
  const auto neutral =
      kind == FormulaNode::Kind::kAnd ? FormulaNode::Kind::kTrue : FormulaNode::Kind::kFalse;
  const auto final =
      kind == FormulaNode::Kind::kAnd ? FormulaNode::Kind::kFalse : FormulaNode::Kind::kTrue;
  std::vector<Formula> flat;
  for (Formula& arg : args) {
    if (arg->kind == neutral) continue;
    if (arg->kind == final) return arg;
    if (arg->kind == kind)
      flat.insert(flat.end(), arg->args.begin(), arg->args.end());
    else
      flat.push_back(std::move(arg));
  }
  if (flat.empty()) return truth(neutral == FormulaNode::Kind::kTrue);
  if (flat.size() == 1) return flat.front();
  return std::make_shared<FormulaNode>(FormulaNode{kind, {}, std::move(flat)});
}

}  // namespace

// t >= 0 and -t >= 0 are an equation, which reasons better.
Formula all_of(std::vector<Formula> args) {
  constexpr size_t kMost = 8;
  Formula all = gather(FormulaNode::Kind::kAnd, std::move(args));
  if (all->kind != FormulaNode::Kind::kAnd || all->args.size() > kMost) return all;
  std::vector<Formula> left = all->args;
  bool merged = false;
  for (size_t i = 0; i < left.size(); ++i)
    for (size_t j = i + 1; j < left.size(); ++j) {
      if (left[i]->kind != FormulaNode::Kind::kLiteral ||
          left[j]->kind != FormulaNode::Kind::kLiteral)
        continue;
      const Literal &a = left[i]->literal, &b = left[j]->literal;
      if (a.relation != Relation::kGe || b.relation != Relation::kGe || !(a.term == -b.term))
        continue;
      left[i] = is_zero(a.term);
      left.erase(left.begin() + static_cast<std::ptrdiff_t>(j--));
      merged = true;
    }
  return merged ? gather(FormulaNode::Kind::kAnd, std::move(left)) : all;
}
Formula any_of(std::vector<Formula> args) {
  return gather(FormulaNode::Kind::kOr, std::move(args));
}

Formula negation(const Formula& f) {
  std::vector<Formula> args;
  for (const Formula& arg : f->args) args.push_back(negation(arg));
  switch (f->kind) {
    case FormulaNode::Kind::kTrue:
    case FormulaNode::Kind::kFalse:
      return truth(f->kind == FormulaNode::Kind::kFalse);
    case FormulaNode::Kind::kLiteral:
      return f->literal.relation == Relation::kGe ? at_least_zero(-f->literal.term - 1)
                                                  : not_zero(f->literal.term);
    case FormulaNode::Kind::kAnd:
      return any_of(std::move(args));
    case FormulaNode::Kind::kOr:
      return all_of(std::move(args));
  }
  return truth(false);
}

std::string key_of(const Formula& f) {
  switch (f->kind) {
    case FormulaNode::Kind::kTrue:
      return "T";
    case FormulaNode::Kind::kFalse:
      return "F";
    case FormulaNode::Kind::kLiteral: {
      std::string out = f->literal.relation == Relation::kGe ? "g" : "e";
      append_key(out, f->literal.term);
      return out;
    }
    default:
      break;
  }
  std::vector<std::string> keys;
  for (const Formula& arg : f->args) keys.push_back(key_of(arg));
  std::sort(keys.begin(), keys.end());
  std::string out = f->kind == FormulaNode::Kind::kAnd ? "(&" : "(|";
  for (const std::string& k : keys) out += " " + k;
  return out + ")";
}

// ---- atoms

AtomId AtomTable::intern(const std::string& key, Atom atom) {
  auto [it, fresh] = ids_.emplace(key, size());
  if (fresh) atoms_.push_back(std::make_unique<Atom>(std::move(atom)));
  return it->second;
}

AtomId AtomTable::symbol(const std::string& name) {
  return intern("s " + name, {Atom::Kind::kSymbol, name, {}, {}, nullptr});
}

AtomId AtomTable::load(const std::string& tensor, std::vector<Term> indices) {
  const std::string k = key('l', indices) + " " + tensor;
  return intern(k, {Atom::Kind::kLoad, tensor, {}, std::move(indices), nullptr});
}

std::vector<AtomId> AtomTable::factors(AtomId id) const {
  return is_product(id) ? (*this)[id].factors : std::vector<AtomId>{id};
}

AtomId AtomTable::product(std::vector<AtomId> given) {
  std::vector<AtomId> flat;
  for (AtomId id : given)
    for (AtomId f : factors(id)) flat.push_back(f);
  std::sort(flat.begin(), flat.end());
  if (flat.size() == 1) return flat.front();
  auto [it, fresh] = products_.emplace(flat, size());
  if (fresh)
    atoms_.push_back(
        std::make_unique<Atom>(Atom{Atom::Kind::kProduct, "", std::move(flat), {}, nullptr}));
  return it->second;
}

AtomId AtomTable::find_product(const std::vector<AtomId>& sorted_factors) const {
  if (sorted_factors.size() == 1) return sorted_factors.front();
  auto it = products_.find(sorted_factors);
  return it == products_.end() ? -1 : it->second;
}

Term AtomTable::times(const Term& a, const Term& b) {
  if (b.is_const()) return a * b.constant;
  if (a.is_const()) return b * a.constant;
  Term out = a * b.constant + b * a.constant - mul(a.constant, b.constant);
  for (const auto& [x, cx] : a.parts)
    for (const auto& [y, cy] : b.parts) out = out + Term::atom(product({x, y})) * mul(cx, cy);
  return out;
}

Term AtomTable::quotient(const Term& a, const Term& b) {
  if (b.is_const() && b.constant != 0)
    return b.constant > 0 ? quotient_by_constant(a, b.constant)
                          : quotient_by_constant(-a, neg(b.constant));
  if (a.is_const(0)) return a;
  // a = q b + rest: multiples of b come out, whatever its sign.
  Term out, rest = a;
  if (!b.is_const()) {
    const auto [lead, c] = b.parts.back();  // products come after their factors: the highest degree
    const std::vector<AtomId> lead_factors = factors(lead);
    for (const auto& [id, coefficient] : a.parts) {
      const std::vector<AtomId> all = factors(id);
      if (coefficient % c != 0 ||
          !std::includes(all.begin(), all.end(), lead_factors.begin(), lead_factors.end()))
        continue;
      std::vector<AtomId> left;
      std::set_difference(all.begin(), all.end(), lead_factors.begin(), lead_factors.end(),
                          std::back_inserter(left));
      const Term q =
          left.empty() ? Term(coefficient / c) : Term::atom(product(left)) * (coefficient / c);
      const Term less = rest - times(q, b);
      if (less.parts.size() >= rest.parts.size()) continue;
      out = out + q;
      rest = less;
    }
  }
  if (rest.is_const(0)) return out;
  const std::vector<Term> args = {rest, b};
  return out + Term::atom(intern(key('q', args), {Atom::Kind::kQuotient, "", {}, args, nullptr}));
}

Term AtomTable::quotient_by_constant(const Term& a, Wide c) {
  Term out(floor_div(a.constant, c)), rest(floor_mod(a.constant, c));
  for (const auto& [id, coefficient] : a.parts) {
    Wide r = floor_mod(coefficient, c);
    if (r > c / 2) r -= c;  // -x / c shall not become (c - 1) x / c - x
    if (r != 0) rest.parts.emplace_back(id, r);
    if (const Wide q = (coefficient - r) / c; q != 0) out.parts.emplace_back(id, q);
  }
  if (rest.is_const()) return out;
  const Wide g = gcd(content(rest), c);
  if (g > 1) {
    for (auto& part : rest.parts) part.second /= g;
    rest.constant = floor_div(rest.constant, g);
    c /= g;
    return out + quotient_by_constant(rest, c);
  }
  // floor(-t / c) = -floor((t + c - 1) / c)
  if (leads_negative(rest)) return out - quotient_by_constant(-rest + (c - 1), c);
  // floor((floor(u / d) + k) / c) = floor((u + k d) / (c d))
  if (rest.parts.size() == 1 && rest.parts[0].second == 1) {
    const Atom& inner = (*this)[rest.parts[0].first];
    if (inner.kind == Atom::Kind::kQuotient && inner.args[1].is_const() &&
        inner.args[1].constant > 0) {
      const Wide d = inner.args[1].constant;
      return out + quotient_by_constant(inner.args[0] + mul(rest.constant, d), mul(c, d));
    }
  }
  const std::vector<Term> args = {rest, Term(c)};
  return out + Term::atom(intern(key('q', args), {Atom::Kind::kQuotient, "", {}, args, nullptr}));
}

Term AtomTable::minimum(const Term& a, const Term& b) {
  Term t = a - b;
  if (t.is_const()) return t.constant <= 0 ? a : b;
  const Wide g = take_factor(t);
  Term carried;
  if (leads_negative(t)) {  // min(-u, 0) = min(u, 0) - u
    t = -t;
    carried = -t;
  }
  const AtomId id = intern(key('m', {t}), {Atom::Kind::kMin0, "", {}, {t}, nullptr});
  return b + (Term::atom(id) + carried) * g;
}

Term AtomTable::maximum(const Term& a, const Term& b) { return a + b - minimum(a, b); }

Term AtomTable::select(const Formula& condition, const Term& then, const Term& otherwise) {
  if (condition->kind == FormulaNode::Kind::kTrue) return then;
  if (condition->kind == FormulaNode::Kind::kFalse) return otherwise;
  Term value = then - otherwise;
  if (value.is_const(0)) return then;
  const Wide g = take_factor(value);
  const AtomId id = intern(key('i', {value}) + key_of(condition),
                           {Atom::Kind::kSelect, "", {}, {value}, condition});
  return otherwise + Term::atom(id) * g;
}

bool AtomTable::mentions(AtomId id, AtomId inner) const {
  if (id == inner) return true;
  const Atom& atom = (*this)[id];
  for (AtomId factor : atom.factors)
    if (mentions(factor, inner)) return true;
  for (const Term& arg : atom.args)
    for (const auto& part : arg.parts)
      if (mentions(part.first, inner)) return true;
  std::vector<const FormulaNode*> open;
  if (atom.condition) open.push_back(atom.condition.get());
  while (!open.empty()) {
    const FormulaNode* f = open.back();
    open.pop_back();
    for (const auto& part : f->literal.term.parts)
      if (mentions(part.first, inner)) return true;
    for (const Formula& arg : f->args) open.push_back(arg.get());
  }
  return false;
}

Term AtomTable::replaced(const Term& t, AtomId symbol, const Term& value) {
  Term out(t.constant);
  for (const auto& [id, c] : t.parts) {
    if (!mentions(id, symbol)) {
      out = out + Term::atom(id) * c;
      continue;
    }
    const Atom atom = (*this)[id];
    std::vector<Term> args;
    for (const Term& arg : atom.args) args.push_back(replaced(arg, symbol, value));
    Term with;
    switch (atom.kind) {
      case Atom::Kind::kSymbol:
        with = value;
        break;
      case Atom::Kind::kProduct:
        with = Term(1);
        for (AtomId f : atom.factors) with = times(with, replaced(Term::atom(f), symbol, value));
        break;
      case Atom::Kind::kQuotient:
        with = quotient(args[0], args[1]);
        break;
      case Atom::Kind::kMin0:
        with = minimum(args[0], 0);
        break;
      case Atom::Kind::kSelect:
        with = select(replaced(atom.condition, symbol, value), args[0], 0);
        break;
      case Atom::Kind::kLoad:
        with = Term::atom(load(atom.name, args));
        break;
    }
    out = out + with * c;
  }
  return out;
}

Formula AtomTable::replaced(const Formula& f, AtomId symbol, const Term& value) {
  std::vector<Formula> args;
  for (const Formula& arg : f->args) args.push_back(replaced(arg, symbol, value));
  switch (f->kind) {
    case FormulaNode::Kind::kLiteral: {
      const Term t = replaced(f->literal.term, symbol, value);
      return f->literal.relation == Relation::kGe ? at_least_zero(t) : is_zero(t);
    }
    case FormulaNode::Kind::kAnd:
      return all_of(std::move(args));
    case FormulaNode::Kind::kOr:
      return any_of(std::move(args));
    default:
      return f;
  }
}

}  // namespace rooftile::verify::arith
