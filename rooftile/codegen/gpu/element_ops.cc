// SPDX-License-Identifier: Apache-2.0
// Element-wise operations, casts and memory forms of one element in a register.
//
// A float of any width is its value in f32; a narrow integer is sign- or zero-extended in 32 bits.
// So rounding happens in two places only, casts and packing, and both go through the same
// conversion of pure_ops.def.
#include "rooftile/codegen/gpu/element_ops.h"

#include <cmath>
#include <limits>

#include "rooftile/base/float_convert.h"
#include "rooftile/ir/tile_value.h"

namespace rooftile::codegen {
namespace {

using lanes::Fn;
using lanes::Ty;
using lanes::Val;

bool is_narrow_integer(DType dtype) { return dtype == DType::kI8 || dtype == DType::kU8; }

// A 32-bit result back in the range of its dtype.
Val wrapped(DType dtype, const Val& value) {
  if (dtype == DType::kU8) return lanes::fn(Fn::kAnd, {value, lanes::int_val(Ty::kI32, 255)});
  if (dtype == DType::kI8) return lanes::fn(Fn::kShr, {lanes::fn(Fn::kShl, {value, 24}), 24});
  return value;
}

Fn function_of(ir::Ew ew) {
  switch (ew) {
    case ir::Ew::kNeg:
      return Fn::kNeg;
    case ir::Ew::kAbs:
      return Fn::kAbs;
    case ir::Ew::kFloor:
      return Fn::kFloor;
    case ir::Ew::kExp:
      return Fn::kExp;
    case ir::Ew::kExp2:
      return Fn::kExp2;
    case ir::Ew::kLog:
      return Fn::kLog;
    case ir::Ew::kLog2:
      return Fn::kLog2;
    case ir::Ew::kSqrt:
      return Fn::kSqrt;
    case ir::Ew::kRsqrt:
      return Fn::kRsqrt;
    case ir::Ew::kRecip:
      return Fn::kRecip;
    case ir::Ew::kTanh:
      return Fn::kTanh;
    case ir::Ew::kErf:
      return Fn::kErf;
    case ir::Ew::kSin:
      return Fn::kSin;
    case ir::Ew::kCos:
      return Fn::kCos;
    case ir::Ew::kAdd:
      return Fn::kAdd;
    case ir::Ew::kSub:
      return Fn::kSub;
    case ir::Ew::kMul:
      return Fn::kMul;
    case ir::Ew::kDiv:
      return Fn::kDiv;
    case ir::Ew::kMax:
      return Fn::kMax;
    case ir::Ew::kMin:
      return Fn::kMin;
    case ir::Ew::kFloorDiv:
      return Fn::kFloorDiv;
    case ir::Ew::kMod:
      return Fn::kFloorMod;
    case ir::Ew::kAnd:
      return Fn::kAnd;
    case ir::Ew::kOr:
      return Fn::kOr;
    case ir::Ew::kXor:
      return Fn::kXor;
    case ir::Ew::kShl:
      return Fn::kShl;
    case ir::Ew::kShr:
      return Fn::kShr;
    case ir::Ew::kMulHi:
      return Fn::kMulHi;
    case ir::Ew::kLt:
      return Fn::kLt;
    case ir::Ew::kLe:
      return Fn::kLe;
    case ir::Ew::kEq:
      return Fn::kEq;
    case ir::Ew::kNe:
      return Fn::kNe;
    case ir::Ew::kLogicalAnd:
      return Fn::kLogicalAnd;
    case ir::Ew::kLogicalOr:
      return Fn::kLogicalOr;
    case ir::Ew::kLogicalNot:
      return Fn::kLogicalNot;
  }
  return Fn::kAdd;
}

// To the nearest integer, ties to even, still in f32. Adding and subtracting 2^23 leaves no
// fraction; from there on a float has none.
Val nearest_even(const Val& x) {
  const Val magic = lanes::select(x < lanes::f32(0), lanes::f32(-0x1p23), lanes::f32(0x1p23));
  return lanes::select(lanes::fn(Fn::kAbs, {x}) < lanes::f32(0x1p23), (x + magic) - magic, x);
}

Val clamped(const Val& x, double lo, double hi) {
  return lanes::min(lanes::max(x, lanes::f32(lo)), lanes::f32(hi));
}

Val float_to_integer(DType to, const Val& value) {
  const Val x = nearest_even(value);
  // The cast itself saturates to the register, and gives 0 for NaN, which min and max hand on.
  if (to == DType::kI8) return lanes::cast(Ty::kI32, clamped(x, -128, 127));
  if (to == DType::kU8) return lanes::cast(Ty::kI32, clamped(x, 0, 255));
  return lanes::cast(register_type(to), x);
}

// The f32 value of the nearest narrow float.
Val rounded(DType to, const Val& value) {
  switch (to) {
    case DType::kBf16:
      return lanes::fn(Fn::kLowBf16, {lanes::fn(Fn::kPackBf16, {value, lanes::f32(0)})});
    case DType::kF16:
      return lanes::fn(Fn::kLowF16, {lanes::fn(Fn::kPackF16, {value, lanes::f32(0)})});
    case DType::kF8E4M3:
      return lanes::fn(Fn::kFromF8E4M3, {lanes::fn(Fn::kToF8E4M3, {value})});
    case DType::kF8E5M2:
      return lanes::fn(Fn::kFromF8E5M2, {lanes::fn(Fn::kToF8E5M2, {value})});
    default:
      return value;
  }
}

// Whether every value of `from` is one of `to`.
bool is_exact(DType from, DType to) {
  if (from == to || to == DType::kF32) return true;
  const bool f8 = from == DType::kF8E4M3 || from == DType::kF8E5M2;
  return f8 && (to == DType::kBf16 || to == DType::kF16);
}

// 0 or 1.
Val number_of(const Val& predicate, Ty type) {
  const Val one = type == Ty::kF32 ? lanes::f32(1) : lanes::int_val(type, 1);
  const Val zero = type == Ty::kF32 ? lanes::f32(0) : lanes::int_val(type, 0);
  return lanes::select(predicate, one, zero);
}

// The bits of one element, in the low bits of a u32.
Val bits_of(DType dtype, const Val& element) {
  switch (dtype) {
    case DType::kF32:
    case DType::kI32:
      return lanes::fn(Fn::kBits, Ty::kU32, {element});
    case DType::kBf16:
      return lanes::fn(Fn::kPackBf16, {element, lanes::f32(0)});
    case DType::kF16:
      return lanes::fn(Fn::kPackF16, {element, lanes::f32(0)});
    case DType::kF8E4M3:
      return lanes::fn(Fn::kToF8E4M3, {element});
    case DType::kF8E5M2:
      return lanes::fn(Fn::kToF8E5M2, {element});
    case DType::kI8:
      return lanes::fn(Fn::kAnd, {lanes::cast(Ty::kU32, element), lanes::int_val(Ty::kU32, 255)});
    case DType::kBool:
      return number_of(element, Ty::kU32);
    default:
      return lanes::cast(Ty::kU32, element);
  }
}

Val shifted_right(const Val& word, int bits) {
  return bits == 0 ? word : lanes::fn(Fn::kShr, {word, bits});
}

}  // namespace

Ty register_type(DType dtype) {
  if (is_float(dtype)) return Ty::kF32;
  switch (dtype) {
    case DType::kBool:
      return Ty::kPred;
    case DType::kU32:
      return Ty::kU32;
    case DType::kI64:
      return Ty::kI64;
    default:
      return Ty::kI32;
  }
}

Val element_op(ir::Ew ew, DType dtype, const std::vector<Val>& operands, bool fast) {
  if (ew == ir::Ew::kExp2 && fast) return lanes::fn(Fn::kExp2Fast, operands);
  const Fn f = function_of(ew);
  const Ty type = operands[0].type();
  if (f == Fn::kMulHi) {
    // Of the low 32 bits of both, whatever the dtype.
    const Val high =
        lanes::fn(f, {lanes::cast(Ty::kU32, operands[0]), lanes::cast(Ty::kU32, operands[1])});
    return wrapped(dtype, lanes::cast(type, high));
  }
  if (f == Fn::kShl || f == Fn::kShr)
    return wrapped(dtype, lanes::fn(f, {operands[0], lanes::cast(Ty::kI32, operands[1])}));
  const Val value = lanes::fn(f, operands);
  return is_narrow_integer(dtype) && ir::ew_info(ew).cls != ir::EwClass::P ? wrapped(dtype, value)
                                                                           : value;
}

Val element_cast(DType from, DType to, const Val& value) {
  if (from == to) return value;
  if (is_float(from)) {
    if (to == DType::kBool) return lanes::fn(Fn::kNe, {value, lanes::f32(0)});
    if (!is_float(to)) return float_to_integer(to, value);
    return is_exact(from, to) ? value : rounded(to, value);
  }
  if (from == DType::kBool) return number_of(value, register_type(to));
  if (is_float(to)) return rounded(to, lanes::cast(Ty::kF32, value));
  if (to == DType::kBool) return lanes::fn(Fn::kNe, {value, lanes::int_val(value.type(), 0)});
  return wrapped(to, lanes::cast(register_type(to), value));
}

Val element_fill(DType dtype, double number) {
  if (is_float(dtype)) return lanes::f32(round_to(static_cast<float>(number), dtype));
  return lanes::int_val(register_type(dtype), ir::saturate_to(number, dtype));
}

Val neutral(ir::ReduceKind kind, DType dtype) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  switch (kind) {
    case ir::ReduceKind::kSum:
      return element_fill(dtype, 0);
    case ir::ReduceKind::kMin:
      return element_fill(dtype, kInfinity);
    default:
      return element_fill(dtype, -kInfinity);
  }
}

