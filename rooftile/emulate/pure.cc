// SPDX-License-Identifier: Apache-2.0
// Instantiates the `meaning` column of pure_ops.def for every combination of types that it is
// defined for. Compiled with optimisation and wrapping integers whatever the build type.
#include "rooftile/emulate/pure.h"

#include <array>

#include "rooftile/emulate/lane_math.h"

namespace rooftile::emulate {
namespace {

using lanes::Fn;
using lanes::Ty;

template <Ty kType>
struct TypeOf;
#define RT_TYPE(ty, ctype, field)                                                   \
  template <>                                                                       \
  struct TypeOf<Ty::ty> {                                                           \
    using T = ctype;                                                                \
    static T get(const Cell& c, int lane) { return static_cast<T>(c.field[lane]); } \
    static void set(Cell& c, int lane, T v) { c.field[lane] = v; }                  \
  };
RT_TYPE(kPred, bool, u)
RT_TYPE(kI32, int32_t, i)
RT_TYPE(kU32, uint32_t, u)
RT_TYPE(kI64, int64_t, l)
RT_TYPE(kU64, uint64_t, ul)
RT_TYPE(kF32, float, f)
#undef RT_TYPE

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#ifndef __clang__
#pragma GCC diagnostic ignored "-Wbool-operation"
#pragma GCC diagnostic ignored "-Wbool-compare"
#pragma GCC diagnostic ignored "-Wint-in-bool-context"
#endif
#define RT_LANE_FN(e, text, arity, meaning)                                   \
  struct Meaning_##e {                                                        \
    static constexpr int kArity = arity;                                      \
    template <class A, class B, class C, class D>                             \
    static auto eval(A a, B b, C c, D d) -> std::decay_t<decltype(meaning)> { \
      return meaning;                                                         \
    }                                                                         \
  };
#include "rooftile/lanes/pure_ops.def"
#undef RT_LANE_FN
#pragma GCC diagnostic pop

// The C++ types of the operands of f whose main type is T.
template <Fn f, class T>
struct Operands {
  using A = std::conditional_t<f == Fn::kSelect, bool, T>;
  using B = std::conditional_t<f == Fn::kShl || f == Fn::kShr, uint32_t, T>;
  using C = T;
};

template <Ty kType, class T>
T load(const Cell& cell, int lane) {
  if constexpr (std::is_same_v<T, typename TypeOf<kType>::T>)
    return TypeOf<kType>::get(cell, lane);
  else
    return static_cast<T>(cell.u[lane]);  // the predicate of a select, the distance of a shift
}

template <class M, Fn f, Ty kFrom, Ty kTo>
struct Vector {
  using T = typename TypeOf<kFrom>::T;
  using A = typename Operands<f, T>::A;
  using B = typename Operands<f, T>::B;
  using R = typename TypeOf<kTo>::T;
  static void apply(Cell& out, const Cell* const* in) {
    for (int lane = 0; lane < kLanes; ++lane) {
      const A a = load<kFrom, A>(*in[0], lane);
      B b{};
      T c{}, d{};
      if constexpr (M::kArity > 1) b = load<kFrom, B>(*in[1], lane);
      if constexpr (M::kArity > 2) c = load<kFrom, T>(*in[2], lane);
      if constexpr (M::kArity > 3) d = load<kFrom, T>(*in[3], lane);
      TypeOf<kTo>::set(out, lane, static_cast<R>(M::eval(a, b, c, d)));
    }
  }
};

constexpr bool is_comparison(Fn f) {
  return f == Fn::kLt || f == Fn::kLe || f == Fn::kEq || f == Fn::kNe;
}

// Whether f on kFrom gives kTo; the C++ expression alone would admit any conversion.
template <Fn f>
constexpr bool allowed(Ty from, Ty to) {
  constexpr bool kLogic = f == Fn::kLogicalAnd || f == Fn::kLogicalOr || f == Fn::kLogicalNot;
  const bool wide = from == Ty::kI64 || from == Ty::kU64;
  switch (f) {
    case Fn::kCast:  // of a predicate: 0 or 1
      return to != Ty::kPred;
    case Fn::kBits:
      return from != Ty::kPred && to != Ty::kPred && wide == (to == Ty::kI64 || to == Ty::kU64);
    case Fn::kPackBf16:
    case Fn::kPackF16:
    case Fn::kToF8E4M3:
    case Fn::kToF8E5M2:
      return from == Ty::kF32 && to == Ty::kU32;
    case Fn::kLowBf16:
    case Fn::kHighBf16:
    case Fn::kLowF16:
    case Fn::kHighF16:
    case Fn::kFromF8E4M3:
    case Fn::kFromF8E5M2:
      return from == Ty::kU32 && to == Ty::kF32;
    case Fn::kMulHi:
    case Fn::kPrmt:
      return from == Ty::kU32 && to == Ty::kU32;
    case Fn::kMatrixDesc:
      return from == Ty::kU32 && to == Ty::kU64;
    case Fn::kSelect:
      return from == to;
    case Fn::kMin:
    case Fn::kMax:
    case Fn::kAdd:
    case Fn::kSub:
    case Fn::kMul:
    case Fn::kNeg:
    case Fn::kAbs:
      return from == to && from != Ty::kPred;
    case Fn::kFloorDiv:
    case Fn::kFloorMod:
    case Fn::kAnd:
    case Fn::kOr:
    case Fn::kXor:
    case Fn::kShl:
    case Fn::kShr:
      return from == to && from != Ty::kPred && from != Ty::kF32;
    default:
      if (is_comparison(f)) return to == Ty::kPred;
      if (kLogic) return from == Ty::kPred && to == Ty::kPred;
      return from == Ty::kF32 && to == Ty::kF32;  // the functions of a real number
  }
}

inline constexpr int kNumFns = static_cast<int>(Fn::kMatrixDesc) + 1;
inline constexpr int kNumTypes = static_cast<int>(Ty::kF32) + 1;

template <class M, Fn f, Ty kFrom, Ty kTo>
constexpr PureFn instance() {
  if constexpr (allowed<f>(kFrom, kTo))
    return &Vector<M, f, kFrom, kTo>::apply;
  else
    return nullptr;
}

template <class M, Fn f, int... kPairs>
constexpr std::array<PureFn, kNumTypes * kNumTypes> row(std::integer_sequence<int, kPairs...>) {
  return {instance<M, f, static_cast<Ty>(kPairs / kNumTypes),
                   static_cast<Ty>(kPairs % kNumTypes)>()...};
}

constexpr std::array<std::array<PureFn, kNumTypes * kNumTypes>, kNumFns> kTable = {
#define RT_LANE_FN(e, text, arity, meaning) \
  row<Meaning_##e, Fn::e>(std::make_integer_sequence<int, kNumTypes * kNumTypes>()),
#include "rooftile/lanes/pure_ops.def"
#undef RT_LANE_FN
};

}  // namespace

PureFn pure_fn(Fn f, Ty from, Ty to) {
  return kTable[static_cast<size_t>(f)]
               [static_cast<size_t>(from) * kNumTypes + static_cast<size_t>(to)];
}

}  // namespace rooftile::emulate
