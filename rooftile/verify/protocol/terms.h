// SPDX-License-Identifier: Apache-2.0
// What a register holds, as far as the protocol needs it: 32 lanes of a number, of a symbol plus a
// number, or of nothing known.
//
// A Value is `sum + constant of the lane`, where the sum is linear over atoms and the same in all
// lanes: parameters, the place of the CTA, elements of tensors that nobody writes, the steps of a
// loop whose trip count is undecided, and whatever else is computed from these (min, floordiv,
// comparisons). Everything is interned: equal numbers are equal values, in whatever warp and CTA,
// which is what makes a condition a key of a decision.
//
// Integers are mathematical as soon as a symbol is in them (that nothing wraps is lanes.overflow);
// what is concrete wraps as the machine does.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "rooftile/lanes/lanes.h"

namespace rooftile::verify::protocol {

inline constexpr int kLanes = 32;
inline constexpr uint32_t kAllLanes = 0xffffffffu;

using AtomId = int32_t;
using SumId = int32_t;    // 0: nothing
using ValueId = int32_t;  // 0: unknown in all lanes
using LoopId = int32_t;
inline constexpr AtomId kNoAtom = -1;
inline constexpr SumId kNoSum = 0;
inline constexpr ValueId kUnknownValue = 0;
inline constexpr ValueId kNothing = 1;  // never assigned: unknown, and whoever reads it is at fault

// Ends beyond +-2^60 are open.
struct Interval {
  int64_t lo, hi;
};
inline constexpr int64_t kOpen = int64_t{1} << 60;
inline constexpr Interval kAnything{-kOpen, kOpen};

enum class AtomKind : uint8_t {
  kSymbol,    // parameter or special register `name`
  kFloat,     // constant of bits `index`
  kFn,        // fn(args), which nothing simplifies
  kLoad,      // element `args` of tensor `name`
  kStep,      // iteration `index` of loop `loop`: begin + kStep is the loop's variable
  kPositive,  // args[0] >= 0 ? 1 : 0
  kZero,      // args[0] == 0 ? 1 : 0
};
struct Atom {
  AtomKind kind = AtomKind::kSymbol;
  lanes::Ty type = lanes::Ty::kI32;
  lanes::Fn fn = lanes::Fn::kAdd;
  std::string name;
  std::vector<ValueId> args;
  LoopId loop = -1;
  int64_t index = 0;
  Interval bounds = kAnything;  // whatever has been decided
  AtomId newest_step =
      kNoAtom;  // a kStep in it, of the innermost loop; kNoAtom: a constant of the launch
};

// An undecided loop at a place in the loops around it. Its variable is base + index * unit: loops
// that walk the same numbers from elsewhere, or every second of them, are the same loop.
struct Loop {
  AtomId parent = kNoAtom;  // the step of the loop around it
  ValueId base = kUnknownValue, unit = kUnknownValue, end = kUnknownValue;
  int occurrence = 0;    // how often its like has been left since that step
  bool renamed = false;  // steps are counted from anywhere
  int depth = 0;         // loops around it
  bool operator<(const Loop& o) const;
};

struct Value {
  SumId sum = kNoSum;
  uint32_t unknown = 0;  // lanes; then there is no sum
  std::array<int64_t, kLanes> lane{};
  bool operator==(const Value&) const = default;
};

using Coefficients = std::vector<std::pair<AtomId, int64_t>>;  // by atom

class Terms {
 public:
  Terms();

  ValueId constant(int64_t value);
  ValueId of_lanes(const std::array<int64_t, kLanes>& lane);
  ValueId of_atom(AtomId atom);
  ValueId symbol(const std::string& name, lanes::Ty type, Interval bounds);
  ValueId float_constant(double number);
  ValueId load(const std::string& tensor, lanes::Ty type, std::vector<ValueId> index,
               Interval bounds);
  ValueId step(LoopId loop, int64_t index);
  // f(args) of result type `type`; args of type `from`.
  ValueId fn(lanes::Fn f, lanes::Ty type, lanes::Ty from, const std::vector<ValueId>& args);
  // Where `mask` says, `then`; elsewhere `otherwise`.
  ValueId merged(uint32_t mask, ValueId then, ValueId otherwise);
  ValueId add(ValueId a, ValueId b, int64_t times = 1);  // a + times * b
  ValueId scaled(ValueId a, int64_t by);
  ValueId positive(ValueId a);  // a >= 0
  LoopId loop(const Loop& loop);
  AtomId step_atom(LoopId loop, int64_t index);