Val combine(ir::ReduceKind kind, DType dtype, const Val& a, const Val& b) {
  switch (kind) {
    case ir::ReduceKind::kSum:
      return wrapped(dtype, a + b);
    case ir::ReduceKind::kMin:
      return lanes::min(a, b);
    default:
      return lanes::max(a, b);
  }
}

RawRegisters raw_registers(DType dtype, int width) {
  if (width == 1) {
    const Ty type = register_type(dtype);
    if (dtype == DType::kF32 || (!is_float(dtype) && dtype != DType::kBool && dtype != DType::kU8))
      return {type, 0};
    return {Ty::kU32, 0};
  }
  const int words = width * size_bytes(dtype) / 4;
  if (dtype == DType::kF32) return {Ty::kF32, words};
  if (dtype == DType::kI32) return {Ty::kI32, words};
  return {Ty::kU32, words};
}

Val unpack_element(DType dtype, const std::string& raw, int width, int i, const Val& first) {
  const RawRegisters registers = raw_registers(dtype, width);
  const int bits = 8 * size_bytes(dtype);
  const int first_bit = width == 1 ? 0 : i * bits;
  const auto word_at = [&](int index) {
    return lanes::elem(registers.type, raw, first.present() ? first + Val(index) : Val(index));
  };
  const Val word = width == 1 ? lanes::var(registers.type, raw) : word_at(first_bit / 32);
  const int shift = first_bit % 32;
  switch (dtype) {
    case DType::kBf16:
      return lanes::fn(shift == 0 ? Fn::kLowBf16 : Fn::kHighBf16, {word});
    case DType::kF16:
      return lanes::fn(shift == 0 ? Fn::kLowF16 : Fn::kHighF16, {word});
    case DType::kF8E4M3:
      return lanes::fn(Fn::kFromF8E4M3, {shifted_right(word, shift)});
    case DType::kF8E5M2:
      return lanes::fn(Fn::kFromF8E5M2, {shifted_right(word, shift)});
    case DType::kI8:
      return width == 1 ? word : wrapped(dtype, lanes::cast(Ty::kI32, shifted_right(word, shift)));
    case DType::kU8:
      return wrapped(dtype, lanes::cast(Ty::kI32, shifted_right(word, shift)));
    case DType::kBool: {
      const Val byte =
          lanes::fn(Fn::kAnd, {shifted_right(word, shift), lanes::int_val(Ty::kU32, 255)});
      return lanes::fn(Fn::kNe, {byte, lanes::int_val(Ty::kU32, 0)});
    }
    case DType::kI64: {
      if (width == 1) return word;
      const Val high = word_at(first_bit / 32 + 1);
      return lanes::cast(Ty::kI64,
                         lanes::fn(Fn::kOr, {lanes::fn(Fn::kShl, {lanes::cast(Ty::kU64, high), 32}),
                                             lanes::cast(Ty::kU64, word)}));
    }
    default:
      return word;  // f32, i32, u32: as they are
  }
}

