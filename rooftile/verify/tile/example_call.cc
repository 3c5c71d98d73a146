// SPDX-License-Identifier: Apache-2.0
#include "rooftile/verify/tile/example_call.h"

#include <algorithm>

#include "rooftile/ir/types.h"
#include "rooftile/verify/tile/contract_facts.h"

namespace rooftile::verify {

using ir::Clause;

namespace {

constexpr int64_t kMostElements = int64_t{1} << 21;  // of an index tensor

class Maker {
 public:
  Maker(const ir::Program& program, const Env& given, Filling filling)
      : program_(program), env_(given), filling_(filling) {}

  std::optional<ExampleCall> run() {
    sizes();
    if (!shapes()) return std::nullopt;
    for (const ir::TensorParam& t : program_.tensors)
      if (tensors_.count(t.name) > 0) fill(t);
    if (!contract_holds()) return std::nullopt;
    ExampleCall out;
    for (const ir::ScalarParam& s : program_.scalars)
      if (s.is_float) out.floats[s.name] = s.has_range ? std::clamp(1.0, s.fmin, s.fmax) : 1.0;
    out.ints = std::move(env_);
    out.index = std::move(tensors_);
    return out;
  }
  const std::string& why() const { return why_; }

 private:
  bool failed(std::string why) {
    why_ = std::move(why);
    return false;
  }

  // Dims and attributes that the question did not ask about: small ones.
  void sizes() {
    for (const ir::TensorParam& t : program_.tensors)
      if (t.role != ir::Role::kWorkspace)
        for (const Expr& extent : t.shape)
          if (extent.kind() == ExprKind::kSym) env_.try_emplace(extent.name(), 1);
    for (const ir::ScalarParam& s : program_.scalars) {
      if (s.is_float) continue;
      const auto least = s.has_range ? evaluate(s.min, env_) : std::optional<int64_t>(0);
      env_.try_emplace(s.name, least.value_or(0));
    }
  }

  // Every extent has a value; index tensors get their memory.
  bool shapes() {
    for (const ir::TensorParam& t : program_.tensors) {
      NdArray array;
      int64_t count = 1;
      for (const Expr& extent : t.shape) {
        if (t.role == ir::Role::kWorkspace) continue;
        const std::optional<int64_t> n = evaluate(extent, env_);
        if (!n || *n < 0) return failed("an extent of `" + t.name + "` has no value");
        array.shape.push_back(*n);
        count = *n > 0 && count > kMostElements / *n ? kMostElements + 1 : count * *n;
      }
      if (t.role != ir::Role::kIn || !ir::is_integer(t.dtype)) continue;
      if (count > kMostElements && !spoken_of(t.name)) continue;  // numbers, zeros will do
      if (count > kMostElements) return failed("`" + t.name + "` is too large to be filled");
      array.data.assign(static_cast<size_t>(count), 0.0);
      tensors_[t.name] = std::move(array);
    }
    return true;
  }

  bool spoken_of(const std::string& tensor) const {
    const auto element = env_.lower_bound(tensor + "[");
    return (element != env_.end() && element->first.starts_with(tensor + "[")) ||
           std::any_of(program_.clauses.begin(), program_.clauses.end(),
                       [&](const Clause& c) { return c.tensor == tensor || c.used == tensor; });
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
    std::optional<int64_t> first, last, least, end, marker;
    bool distinct = false;
    for (const Clause& c : program_.clauses) {
      if (c.tensor != t.name) continue;
      if (c.kind == Clause::kIndexRange) {
        least = value(c.lo);
        end = value(c.hi);
      }
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
    // Near the end of the range, no two neighbours alike.
    if (filling_ == Filling::kLarge && least && end && *end > *least && !distinct && !first &&
        !last)
      for (size_t i = 0; i < array.data.size(); ++i)
        array.data[i] =
            static_cast<double>(*end - 1 - static_cast<int64_t>(i % 3) % (*end - *least));
    if (const auto all = env_.find(t.name); all != env_.end())  // one value for all elements
      std::fill(array.data.begin(), array.data.end(), static_cast<double>(all->second));
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

  bool contract_holds() {
    for (const Clause& c : program_.clauses) {
      const auto found = tensors_.find(c.tensor);
      const bool holds = c.kind == Clause::kCondition
                             ? value(c.condition).value_or(0) != 0
                             : found == tensors_.end() || clause_holds(c, found->second);
      if (!holds) return failed("the call does not meet " + clause_text(c));
    }
    for (const ir::ScalarParam& s : program_.scalars) {
      if (s.is_float || !s.has_range) continue;
      const int64_t x = env_.find(s.name)->second;
      if (x < value(s.min).value_or(x) || x > value(s.max).value_or(x))
        return failed("`" + s.name + "` is out of its range");
    }
    return true;
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
  const Filling filling_;
  std::string why_;
};

}  // namespace

std::optional<ExampleCall> example_call(const ir::Program& program, const Env& given,
                                        std::string* why, Filling filling) {
  Maker maker(program, given, filling);
  std::optional<ExampleCall> out = maker.run();
  if (why != nullptr) *why = maker.why();
  return out;
}

}  // namespace rooftile::verify
