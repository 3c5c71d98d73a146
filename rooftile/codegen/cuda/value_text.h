// SPDX-License-Identifier: Apache-2.0
// CUDA text of L2's values, and the names that registers, parameters and helpers go by.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "rooftile/codegen/cuda/prelude.h"
#include "rooftile/lanes/lanes.h"

namespace rooftile::codegen::cuda {

// C++ names of the program's: dots become underscores, and no name meets a keyword, a helper or
// another name.
class Names {
 public:
  explicit Names(std::set<std::string, std::less<>> reserved) : taken_(std::move(reserved)) {}
  const std::string& operator()(const std::string& name);
  // A variable of ours, which the program does not know.
  const std::string& own(const std::string& name);
  // The C++ names given out so far.
  std::set<std::string, std::less<>> given() const;

 private:
  const std::string& give(const std::string& key, std::string text);

  std::map<std::string, std::string, std::less<>> names_;
  std::set<std::string, std::less<>> taken_;
};

// The registers whose values come from memory or from other lanes, directly or by way of others.
std::set<std::string, std::less<>> data_registers(const lanes::Body& body);

class ValueText {
 public:
  ValueText(const lanes::Program& program, Prelude& prelude, Names& names)
      : program_(program), prelude_(prelude), names_(names) {}

  // Parenthesised if it binds less tightly than `outer` (precedences of lanes/value_rules.h).
  std::string operator()(const lanes::Val& value, int outer = 0);

  // `&x[index]` as pointer arithmetic: index times stride, summed in 64 bits.
  std::string address(const lanes::GlobalRef& global);
  // A register, or a pointer to the first of a run.
  std::string reg(const lanes::RegRef& ref);
  std::string pointer(const lanes::RegRef& ref);

  // Registers whose values come from memory or from other lanes, and not from indices alone.
  void set_data(std::set<std::string, std::less<>> names) { data_ = std::move(names); }
  // Registers are declared before they are used; the last declaration of a name counts.
  void declare(const std::string& name, lanes::Ty type) { types_[name] = type; }
  lanes::Ty register_type(const std::string& name) const { return types_.at(name); }

  const lanes::Program& program() const { return program_; }
  const std::string& name(const std::string& of) { return names_(of); }
  const std::set<lanes::Special>& specials() const { return specials_; }
  const std::set<std::string>& shared() const { return shared_; }
  static std::string special_name(lanes::Special special);  // of its variable

 private:
  // Whether signed overflow must wrap in the text too. Indices, by proof, do not overflow, and the
  // compiler may know it; data may.
  bool wraps(const lanes::ValNode& node) const;
  std::string fn_text(const lanes::ValNode& node, int outer);
  std::string call(const std::string& name, const std::vector<lanes::Val>& args);
  std::string pure(const lanes::ValNode& node);
  std::string cast_text(const lanes::ValNode& node, int outer);
  std::string bits_text(const lanes::ValNode& node);
  std::string descriptor(const lanes::ValNode& node);

  const lanes::Program& program_;
  Prelude& prelude_;
  Names& names_;
  std::map<std::string, lanes::Ty, std::less<>> types_;
  std::set<std::string, std::less<>> data_;
  std::set<lanes::Special> specials_;
  std::set<std::string> shared_;
};

}  // namespace rooftile::codegen::cuda