namespace {

// What an element was before a cast to the type that `pack` rounds to: packing rounds it again, to
// the same value.
Val before_rounding(Fn pack, const Val& element) {
  const Fn widen = pack == Fn::kPackBf16 ? Fn::kLowBf16 : Fn::kLowF16;
  if (element->kind != lanes::ValKind::kFn || element->fn != widen) return element;
  const Val& packed = element->args[0];
  const bool cast = packed->kind == lanes::ValKind::kFn && packed->fn == pack &&
                    packed->args[1]->kind == lanes::ValKind::kFloat;
  return cast ? packed->args[0] : element;
}

}  // namespace

Val pack_elements(DType dtype, const std::vector<Val>& elements, int width, int word) {
  if (width == 1) {
    const Val& element = elements[0];
    return raw_registers(dtype, 1).type == element.type() ? element : bits_of(dtype, element);
  }
  const int bits = 8 * size_bytes(dtype);
  if (bits == 64) {
    const Val& element = elements[static_cast<size_t>(word / 2)];
    return lanes::cast(Ty::kU32, shifted_right(element, word % 2 == 0 ? 0 : 32));
  }
  const int per_word = 32 / bits;
  const auto first = static_cast<size_t>(word) * static_cast<size_t>(per_word);
  if (per_word == 1) return elements[first];
  if (dtype == DType::kBf16 || dtype == DType::kF16) {
    const Fn pack = dtype == DType::kBf16 ? Fn::kPackBf16 : Fn::kPackF16;
    return lanes::fn(
        pack, {before_rounding(pack, elements[first]), before_rounding(pack, elements[first + 1])});
  }
  Val packed = bits_of(dtype, elements[first]);
  for (int k = 1; k < per_word; ++k)
    packed = lanes::fn(
        Fn::kOr,
        {packed, lanes::fn(Fn::kShl,
                           {bits_of(dtype, elements[first + static_cast<size_t>(k)]), k * bits})});
  return packed;
}

}  // namespace rooftile::codegen
