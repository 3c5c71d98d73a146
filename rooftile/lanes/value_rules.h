// SPDX-License-Identifier: Apache-2.0
// Typing and spelling rules of pure operations, shared by the builders, the verifier, the printer
// and the emitter.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "rooftile/lanes/lanes.h"

namespace rooftile::lanes {

constexpr bool is_integer(Ty type) { return type != Ty::kPred && type != Ty::kF32; }
constexpr bool is_signed(Ty type) { return type == Ty::kI32 || type == Ty::kI64; }
constexpr int size_bytes(Ty type) {
  return type == Ty::kI64 || type == Ty::kU64 ? 8 : type == Ty::kPred ? 1 : 4;
}

// Whether f has all its operands.
bool operands_present(Fn f, const std::vector<Val>& args);

// The result type of f(args) where the operands imply it. For casts, which say it themselves, a
// guess.
Ty result_type(Fn f, const std::vector<Val>& args);

// "" if f(args) may have type `type`; else what is wrong, in a few words.
std::string type_error(Fn f, Ty type, const std::vector<Val>& args);

// Operators that C spells between their operands, with C's precedence: larger binds tighter.
struct Infix {
  std::string_view symbol;
  int precedence;
};
inline constexpr int kUnaryPrecedence = 14;
const Infix* infix(Fn f);  // nullptr: written as a call
// What operands of `op` must bind as tightly as, left and right. Operands of shifts, bitwise
// operators and || are always parenthesised: few know their precedence by heart.
struct OperandPrecedence {
  int left, right;
};
OperandPrecedence operand_precedence(const Infix& op);

// A register of 8 bits or more as the low bits of `value`, by the type's width and sign.
int64_t wrap(Ty type, int64_t value);

// A float constant that reads back as the same f32: "1.5f", "inf", "-inf", "nan".
std::string float_text(double number);

}  // namespace rooftile::lanes
