// SPDX-License-Identifier: Apache-2.0
// The meaning of every operation on tiles that touches no memory. The formulas of element-wise
// operations are those of elementwise.def, taken over double for floats and over wrapping 64-bit
// integers for the rest.
#include <cmath>
#include <limits>

#include "rooftile/base/float_convert.h"
#include "rooftile/ir/philox.h"
#include "rooftile/ir/tile_value.h"
#include "rooftile/ir/types.h"

namespace rooftile::ir {

// int64 whose overflow wraps, as the `meaning` column needs it.
struct WrappedInt {
  int64_t value;
  WrappedInt(int64_t v) : value(v) {}  // NOLINT: implicit, so that formulas may mix in literals
  explicit operator double() const { return static_cast<double>(value); }
  friend WrappedInt operator+(WrappedInt a, WrappedInt b) { return from(u(a) + u(b)); }
  friend WrappedInt operator-(WrappedInt a, WrappedInt b) { return from(u(a) - u(b)); }
  friend WrappedInt operator*(WrappedInt a, WrappedInt b) { return from(u(a) * u(b)); }
  friend WrappedInt operator-(WrappedInt a) { return from(0 - u(a)); }
  friend bool operator<(WrappedInt a, WrappedInt b) { return a.value < b.value; }
  friend bool operator<=(WrappedInt a, WrappedInt b) { return a.value <= b.value; }
  friend bool operator==(WrappedInt a, WrappedInt b) { return a.value == b.value; }

 private:
  static uint64_t u(WrappedInt a) { return static_cast<uint64_t>(a.value); }
  static WrappedInt from(uint64_t v) { return {static_cast<int64_t>(v)}; }
};
inline int64_t as_int(WrappedInt v) { return v.value; }
inline WrappedInt floor_div(WrappedInt a, WrappedInt b) {
  return b.value == -1 ? -a : floor_div(a.value, b.value);
}
inline WrappedInt floor_mod(WrappedInt a, WrappedInt b) {
  return b.value == -1 ? 0 : floor_mod(a.value, b.value);
}

namespace {

double to_element(double, double v) { return v; }
double to_element(double, int64_t v) { return static_cast<double>(v); }
double to_element(double, bool v) { return v ? 1 : 0; }
int64_t to_element(WrappedInt, WrappedInt v) { return v.value; }
int64_t to_element(WrappedInt, double v) { return static_cast<int64_t>(v); }
int64_t to_element(WrappedInt, int64_t v) { return v; }
int64_t to_element(WrappedInt, bool v) { return v ? 1 : 0; }

template <class T>
auto apply(Ew ew, T a, [[maybe_unused]] T b) {
  switch (ew) {
#define RT_EW(e, text, arity, cls, weight, meaning) \
  case Ew::e:                                       \
    return to_element(a, meaning);
#include "rooftile/ir/elementwise.def"
#undef RT_EW
  }
  return to_element(a, false);
}

// Position in `operand` of each element of a result of `shape`: extents of 1 stretch, rank 0 goes
// with anything.
std::vector<size_t> broadcast_positions(const std::vector<int64_t>& shape,
                                        const TileValue& operand) {
  size_t count = 1;
  for (int64_t extent : shape) count *= static_cast<size_t>(extent);
  std::vector<size_t> out(count, 0);
  size_t stride = 1, inner = 1;
  for (size_t axis = operand.shape.size(); axis-- > 0;) {
    const auto extent = static_cast<size_t>(shape[axis]);
    if (operand.shape[axis] != 1)
      for (size_t i = 0; i < count; ++i) out[i] += i / inner % extent * stride;
    stride *= static_cast<size_t>(operand.shape[axis]);
    inner *= extent;
  }
  return out;
}

class Compute {
 public:
  Compute(const Node& node, std::vector<int64_t> shape,
          const std::vector<const TileValue*>& operands, InterpOptions::Numerics numerics)
      : n_(node),
        in_(operands),
        declared_(numerics == InterpOptions::kDeclared),
        out_(node.dtype, std::move(shape)) {}

