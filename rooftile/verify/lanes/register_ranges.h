// SPDX-License-Identifier: Apache-2.0
// Bounds of integer registers that hold wherever the register is read: the least intervals that
// every assignment of the program preserves.
//
// This is where slot counters (`x == 12 ? 0 : x + 1` lies in 0..12), phases (`x ^ (c ? 1 : 0)`) and
// flip-flops (`1 - x`) get the bounds that a loop needs of them. By name: registers of one name
// share their bounds.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "rooftile/lanes/lanes.h"
#include "rooftile/verify/lanes/interval.h"

namespace rooftile::verify {

Interval type_range(lanes::Ty type);

class RegisterRanges {
 public:
  // `parameter` bounds scalar parameters.
  RegisterRanges(const lanes::Program& program,
                 std::function<Interval(const std::string&)> parameter);
  // Of a register that was assigned a value known here; else of its type.
  Interval of(const std::string& name, lanes::Ty type) const;

 private:
  Interval value(const lanes::Val& v) const;
  Interval choose(const lanes::Val& v) const;
  bool visit(const lanes::Body& body, bool widen);
  bool join(const std::string& name, lanes::Ty type, const Interval& to, bool widen);

  const lanes::Program& program_;
  std::function<Interval(const std::string&)> parameter_;
  std::map<std::string, Interval, std::less<>> known_;
  mutable std::map<std::string, Interval, std::less<>>
      narrowed_;  // while an arm of a select is looked at
};

}  // namespace rooftile::verify
