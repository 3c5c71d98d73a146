// SPDX-License-Identifier: Apache-2.0
// Loops: of constant bounds they are run; of others they are asked for round by round, or, where a
// body is nothing but accesses, run for every round that there can be.
#include <algorithm>
#include <bit>
#include <numeric>

#include "rooftile/verify/protocol/machine.h"

namespace rooftile::verify::protocol {
namespace {

using lanes::Fn;
using lanes::Ty;

constexpr int kMostRounds = 4096;  // of a loop with constant bounds
constexpr int kMostRepeats = 64;   // of a loop whose body is an access, of unknown bounds

int64_t floor_quotient(int64_t a, int64_t b) {
  return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
}

}  // namespace

Machine::Progress Machine::enter_loop(int w, const Op& op) {
  Warp& warp = s_->warps[static_cast<size_t>(w)];
  const ValueId begin = eval(w, op.begin), end = eval(w, op.end), step = eval(w, op.step);
  Frame frame;
  frame.kind = Frame::kConcrete;
  frame.saved = warp.mask;
  frame.saved_may = warp.may;
  frame.op = warp.pc;
  frame.outer = warp.step;
  const bool concrete = terms_.known(begin, warp.mask) && terms_.known(end, warp.mask) &&
                        terms_.known(step, warp.mask);
  warp.slots[static_cast<size_t>(op.slot)] = kNothing;
  if (concrete) {
    assign(w, op.slot, begin);
    warp.frames.push_back(frame);
    ++warp.pc;
    return Progress::kOn;
  }
  if (!op.slots.empty()) {  // no event inside
    touch(w, op);
    for (const int slot : op.slots) warp.slots[static_cast<size_t>(slot)] = kUnknownValue;
    warp.pc = op.target;
    return Progress::kOn;
  }
  if (op.local)
    repeat_loop(w, op, frame, begin, end, step);
  else
    undecided_loop(w, op, frame, begin, end, step);
  return Progress::kOn;
}

// A loop over accesses alone, of bounds that are not known: every round that there can be is
// perhaps executed, by every lane.
void Machine::repeat_loop(int w, const Op& op, Frame frame, ValueId begin, ValueId end,
                          ValueId step) {
  Warp& warp = s_->warps[static_cast<size_t>(w)];
  if (!terms_.known(step) || !terms_.uniform(step) || terms_.value(step).lane[0] < 1)
    refuse(op, "the step of a loop over accesses is not a constant");
  if (terms_.value(begin).unknown != 0 || terms_.value(end).unknown != 0)
    refuse(op, "the bounds of a loop over accesses are not known");
  const int64_t by = terms_.value(step).lane[0];
  const ValueId distance = terms_.add(end, begin, -1);
  int64_t most = 0;
  for (uint32_t left = warp.mask; left != 0; left &= left - 1) {
    const Interval d = known_bounds(distance, std::countr_zero(left));
    if (d.hi >= kOpen || d.hi > by * kMostRepeats) {
      want_facts(w);
      refuse(op, "a loop over accesses may be long");
    }
    most = std::max(most, (d.hi + by - 1) / by);
  }
  frame.kind = Frame::kRepeat;
  frame.index = most;
  frame.stride = by;
  warp.may = true;
  warp.slots[static_cast<size_t>(op.slot)] = begin;
  warp.frames.push_back(frame);
  ++warp.pc;
}

// The loop's variable is base + index * unit, wherever this warp begins and whatever it skips.
void Machine::undecided_loop(int w, const Op& op, Frame frame, ValueId begin, ValueId end,
                             ValueId step) {
  Warp& warp = s_->warps[static_cast<size_t>(w)];
  frame.kind = Frame::kUndecided;
  ValueId variable = kUnknownValue;
  if (terms_.uniform(begin) && terms_.uniform(end) && terms_.uniform(step)) {
    Loop key;
    key.parent = warp.step;
    key.end = end;
    key.unit = step;
    int64_t first = 0;
    const Coefficients& by = terms_.sum(terms_.value(step).sum);
    const int64_t constant = terms_.value(step).lane[0];
    if (by.empty()) {
      if (constant < 1) refuse(op, "a loop that does not move on");
      first = floor_quotient(terms_.value(begin).lane[0], constant);
    } else {
      int64_t shared = constant;
      for (const auto& [a, c] : by) shared = std::gcd(shared, c);
      Coefficients unit = by;
      for (auto& [a, c] : unit) c /= shared;
      frame.stride = shared;
      key.unit = terms_.of_sum(terms_.sum_of(unit), constant / shared);
      for (const auto& [a, c] : terms_.sum(terms_.value(begin).sum))
        if (a == unit[0].first) first = floor_quotient(c, unit[0].second);
    }
    key.base = terms_.add(begin, key.unit, -first);
    const Loop plain = key;
    for (const LoopId l : warp.left) {
      Loop other = terms_.loop(l);
      other.occurrence = 0;
      other.renamed = false;
      if (!(other < plain) && !(plain < other)) ++key.occurrence;
    }
    frame.loop = terms_.loop(key);
    frame.index = first;
    variable = terms_.add(key.base, terms_.step(frame.loop, first));
    warp.step = terms_.step_atom(frame.loop, first);
    if (enters_[static_cast<size_t>(w)].insert(signature(frame.loop)).second) ++discoveries_;
  } else if (!op.uniform) {
    refuse(op, "lanes may leave a loop apart that has more in it than accesses to memory");
  }
  assign(w, op.slot, variable);
  warp.frames.push_back(frame);
  ++warp.pc;
}

Machine::Progress Machine::test_loop(int w, const Op& test) {
  Warp& warp = s_->warps[static_cast<size_t>(w)];
  const Op& op = flat_.ops[static_cast<size_t>(test.loop)];
  Frame& frame = warp.frames.back();
  bool on = false;
  if (frame.kind == Frame::kRepeat) {
    on = frame.index > 0;
  } else {
    const ValueId variable = warp.slots[static_cast<size_t>(op.slot)];
    const ValueId condition = terms_.fn(Fn::kLt, Ty::kPred, Ty::kI32, {variable, eval(w, op.end)});
    if (frame.kind == Frame::kConcrete) {
      if (!terms_.known(condition, warp.mask)) refuse(op, "the end of a loop moves");
      uint32_t still = 0;
      for (int l = 0; l < kLanes; ++l)
        if (terms_.value(condition).lane[static_cast<size_t>(l)] != 0) still |= 1u << l;
      warp.mask &= still;
      on = warp.mask != 0;
      if (on && ++frame.index > kMostRounds) refuse(op, "a loop of constant bounds is long");
    } else if (terms_.value(condition).unknown != 0) {
      if (warp.answer < 0) {
        request_.warp = w;
        return Progress::kWait;
      }
      on = warp.answer == 1;
      warp.answer = -1;
    } else {
      const Truth t = truth(condition);
      if (t == Truth::kUndecided) return Progress::kWait;
      on = t == Truth::kYes;
    }
  }
  if (on) {
    ++warp.pc;
  } else {
    leave_loop(w, op);
    warp.pc = test.target;
  }
  return Progress::kOn;
}

void Machine::next_round(int w, const Op& next) {
  Warp& warp = s_->warps[static_cast<size_t>(w)];
  const Op& op = flat_.ops[static_cast<size_t>(next.loop)];
  Frame& frame = warp.frames.back();
  ValueId& variable = warp.slots[static_cast<size_t>(op.slot)];
  warp.pc = next.target;
  if (frame.kind == Frame::kUndecided && frame.loop >= 0) {
    frame.index += frame.stride;
    const Loop& l = terms_.loop(frame.loop);
    variable = terms_.add(l.base, terms_.step(frame.loop, frame.index));
    warp.step = terms_.step_atom(frame.loop, frame.index);
    std::erase_if(warp.left, [&](LoopId o) { return terms_.loop(o).depth > l.depth; });
    return;
  }
  if (frame.kind == Frame::kRepeat) --frame.index;
  const ValueId moved = terms_.fn(Fn::kAdd, Ty::kI32, Ty::kI32, {variable, eval(w, op.step)});
  variable =
      frame.kind == Frame::kUndecided ? kUnknownValue : terms_.merged(warp.mask, moved, variable);
}

void Machine::leave_loop(int w, const Op& op) {
  Warp& warp = s_->warps[static_cast<size_t>(w)];
  const Frame frame = warp.frames.back();
  warp.frames.pop_back();
  warp.mask = frame.saved;
  warp.may = frame.saved_may;
  warp.step = frame.outer;
  warp.slots[static_cast<size_t>(op.slot)] = kNothing;
  if (frame.loop < 0) return;
  const int depth = terms_.loop(frame.loop).depth;
  std::erase_if(warp.left, [&](LoopId l) { return terms_.loop(l).depth > depth; });
  warp.left.push_back(frame.loop);
}

}  // namespace rooftile::verify::protocol