  Result<TileValue> run(int64_t begin) {
    switch (n_.op) {
      case Op::kFill:
        fill();
        break;
      case Op::kIota:
        iota(begin);
        break;
      case Op::kElementwise:
        RT_RETURN_IF_ERROR(elementwise());
        break;
      case Op::kSelect:
        select();
        break;
      case Op::kCast:
        cast();
        break;
      case Op::kReduce:
        RT_RETURN_IF_ERROR(reduce());
        break;
      case Op::kScan:
        scan();
        break;
      case Op::kMma:
        mma();
        break;
      case Op::kTranspose:
        transpose();
        break;
      case Op::kPhilox:
        philox();
        break;
      default:
        return problem("operation has no tile meaning", std::string(op_name(n_.op)),
                       "a compute node")
            .diag();
    }
    return std::move(out_);
  }

 private:
  Status problem(std::string message, std::string found, std::string expected) const {
    Diag diag;
    diag.code = ErrorCode::kIrType;
    diag.message = std::move(message);
    diag.found = std::move(found);
    diag.expected = std::move(expected);
    diag.at = n_.loc;
    return diag;
  }

  // The result of one float operation.
  double rounded(double value) const {
    return declared_ ? static_cast<double>(static_cast<float>(value)) : value;
  }

  void fill() {
    for (double& v : out_.floats)
      v = declared_ ? round_to(static_cast<float>(n_.number), n_.dtype) : n_.number;
    for (int64_t& v : out_.ints) v = saturate_to(n_.number, n_.dtype);
  }

  void iota(int64_t begin) {
    const auto axis = static_cast<size_t>(n_.axis);
    size_t inner = 1;
    for (size_t a = axis + 1; a < out_.shape.size(); ++a)
      inner *= static_cast<size_t>(out_.shape[a]);
    for (size_t i = 0; i < out_.ints.size(); ++i) {
      const size_t position = i / inner % static_cast<size_t>(out_.shape[axis]);
      out_.ints[i] = wrap_to(begin + static_cast<int64_t>(position), n_.dtype);
    }
  }

  Status elementwise() {
    const TileValue &a = *in_[0], &b = *in_.back();
    const auto at_a = broadcast_positions(out_.shape, a), at_b = broadcast_positions(out_.shape, b);
    const bool shift = n_.ew == Ew::kShl || n_.ew == Ew::kShr;
    for (size_t i = 0; i < at_a.size(); ++i) {
      if (is_float(a.dtype)) {
        const double v = apply(n_.ew, a.floats[at_a[i]], b.floats[at_b[i]]);
        if (is_float(n_.dtype))
          out_.floats[i] = rounded(v);
        else
          out_.ints[i] = v != 0;
        continue;
      }
      const int64_t y = b.ints[at_b[i]];
      if (shift && (y < 0 || y > 31))
        return problem("shift out of range", std::to_string(y), "0 <= shift <= 31");
      out_.ints[i] = wrap_to(apply(n_.ew, WrappedInt(a.ints[at_a[i]]), WrappedInt(y)), n_.dtype);
    }
    return {};
  }

  void select() {
    const auto at_cond = broadcast_positions(out_.shape, *in_[0]);
    const auto at_then = broadcast_positions(out_.shape, *in_[1]),
               at_else = broadcast_positions(out_.shape, *in_[2]);
    for (size_t i = 0; i < at_cond.size(); ++i) {
      const bool yes = in_[0]->ints[at_cond[i]] != 0;
      const TileValue& from = yes ? *in_[1] : *in_[2];
      const size_t at = yes ? at_then[i] : at_else[i];
      if (is_float(n_.dtype))
        out_.floats[i] = from.floats[at];
      else
        out_.ints[i] = from.ints[at];
    }
  }

  // Floats to integers saturate, integers to integers wrap, anything but 0 is true.
  void cast() {
    const TileValue& x = *in_[0];
    for (size_t i = 0; i < x.numel(); ++i) {
      if (is_float(n_.dtype)) {
        const double v = x.as_double(i);
        out_.floats[i] = declared_ ? round_to(static_cast<float>(v), n_.dtype) : v;
      } else if (n_.dtype == DType::kBool) {
        out_.ints[i] = x.as_double(i) != 0;
      } else {
        out_.ints[i] =
            is_float(x.dtype) ? saturate_to(x.floats[i], n_.dtype) : wrap_to(x.ints[i], n_.dtype);
      }
    }
  }

