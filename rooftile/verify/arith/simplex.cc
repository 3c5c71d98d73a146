// SPDX-License-Identifier: Apache-2.0
#include "rooftile/verify/arith/simplex.h"

#include <algorithm>

namespace rooftile::verify::arith {
namespace {

constexpr int kFractionCost = 8;  // of a fraction's sum or product, in those of integers

}  // namespace

int Simplex::variable_of(AtomId id) {
  auto [it, fresh] = of_atom_.emplace(id, static_cast<int>(variables_.size()));
  if (fresh) {
    atoms_.push_back(id);
    Variable v;
    v.column = static_cast<int>(columns_.size());
    columns_.push_back(it->second);
    variables_.push_back(v);
  }
  return it->second;
}

// `form` without its constant; coprime, its first coefficient positive.
int Simplex::variable_of(const Term& form) {
  if (form.parts.size() == 1) return variable_of(form.parts[0].first);
  if (auto it = of_form_.find(form.parts); it != of_form_.end()) return it->second;
  Row row;
  for (const auto& [id, c] : form.parts) variable_of(id);
  row.coefficients.resize(columns_.size());
  Rational value;
  for (const auto& [id, c] : form.parts) {
    const Variable& x = variables_[static_cast<size_t>(of_atom_[id])];
    value = value + x.value * Rational(c);
    if (x.row < 0) {
      auto& at = row.coefficients[static_cast<size_t>(x.column)];
      at = at + Rational(c);
      continue;
    }
    const auto& other = rows_[static_cast<size_t>(x.row)].coefficients;
    for (size_t j = 0; j < other.size(); ++j)
      if (!other[j].is_zero()) row.coefficients[j] = row.coefficients[j] + other[j] * Rational(c);
  }
  const int v = static_cast<int>(variables_.size());
  row.basic = v;
  Variable slack;
  slack.value = value;
  slack.row = static_cast<int>(rows_.size());
  variables_.push_back(slack);
  rows_.push_back(std::move(row));
  of_form_.emplace(form.parts, v);
  return v;
}

bool Simplex::assert_literal(const Literal& literal) {
  Term form = literal.term;
  const Wide constant = form.constant;
  form.constant = 0;
  const bool flipped = form.parts.front().second < 0;
  if (flipped) form = -form;
  const int v = variable_of(form);
  const Wide at = flipped ? constant : neg(constant);
  const bool equal = literal.relation == Relation::kEq;
  const bool low = (flipped && !equal) || bound_below(v, at);
  const bool high = (!flipped && !equal) || bound_above(v, at);
  if (!low || !high) empty_ = true;
  return !empty_;
}

bool Simplex::bound_below(int v, Wide bound) {
  Variable& x = variables_[static_cast<size_t>(v)];
  if (x.bounds.lo && *x.bounds.lo >= bound) return true;
  x.bounds.lo = bound;
  if (x.bounds.hi && *x.bounds.hi < bound) return false;
  if (x.row < 0 && violates_low(x)) move_nonbasic(v, Rational(bound));
  return true;
}

bool Simplex::bound_above(int v, Wide bound) {
  Variable& x = variables_[static_cast<size_t>(v)];
  if (x.bounds.hi && *x.bounds.hi <= bound) return true;
  x.bounds.hi = bound;
  if (x.bounds.lo && bound < *x.bounds.lo) return false;
  if (x.row < 0 && violates_high(x)) move_nonbasic(v, Rational(bound));
  return true;
}

void Simplex::move_nonbasic(int v, const Rational& to) {
  Variable& x = variables_[static_cast<size_t>(v)];
  const Rational by = to - x.value;
  const auto column = static_cast<size_t>(x.column);
  for (Row& row : rows_) {
    if (column >= row.coefficients.size() || row.coefficients[column].is_zero()) continue;
    Variable& basic = variables_[static_cast<size_t>(row.basic)];
    basic.value = basic.value + row.coefficients[column] * by;
  }
  x.value = to;
}

// The basic variable of `r` and the nonbasic one of `column` change places.
void Simplex::pivot(int r, int column, int64_t& work) {
  Row& row = rows_[static_cast<size_t>(r)];
  const auto c = static_cast<size_t>(column);
  const int leaves = row.basic, enters = columns_[c];
  work -= static_cast<int64_t>(rows_.size());
  const Rational inverse = Rational(1) / row.coefficients[c];
  for (size_t j = 0; j < row.coefficients.size(); ++j)
    if (!row.coefficients[j].is_zero())
      row.coefficients[j] = j == c ? inverse : -(row.coefficients[j] * inverse);
  for (Row& other : rows_) {
    if (&other == &row || c >= other.coefficients.size() || other.coefficients[c].is_zero())
      continue;
    const Rational factor = other.coefficients[c];
    other.coefficients.resize(std::max(other.coefficients.size(), row.coefficients.size()));
    other.coefficients[c] = Rational(0);
    for (size_t j = 0; j < row.coefficients.size(); ++j)
      if (!row.coefficients[j].is_zero()) {
        Rational& to = other.coefficients[j];
        to = to + factor * row.coefficients[j];
        work -= to.is_integer() ? 1 : kFractionCost;
      }
  }
  row.basic = enters;
  columns_[c] = leaves;
  variables_[static_cast<size_t>(enters)].row = r;
  variables_[static_cast<size_t>(enters)].column = -1;
  variables_[static_cast<size_t>(leaves)].row = -1;
  variables_[static_cast<size_t>(leaves)].column = column;
}

Simplex::Status Simplex::check(int64_t& work) {
  if (empty_) return Status::kEmpty;
  for (;;) {
    int broken = -1;  // the basic variable of least number outside its bounds
    for (const Row& row : rows_) {
      const Variable& x = variables_[static_cast<size_t>(row.basic)];
      if ((violates_low(x) || violates_high(x)) && (broken < 0 || row.basic < broken))
        broken = row.basic;
    }
    if (broken < 0) return Status::kPoint;
    const Variable& x = variables_[static_cast<size_t>(broken)];
    const bool raise = violates_low(x);
    const int r = x.row;
    const Row& row = rows_[static_cast<size_t>(r)];
    int enters = -1;
    for (size_t j = 0; j < row.coefficients.size(); ++j) {
      if (row.coefficients[j].is_zero()) continue;
      const Variable& y = variables_[static_cast<size_t>(columns_[j])];
      const bool up = (row.coefficients[j].num > 0) == raise;
      const bool can = up ? !y.bounds.hi || y.value < Rational(*y.bounds.hi)
                          : !y.bounds.lo || Rational(*y.bounds.lo) < y.value;
      if (can && (enters < 0 || columns_[j] < enters)) enters = columns_[j];
    }
    if (enters < 0) {
      empty_ = true;
      return Status::kEmpty;
    }
    if (work < 0) return Status::kLimit;
    const Rational to(raise ? *x.bounds.lo : *x.bounds.hi);
    const int column = variables_[static_cast<size_t>(enters)].column;
    pivot(r, column, work);
    move_nonbasic(broken, to);
  }
}

Rational Simplex::value(AtomId id) const {
  auto it = of_atom_.find(id);
  return it == of_atom_.end() ? Rational(0) : variables_[static_cast<size_t>(it->second)].value;
}

Rational Simplex::value(const Term& t) const {
  Rational sum(t.constant);
  for (const auto& [id, c] : t.parts) sum = sum + value(id) * Rational(c);
  return sum;
}

Simplex::Bounds Simplex::bounds(AtomId id) const {
  auto it = of_atom_.find(id);
  return it == of_atom_.end() ? Bounds{} : variables_[static_cast<size_t>(it->second)].bounds;
}

}  // namespace rooftile::verify::arith
