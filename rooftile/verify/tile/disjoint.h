// SPDX-License-Identifier: Apache-2.0
// Two instances never meet in one element, unless they are the same: the argument behind tile.once
// and tile.order.
//
// The second access is taken in an instance of its own, with symbols of its own, and both name the
// same element. From that follows, one index of the parallel space at a time, that the instances
// are equal. The lemma that does most of it: a x + r = a x' + r' with 0 <= r, r' < a gives x = x'
// and r = r'; it holds for symbolic a (a group of heads) as well as for tile sizes. What the lemma
// does not see is asked of the arithmetic.
#pragma once

#include <string>

#include "rooftile/verify/tile/accesses.h"
#include "rooftile/verify/tile/reasoner.h"

namespace rooftile::verify {

// The symbols of the second instance are those of the program with this behind them.
inline constexpr const char* kOther = ".other";

struct Meeting {
  Verdict verdict = Verdict::kUnknown;  // proved: one element is touched by one instance only
  Env model;                            // refuted: two instances that meet
  std::string reason;
};

// `a` in one instance, `b` in another of the same phase.
Meeting meet_only_in_one_instance(Reasoner& reasoner, const Access& a, const Access& b);

// Whether no element is touched by both, whatever the instances (which may belong to different
// phases, or be the same).
Meeting never_meet(Reasoner& reasoner, const Access& a, const Access& b);

}  // namespace rooftile::verify