  // ---- folds along an axis ----

  struct Fold {
    size_t outer, length, inner;
    size_t at(size_t o, size_t k, size_t i) const { return (o * length + k) * inner + i; }
  };
  Fold fold_of(const TileValue& x) const {
    Fold f{1, static_cast<size_t>(x.shape[static_cast<size_t>(n_.axis)]), 1};
    for (size_t a = 0; a < x.shape.size(); ++a)
      if (static_cast<int>(a) != n_.axis)
        (static_cast<int>(a) < n_.axis ? f.outer : f.inner) *= static_cast<size_t>(x.shape[a]);
    return f;
  }

  double combine(double a, double b) const {
    if (n_.reduce == ReduceKind::kSum) return rounded(a + b);
    return apply(n_.reduce == ReduceKind::kMax ? Ew::kMax : Ew::kMin, a, b);
  }
  int64_t combine(int64_t a, int64_t b) const {
    const Ew ew = n_.reduce == ReduceKind::kSum   ? Ew::kAdd
                  : n_.reduce == ReduceKind::kMax ? Ew::kMax
                                                  : Ew::kMin;
    return wrap_to(apply(ew, WrappedInt(a), WrappedInt(b)), n_.dtype);
  }

  // What a fold of nothing gives.
  double neutral(double) const {
    const double infinity = std::numeric_limits<double>::infinity();
    return n_.reduce == ReduceKind::kSum ? 0 : n_.reduce == ReduceKind::kMax ? -infinity : infinity;
  }
  int64_t neutral(int64_t) const {
    const double infinity = std::numeric_limits<double>::infinity();
    return n_.reduce == ReduceKind::kSum
               ? 0
               : saturate_to(n_.reduce == ReduceKind::kMax ? -infinity : infinity, n_.dtype);
  }

  template <class T>
  void fold(const std::vector<T>& x, std::vector<T>& out, const Fold& f) const {
    for (size_t o = 0; o < f.outer; ++o)
      for (size_t i = 0; i < f.inner; ++i) {
        // From the first element, so that the sum of one -0 stays -0.
        T acc = f.length > 0 ? x[f.at(o, 0, i)] : neutral(T());
        for (size_t k = 1; k < f.length; ++k) acc = combine(acc, x[f.at(o, k, i)]);
        out[o * f.inner + i] = acc;
      }
  }

  Status reduce() {
    const TileValue& x = *in_[0];
    const Fold f = fold_of(x);
    if (n_.reduce == ReduceKind::kArgMax) return arg_max(x, f);
    if (is_float(x.dtype))
      fold(x.floats, out_.floats, f);
    else
      fold(x.ints, out_.ints, f);
    return {};
  }

  Status arg_max(const TileValue& x, const Fold& f) {
    if (f.length == 0 && f.outer * f.inner > 0)
      return problem("position of the maximum of nothing", "extent 0", "at least one element");
    for (size_t o = 0; o < f.outer; ++o)
      for (size_t i = 0; i < f.inner; ++i) {
        size_t best = 0;
        for (size_t k = 1; k < f.length; ++k)
          if (is_larger(x, f.at(o, k, i), f.at(o, best, i))) best = k;
        out_.ints[o * f.inner + i] = static_cast<int64_t>(best);
      }
    return {};
  }

  // NaN is larger than any number, not than another NaN.
  static bool is_larger(const TileValue& x, size_t i, size_t j) {
    if (!is_float(x.dtype)) return x.ints[i] > x.ints[j];
    const double a = x.floats[i], b = x.floats[j];
    return a > b || (std::isnan(a) && !std::isnan(b));
  }

  template <class T>
  void prefix(const std::vector<T>& x, std::vector<T>& out, const Fold& f) const {
    for (size_t o = 0; o < f.outer; ++o)
      for (size_t k = 0; k < f.length; ++k)
        for (size_t i = 0; i < f.inner; ++i) {
          const size_t at = f.at(o, k, i);
          out[at] = k == 0 ? x[at] : combine(out[f.at(o, k - 1, i)], x[at]);
        }
  }
  void scan() {
    const Fold f = fold_of(*in_[0]);
    if (is_float(n_.dtype))
      prefix(in_[0]->floats, out_.floats, f);
    else
      prefix(in_[0]->ints, out_.ints, f);
  }