  const Value& value(ValueId v) const { return values_[static_cast<size_t>(v)]; }
  const Atom& atom(AtomId a) const { return atoms_[static_cast<size_t>(a)]; }
  const Loop& loop(LoopId l) const { return loops_[static_cast<size_t>(l)]; }
  const Coefficients& sum(SumId s) const { return sums_[static_cast<size_t>(s)]; }
  SumId sum_of(Coefficients terms);
  ValueId of_sum(SumId sum, int64_t constant);

  bool known(ValueId v, uint32_t mask = kAllLanes) const;    // a number in each of these lanes
  bool uniform(ValueId v, uint32_t mask = kAllLanes) const;  // one number or symbol in all of them
  bool is(ValueId v, int64_t number) const;
  // Of a uniform value; of one lane.
  Interval bounds(ValueId v, int lane = 0) const;
  // The innermost step that the value depends on.
  AtomId newest_step(ValueId v) const;
  AtomId newest_step_of(SumId s) const;

  // The value with its steps renamed: `index of loop` becomes `index - shift[loop]`, counted from
  // anywhere where the shift is not 0. Memoised until the next `begin_renaming`.
  void begin_renaming(std::map<LoopId, int64_t> shift);
  ValueId renamed(ValueId v);
  AtomId renamed_atom(AtomId a);
  SumId renamed_sum(SumId s);
  LoopId renamed_loop(LoopId l);

  // `shape`: without the numbers of steps.
  std::string text(ValueId v, bool shape = false) const;
  std::string atom_text(AtomId a, bool shape = false) const;
  int depth(AtomId step) const { return step == kNoAtom ? -1 : loop(atom(step).loop).depth; }

 private:
  struct ValueHash {
    size_t operator()(const Value& v) const;
  };
  ValueId intern(const Value& v);
  ValueId computed(lanes::Fn f, lanes::Ty type, lanes::Ty from, const std::vector<ValueId>& args);
  ValueId added(ValueId a, ValueId b, int64_t times);
  AtomId intern_atom(Atom a);
  ValueId fn_concrete(lanes::Fn f, lanes::Ty type, lanes::Ty from,
                      const std::vector<ValueId>& args);
  ValueId fn_symbolic(lanes::Fn f, lanes::Ty type, const std::vector<ValueId>& args);
  ValueId fn_atom(lanes::Fn f, lanes::Ty type, const std::vector<ValueId>& args);
  ValueId product(ValueId a, ValueId b, lanes::Ty type);
  ValueId quotient(ValueId a, int64_t by, lanes::Ty type);
  ValueId remainder(ValueId a, int64_t by, lanes::Ty type);
  ValueId extreme(bool least, ValueId a, ValueId b, lanes::Ty type);
  ValueId zero(ValueId a);
  ValueId compared(lanes::Fn f, ValueId a, ValueId b);
  ValueId logical(lanes::Fn f, ValueId a, ValueId b);
  ValueId chosen(ValueId cond, ValueId then, ValueId otherwise, lanes::Ty type);
  Interval atom_bounds(const Atom& a) const;
  Interval bounds_of(const Coefficients& terms) const;

  std::deque<Atom> atoms_;  // deques: references stay
  std::map<std::string, AtomId> atom_ids_;
  std::deque<Coefficients> sums_;
  std::vector<Interval> sum_bounds_;  // of each
  std::map<Coefficients, SumId> sum_ids_;
  std::deque<Value> values_;
  std::unordered_map<Value, ValueId, ValueHash> value_ids_;
  std::deque<Loop> loops_;
  std::map<Loop, LoopId> loop_ids_;

  struct Call {
    uint32_t what;  // function and types
    std::array<ValueId, 4> args;
    bool operator==(const Call&) const = default;
  };
  struct CallHash {
    size_t operator()(const Call& c) const;
  };
  std::unordered_map<Call, ValueId, CallHash> calls_;  // functions are pure

  std::map<LoopId, int64_t> shift_;
  std::unordered_map<ValueId, ValueId> renamed_values_;
  std::unordered_map<AtomId, AtomId> renamed_atoms_;
  std::unordered_map<SumId, SumId> renamed_sums_;
  std::unordered_map<LoopId, LoopId> renamed_loops_;
};

// f over numbers, as the machine computes it; false where it is no operation on integers.
bool integer_fn(lanes::Fn f, lanes::Ty type, lanes::Ty from, const int64_t* args, int64_t* out);

}  // namespace rooftile::verify::protocol
