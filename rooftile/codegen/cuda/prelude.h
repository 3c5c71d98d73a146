// SPDX-License-Identifier: Apache-2.0
// The helper functions of a CUDA text: one a PTX instruction, and only those that the kernel calls.
//
// A helper is data: operands and a PTX template in which "$x" stands for operand x. The prelude
// numbers the operands, writes constraints, and keeps one definition a signature.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "rooftile/lanes/lanes.h"

namespace rooftile::codegen::cuda {

// The name of a register type in CUDA text: "u32", "float", "bool".
std::string_view type_text(lanes::Ty type);

struct Operand {
  enum class Mode : uint8_t {
    kIn,         // by value
    kOut,        // `type* name`, count registers, written
    kInOut,      // the same, read and written
    kResult,     // the value returned
    kImmediate,  // template <int name>
  };
  Mode mode = Mode::kIn;
  std::string type;  // u32, i32, u64, i64, float, bool, u16, "const TensorMap&", "const void*"
  std::string name;
  int count = 0;  // registers of an array; 0: a scalar
  bool reg =
      false;  // by value, and one of the instruction's registers rather than of its arguments
};

struct Helper {
  std::string name;
  std::vector<Operand> operands;
  std::string ptx;   // empty: `body` is C++
  std::string body;  // statements of a helper in C++
  // Computes from its operands alone: may be moved and merged. Others keep their place.
  bool pure = false;
};

// "<mode> type name[count], ...": modes out, inout, result, imm, reg; by default an operand is
// an argument, by value. Used by the tables, whose rows then read like declarations.
std::vector<Operand> parse_operands(std::string_view text);

// The definition as CUDA C++.
std::string definition(const Helper& helper);

class Prelude {
 public:
  // Makes sure that the helper is defined; gives its name.
  std::string use(const Helper& helper);
  void use_tensor_maps() { tensor_maps_ = true; }
  bool defines(std::string_view name) const { return names_.contains(name); }

  // Type definitions and all helpers, in order of their first use.
  std::string text() const;

 private:
  std::vector<std::string> definitions_;
  std::set<std::string, std::less<>> signatures_, names_;
  bool tensor_maps_ = false;
};

}  // namespace rooftile::codegen::cuda