  // ---- matrices ----

  void mma() {
    const TileValue &a = *in_[0], &b = *in_[1];
    const auto rows = static_cast<size_t>(a.shape[0]), depth = static_cast<size_t>(a.shape[1]),
               columns = static_cast<size_t>(b.shape[1]);
    if (in_.size() == 3) {
      out_.floats = in_[2]->floats;
      out_.ints = in_[2]->ints;
    }
    // Every element sums over k in order, starting from the accumulator.
    for (size_t m = 0; m < rows; ++m)
      for (size_t k = 0; k < depth; ++k)
        for (size_t c = 0; c < columns; ++c) {
          const size_t at = m * columns + c, at_a = m * depth + k, at_b = k * columns + c;
          if (is_float(n_.dtype)) {
            const double product = rounded(a.floats[at_a] * b.floats[at_b]);
            out_.floats[at] = rounded(out_.floats[at] + product);
          } else {
            out_.ints[at] = wrap_to(out_.ints[at] + a.ints[at_a] * b.ints[at_b], n_.dtype);
          }
        }
  }

  void transpose() {
    const TileValue& x = *in_[0];
    const auto rows = static_cast<size_t>(x.shape[0]), columns = static_cast<size_t>(x.shape[1]);
    for (size_t r = 0; r < rows; ++r)
      for (size_t c = 0; c < columns; ++c) {
        if (is_float(n_.dtype))
          out_.floats[c * rows + r] = x.floats[r * columns + c];
        else
          out_.ints[c * rows + r] = x.ints[r * columns + c];
      }
  }

  void philox() {
    auto low = [](int64_t v) { return static_cast<uint32_t>(static_cast<uint64_t>(v)); };
    auto high = [](int64_t v) { return static_cast<uint32_t>(static_cast<uint64_t>(v) >> 32); };
    const int64_t seed = in_[1]->ints[0], offset = in_[2]->ints[0];
    for (size_t i = 0; i < out_.ints.size(); ++i) {
      const int64_t c = in_[0]->ints[i];
      out_.ints[i] =
          philox4x32({low(c), high(c), low(offset), high(offset)}, {low(seed), high(seed)})[0];
    }
  }

  const Node& n_;
  const std::vector<const TileValue*>& in_;
  const bool declared_;
  TileValue out_;
};

}  // namespace

int64_t wrap_to(int64_t value, DType dtype) {
  switch (dtype) {
    case DType::kI8:
      return static_cast<int8_t>(value);
    case DType::kU8:
      return static_cast<uint8_t>(value);
    case DType::kI32:
      return static_cast<int32_t>(value);
    case DType::kU32:
      return static_cast<uint32_t>(value);
    case DType::kBool:
      return value != 0;
    default:
      return value;
  }
}

int64_t saturate_to(double value, DType dtype) {
  if (std::isnan(value)) return 0;
  auto clamp = [&](double lo, double hi) {
    return static_cast<int64_t>(std::fmin(std::fmax(std::nearbyint(value), lo), hi));
  };
  switch (dtype) {
    case DType::kI8:
      return clamp(-128, 127);
    case DType::kU8:
      return clamp(0, 255);
    case DType::kI32:
      return clamp(-0x1p31, 0x1p31 - 1);
    case DType::kU32:
      return clamp(0, 0x1p32 - 1);
    case DType::kBool:
      return value != 0;
    default:
      if (value >= 0x1p63) return INT64_MAX;
      return value <= -0x1p63 ? INT64_MIN : static_cast<int64_t>(std::nearbyint(value));
  }
}

Result<TileValue> compute(const Node& node, std::vector<int64_t> shape, int64_t begin,
                          const std::vector<const TileValue*>& operands,
                          InterpOptions::Numerics numerics) {
  return Compute(node, std::move(shape), operands, numerics).run(begin);
}

}  // namespace rooftile::ir
