// SPDX-License-Identifier: Apache-2.0
#include "rooftile/verify/cpu/size_bound.h"

#include <algorithm>
#include <cmath>

namespace rooftile::verify {
namespace {

bool is_output(const ir::TensorParam& t) {
  return t.role == ir::Role::kOut || t.role == ir::Role::kInOut;
}

// Nothing in it can be negative: sums, products, quotients and extrema of dims and positive
// numbers.
bool is_not_negative(const Expr& e, const ir::Program& program) {
  if (e.is_const()) return e.value() >= 0;
  if (e.kind() == ExprKind::kSym) return program.scalar(e.name()) == nullptr;
  if (e.kind() == ExprKind::kMax)
    return is_not_negative(e.args()[0], program) || is_not_negative(e.args()[1], program);
  if (e.kind() == ExprKind::kSub || e.kind() == ExprKind::kIndexLoad) return false;
  return std::all_of(e.args().begin(), e.args().end(),
                     [&](const Expr& arg) { return is_not_negative(arg, program); });
}

// b of a * (b / max(a, 1)), which is at most b.
std::optional<Expr> shared_out(const Expr& a, const Expr& quotient) {
  if (quotient.kind() != ExprKind::kFloorDiv) return std::nullopt;
  const Expr& divisor = quotient.args()[1];
  if (!divisor.same_as(max(a, Expr(1))) && !divisor.same_as(a)) return std::nullopt;
  return quotient.args()[0];
}

}  // namespace

SizeBound::SizeBound(Reasoner& reasoner) : reasoner_(reasoner), program_(reasoner.program()) {
  for (const ir::TensorParam& t : program_.tensors)
    for (const Expr& extent : t.shape)
      if (extent.kind() == ExprKind::kSym) dims_.insert(extent.name());
  // The launcher returns early when every output is empty, so extents that all of them have are not
  // 0.
  std::vector<const ir::TensorParam*> outputs;
  for (const ir::TensorParam& t : program_.tensors)
    if (is_output(t)) outputs.push_back(&t);
  if (outputs.empty()) return;
  for (const Expr& extent : outputs[0]->shape)
    if (std::all_of(outputs.begin(), outputs.end(), [&](const ir::TensorParam* t) {
          return std::any_of(t->shape.begin(), t->shape.end(),
                             [&](const Expr& e) { return e.same_as(extent); });
        }))
      if (!extent.is_const()) not_empty_.push_back(Expr(1) <= extent);
}

std::optional<double> SizeBound::of(const Expr& e) {
  const std::optional<Sum> sum = sum_of(e);
  if (!sum) return std::nullopt;
  double total = 0;
  for (const auto& [dims, factor] : *sum) total += factor * product(dims, true);
  return total;
}

std::optional<SizeBound::Sum> SizeBound::sum_of(const Expr& e) {
  auto constant = [](double value) { return Sum{{Product{}, value}}; };
  auto added = [](Sum a, const Sum& b) {
    for (const auto& [dims, factor] : b) a[dims] += factor;
    return a;
  };
  if (e.is_const()) return constant(std::fabs(static_cast<double>(e.value())));
  if (e.kind() == ExprKind::kSym) return Sum{{Product{e.name()}, 1.0}};
  if (e.kind() == ExprKind::kIndexLoad) return std::nullopt;
  const std::vector<Expr>& args = e.args();
  if (e.kind() == ExprKind::kMul)
    for (size_t i : {0, 1})
      if (const std::optional<Expr> whole = shared_out(args[i], args[1 - i])) return sum_of(*whole);
  // The smaller of two sizes is at most the one that is a number.
  if (e.kind() == ExprKind::kMin && is_not_negative(e, program_))
    for (const Expr& arg : args)
      if (arg.is_const()) return constant(static_cast<double>(arg.value()));
  std::vector<Sum> parts;
  for (const Expr& arg : args) {
    std::optional<Sum> part = sum_of(arg);
    if (!part) return std::nullopt;
    parts.push_back(std::move(*part));
  }
  switch (e.kind()) {
    case ExprKind::kAdd:
    case ExprKind::kSub:
    case ExprKind::kMin:
    case ExprKind::kMax:
      return added(parts[0], parts[1]);
    case ExprKind::kSelect:
      return added(parts[1], parts[2]);
    case ExprKind::kMul: {
      Sum out;
      for (const auto& [x, fx] : parts[0])
        for (const auto& [y, fy] : parts[1]) {
          Product both = x;
          both.insert(both.end(), y.begin(), y.end());
          std::sort(both.begin(), both.end());
          out[both] += fx * fy;
        }
      return out;
    }
    case ExprKind::kFloorDiv: {
      // |floor(a / c)| <= |a| / c + 1; by what is no number, which is not 0, at most |a|.
      if (!args[1].is_const()) return parts[0];
      for (auto& entry : parts[0]) entry.second /= std::fabs(static_cast<double>(args[1].value()));
      return added(parts[0], constant(1));
    }
    case ExprKind::kMod:
      return parts[1];
    default:
      return constant(1);  // comparisons
  }
}

double SizeBound::single(const std::string& symbol) {
  if (const auto known = singles_.find(symbol); known != singles_.end()) return known->second;
  double most = static_cast<double>(kLargestExtent);
  if (const ir::ScalarParam* scalar = program_.scalar(symbol)) {
    const bool known = scalar->has_range && scalar->min.is_const() && scalar->max.is_const();
    most = known ? std::max(std::fabs(static_cast<double>(scalar->min.value())),
                            std::fabs(static_cast<double>(scalar->max.value())))
                 : 0x1p63;
  }
  for (const ir::Clause& c : program_.clauses)
    if (c.kind == ir::Clause::kCondition && c.condition.kind() == ExprKind::kLe &&
        c.condition.args()[0].same_as(Expr::sym(symbol)) && c.condition.args()[1].is_const())
      most = std::min(most, static_cast<double>(c.condition.args()[1].value()));
  return singles_[symbol] = most;
}

bool SizeBound::is_present(const Expr& extent) {
  return extent.is_const() ? extent.value() >= 1 : reasoner_.proves(not_empty_, Expr(1) <= extent);
}

// By the contract's word, or because it divides the other, which is not 0.
bool SizeBound::never_exceeds(const std::string& dim, const std::string& other) {
  const Expr x = Expr::sym(dim), y = Expr::sym(other);
  if (reasoner_.proves(not_empty_, x <= y)) return true;
  return reasoner_.proves(not_empty_, Expr(1) <= y) &&
         reasoner_.proves(not_empty_, y % max(x, Expr(1)) == Expr(0));
}

// The number of elements of a tensor that has all these extents, and others that are not 0.
double SizeBound::by_tensors(const Product& dims) {
  double most = INFINITY;
  for (const ir::TensorParam& t : program_.tensors) {
    if (t.role == ir::Role::kWorkspace) continue;
    std::vector<Expr> rest = t.shape;
    bool all = true;
    for (const std::string& dim : dims) {
      const auto at = std::find_if(rest.begin(), rest.end(),
                                   [&](const Expr& e) { return e.same_as(Expr::sym(dim)); });
      if (at == rest.end()) {
        all = false;
        break;
      }
      rest.erase(at);
    }
    if (all && std::all_of(rest.begin(), rest.end(), [&](const Expr& e) { return is_present(e); }))
      most = static_cast<double>(kMostElements);
  }
  return most;
}

// `replace`: whether a dim may stand for a smaller one.
double SizeBound::product(const Product& dims, bool replace) {
  if (dims.empty()) return 1;
  const auto key = std::make_pair(dims, replace);
  if (const auto known = products_.find(key); known != products_.end()) return known->second;
  double most = dims.size() == 1 ? std::min(single(dims[0]), by_tensors(dims)) : by_tensors(dims);
  // Some of them in one tensor, one by itself.
  for (size_t i = 0; i < dims.size() && dims.size() > 1; ++i) {
    Product rest = dims;
    rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(i));
    most = std::min(most, product({dims[i]}, replace) * product(rest, replace));
  }
  for (size_t i = 0; i < dims.size() && replace; ++i)
    for (const std::string& other : dims_) {
      if (other == dims[i]) continue;
      Product turned = dims;
      turned[i] = other;
      std::sort(turned.begin(), turned.end());
      const double larger = product(turned, false);
      if (larger < most && never_exceeds(dims[i], other)) most = larger;
    }
  return products_[key] = most;
}

}  // namespace rooftile::verify
