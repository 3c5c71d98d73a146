// SPDX-License-Identifier: Apache-2.0
#include "rooftile/verify/tile/replay.h"

#include <algorithm>

#include "rooftile/ir/interp.h"
#include "rooftile/ir/types.h"

namespace rooftile::verify {

using ir::Clause;

namespace {

constexpr int64_t kMostElements = int64_t{1} << 21;

class Call {
 public:
  Call(const ir::Program& program, const Env& given) : program_(program), env_(given) {}

  std::optional<Status> run() {
    if (!sizes() || !shapes()) return std::nullopt;
    for (const ir::TensorParam& t : program_.tensors)
      if (t.role == ir::Role::kIn && ir::is_integer(t.dtype)) fill(t);
    if (!contract_holds()) return std::nullopt;
    ir::FloatAttrs floats;
    for (const ir::ScalarParam& s : program_.scalars)
      if (s.is_float) floats[s.name] = s.has_range ? std::clamp(1.0, s.fmin, s.fmax) : 1.0;
    return ir::interpret(program_, env_, floats, tensors_);
  }

 private:
  // Dims and attributes that the question did not ask about: small ones.
  bool sizes() {
    for (const ir::TensorParam& t : program_.tensors)
      if (t.role != ir::Role::kWorkspace)
        for (const Expr& extent : t.shape)
          if (extent.kind() == ExprKind::kSym) env_.try_emplace(extent.name(), 1);
    for (const ir::ScalarParam& s : program_.scalars) {
      if (s.is_float) continue;
      const auto least = s.has_range ? evaluate(s.min, env_) : std::optional<int64_t>(0);
      env_.try_emplace(s.name, least.value_or(0));
    }
    return true;
  }

  bool shapes() {
    for (const ir::TensorParam& t : program_.tensors) {
      int64_t count = 1;
      NdArray array;
      for (const Expr& extent : t.shape) {
        const std::optional<int64_t> n = evaluate(extent, env_);
        if (!n || *n < 0 || *n > kMostElements) return false;
        array.shape.push_back(*n);
        count *= *n;
        if (count > kMostElements) return false;
      }
      if (t.role == ir::Role::kWorkspace) continue;
      array.data.assign(static_cast<size_t>(count), 0.0);
      tensors_[t.name] = std::move(array);
    }
    return true;
  }

  int64_t read(const std::string& tensor, const std::vector<int64_t>& at) const {
    const auto found = tensors_.find(tensor);
    if (found == tensors_.end()) return 0;
    const NdArray& array = found->second;
    int64_t offset = 0;
    for (size_t d = 0; d < at.size(); ++d) {
      if (at[d] < 0 || at[d] >= array.shape[d]) return 0;
      offset = offset * array.shape[d] + at[d];
    }
    return static_cast<int64_t>(array.data[static_cast<size_t>(offset)]);
  }
  std::optional<int64_t> value(const Expr& e) const {
    return evaluate(e, env_, [this](const std::string& tensor, const std::vector<int64_t>& at) {
      return read(tensor, at);
    });
  }

  // Evenly spread between the ends where the order counts, the least admitted value elsewhere; what
  // the counterexample says of single elements goes on top.
  void fill(const ir::TensorParam& t) {
    NdArray& array = tensors_[t.name];
    const int64_t row = array.shape.empty() ? 1 : array.shape.back();
    std::optional<int64_t> first, last, least, marker;
    bool distinct = false;
    for (const Clause& c : program_.clauses) {
      if (c.tensor != t.name) continue;
      if (c.kind == Clause::kIndexRange) least = value(c.lo);
      if (c.kind == Clause::kFirstIs) first = value(c.lo);
      if (c.kind == Clause::kLastIs) last = value(c.lo);
      if (c.kind == Clause::kDistinct) distinct = true;
      if (c.has_except) marker = value(c.except);
    }
    const int64_t from = first.value_or(least.value_or(0)), to = last.value_or(from);
    for (size_t i = 0; i < array.data.size(); ++i) {
      const int64_t at = static_cast<int64_t>(i) % row;
      array.data[i] = static_cast<double>(distinct  ? marker.value_or(from + at)
                                          : row < 2 ? to
                                                    : from + (to - from) * at / (row - 1));
    }
    const std::string prefix = t.name + "[";
    for (auto it = env_.lower_bound(prefix);
         it != env_.end() && it->first.compare(0, prefix.size(), prefix) == 0; ++it)
      set_element(array, it->first.substr(prefix.size()), it->second);
  }

  // "2, 0]"
  static void set_element(NdArray& array, const std::string& text, int64_t element) {
    size_t offset = 0, position = 0;
    for (int64_t extent : array.shape) {
      size_t used = 0;
      if (position >= text.size() || (text[position] != '-' && !isdigit(text[position]))) return;
      const int64_t at = std::stoll(text.substr(position), &used);
      if (at < 0 || at >= extent) return;
      offset = offset * static_cast<size_t>(extent) + static_cast<size_t>(at);
      position += used + 2;  // ", " or "]"
    }
    array.data[offset] = static_cast<double>(element);
  }

  bool contract_holds() const {
    for (const Clause& c : program_.clauses) {
      if (c.kind == Clause::kCondition && value(c.condition).value_or(0) == 0) return false;
      const auto found = tensors_.find(c.tensor);
      if (c.kind != Clause::kCondition && found != tensors_.end() &&
          !clause_holds(c, found->second))
        return false;
    }
    return std::all_of(program_.scalars.begin(), program_.scalars.end(), [&](const auto& s) {
      if (s.is_float || !s.has_range) return true;
      const int64_t x = env_.find(s.name)->second;
      return value(s.min).value_or(x) <= x && x <= value(s.max).value_or(x);
    });
  }

  bool clause_holds(const Clause& c, const NdArray& array) const {
    const int64_t row = array.shape.empty() ? 1 : array.shape.back();
    const int64_t lo = value(c.lo).value_or(0), hi = value(c.hi).value_or(0);
    for (size_t i = 0; i < array.data.size(); ++i) {
      const auto x = static_cast<int64_t>(array.data[i]);
      const int64_t at = static_cast<int64_t>(i) % row, r = static_cast<int64_t>(i) / row;
      if (c.kind == Clause::kIndexRange) {
        const bool in_use =
            c.used.empty() || at * value(c.used_unit).value_or(1) < read(c.used, {r});
        const bool excepted = c.has_except && x == value(c.except).value_or(x - 1);
        if (in_use && !excepted && (x < lo || x >= hi)) return false;
      }
      if (c.kind == Clause::kNonDecreasing && at > 0 && array.data[i - 1] > array.data[i])
        return false;
      if (c.kind == Clause::kDistinct && !(c.has_except && x == value(c.except).value_or(x - 1)) &&
          std::count(array.data.begin() + (static_cast<std::ptrdiff_t>(i) - at),
                     array.data.begin() + static_cast<std::ptrdiff_t>(i), array.data[i]) > 0)
        return false;
      if (c.kind == Clause::kFirstIs && at == 0 && x != lo) return false;
      if (c.kind == Clause::kLastIs && at == row - 1 && x != lo) return false;
    }
    return true;
  }

  const ir::Program& program_;
  Env env_;
  ir::InterpTensors tensors_;
};

}  // namespace

std::optional<Status> replay(const ir::Program& program, const Env& call) {
  return Call(program, call).run();
}

}  // namespace rooftile::verify
