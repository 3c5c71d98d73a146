// SPDX-License-Identifier: Apache-2.0
// What all threads of a CTA do together: reductions and prefixes.
//
// A join is a butterfly of shuffles in each warp, one word a warp in shared memory, a barrier, and
// the same butterfly over the words in every warp: a fixed tree, and every thread has the result.
// Two banks of slots take turns, so that one barrier a join is enough: who writes a bank again has
// passed the barrier of the join between, which everybody reached after reading.
#include <algorithm>

#include "rooftile/codegen/gpu/strips.h"

namespace rooftile::codegen {

using ir::Node;
using ir::ReduceKind;
using lanes::Fn;
using lanes::Ins;
using lanes::Ty;
using lanes::Val;

namespace {

constexpr int kSlots = 8;      // values in one join
constexpr int kSlotBytes = 8;  // the widest register

Val is_nan(const Val& x) { return lanes::fn(Fn::kNe, {x, x}); }

// As the interpreter orders elements for the position of the maximum.
Val larger(const Val& a, const Val& b) {
  if (a.type() != Ty::kF32) return b < a;
  return (b < a) || (is_nan(a) && !is_nan(b));
}

int round_up_to_power(int n) {
  int power = 1;
  while (power < n) power *= 2;
  return power;
}

}  // namespace

// ---- one thread --------------------------------------------------------------------------------

Strips::Reduction Strips::start(ValueId id) {
  const Node& n = node(id);
  Reduction r;
  r.id = id;
  r.kind = n.reduce;
  r.dtype = node(n.operands[0]).dtype;
  const std::string hint = hint_of(n) == "v" ? std::string(ir::reduce_name(n.reduce)) : hint_of(n);
  r.value = declare(register_type(r.dtype), hint, neutral(r.kind, r.dtype));
  if (r.kind == ReduceKind::kArgMax) r.position = declare(Ty::kI32, hint + "_at", INT32_MAX);
  return r;
}

void Strips::accumulate(Reduction* r, const Val& value, const Val& position, const Val& guard) {
  if (r->kind != ReduceKind::kArgMax) {
    const Val next = combine(r->kind, r->dtype, r->value, value);
    return set(r->value, guard.present() ? lanes::select(guard, next, r->value) : next);
  }
  // Positions come in ascending order: a tie keeps the first. Whatever comes first is taken.
  const Val x = name_value("x", value);
  Val better = larger(x, r->value) || lanes::equal(r->position, INT32_MAX);
  if (guard.present()) better = guard && better;
  better = name_value("better", better);
  set(r->value, lanes::select(better, x, r->value));
  set(r->position, lanes::select(better, position, r->position));
}

void Strips::combine_into(Reduction* r, const Val& value, const Val& position) {
  if (r->kind != ReduceKind::kArgMax)
    return set(r->value, combine(r->kind, r->dtype, r->value, value));
  const Val better = name_value(
      "better", larger(value, r->value) || (!larger(r->value, value) && position < r->position));
  set(r->value, lanes::select(better, value, r->value));
  set(r->position, lanes::select(better, position, r->position));
}

// ---- a warp ------------------------------------------------------------------------------------

Val Strips::shuffled(Ins ins, const Val& value, const Val& arg) {
  if (lanes::Ty type = value.type(); type == Ty::kI64 || type == Ty::kU64) {
    const Val low = shuffled(ins, lanes::cast(Ty::kU32, value), arg);
    const Val high = shuffled(ins, lanes::cast(Ty::kU32, lanes::fn(Fn::kShr, {value, 32})), arg);
    const Val joined = lanes::fn(Fn::kOr, {lanes::fn(Fn::kShl, {lanes::cast(Ty::kU64, high), 32}),
                                           lanes::cast(Ty::kU64, low)});
    return name_value("other", lanes::cast(type, joined));
  }
  const Val source =
      value->kind == lanes::ValKind::kVar ? value : declare(value.type(), "mine", value);
  const Val other = declare(value.type(), "other");
  lanes::Instr instr;
  instr.ins = ins;
  instr.results = {{other->name, Val(), 1}};
  instr.regs = {{source->name, Val(), 1}};
  instr.args = {arg};
  instr.n = 32;
  emit(lanes::instr(std::move(instr)));
  return other;
}

void Strips::join_warp(Reduction* r, int width) {
  for (int mask = width / 2; mask > 0; mask /= 2) {
    const Val value = shuffled(Ins::kShflXor, r->value, mask);
    const Val position = r->position.present() ? shuffled(Ins::kShflXor, r->position, mask) : Val();
    combine_into(r, value, position);
  }
}

// ---- a CTA -------------------------------------------------------------------------------------

void Strips::load_shared(const Val& target, const Val& address, const Val& guard) {
  lanes::Instr instr;
  instr.ins = Ins::kLdShared;
  instr.guard = guard;
  instr.results = {{target->name, Val(), 1}};
  instr.args = {address};
  instr.bytes = target.type() == Ty::kI64 || target.type() == Ty::kU64 ? 8 : 4;
  emit(lanes::instr(std::move(instr)));
}

void Strips::store_shared(const Val& value, const Val& address, const Val& guard) {
  const Val source =
      value->kind == lanes::ValKind::kVar ? value : declare(value.type(), "mine", value);
  lanes::Instr instr;
  instr.ins = Ins::kStShared;
  instr.guard = guard;
  instr.regs = {{source->name, Val(), 1}};
  instr.args = {address};
  instr.bytes = value.type() == Ty::kI64 || value.type() == Ty::kU64 ? 8 : 4;
  emit(lanes::instr(std::move(instr)));
}

Val Strips::slot(int which, const Val& warp_index) const {
  const Val bytes =
      (bank_ * Val(kSlots) + Val(which)) * Val(kSlotBytes * warps()) + warp_index * Val(kSlotBytes);
  return lanes::shared("slots") + lanes::cast(Ty::kU32, bytes);
}

void Strips::next_bank() { set(bank_, Val(1) - bank_); }

void Strips::join(std::vector<Reduction>* reductions) {
  for (Reduction& r : *reductions) join_warp(&r, 32);
  if (warps() == 1) return;
  uses_slots_ = true;
  const int power = round_up_to_power(warps());
  for (size_t first = 0; first < reductions->size();) {
    // As many as there are slots for.
    size_t end = first;
    for (int used = 0; end < reductions->size(); ++end) {
      used += (*reductions)[end].position.present() ? 2 : 1;
      if (used > kSlots) break;
    }
    const Val leader = name_value("leader", lanes::equal(lane(), 0));
    int which = 0;
    for (size_t i = first; i < end; ++i) {
      const Reduction& r = (*reductions)[i];
      store_shared(r.value, slot(which++, warp()), leader);
      if (r.position.present()) store_shared(r.position, slot(which++, warp()), leader);
    }
    sync();
    // Lanes of a group of `power` read the words of all warps; where there are fewer warps than
    // that, the last one's word again, which counts as nothing.
    const Val source = name_value("source", lanes::fn(Fn::kAnd, {lane(), Val(power - 1)}));
    const bool whole = power == warps();
    const Val at = whole ? source : lanes::min(source, Val(warps() - 1));
    which = 0;
    for (size_t i = first; i < end; ++i) {
      Reduction& r = (*reductions)[i];
      load_shared(r.value, slot(which++, at));
      if (!whole)
        set(r.value, lanes::select(source < Val(warps()), r.value, neutral(r.kind, r.dtype)));
      if (r.position.present()) {
        load_shared(r.position, slot(which++, at));
        if (!whole) set(r.position, lanes::select(source < Val(warps()), r.position, INT32_MAX));
      }
    }
    for (size_t i = first; i < end; ++i) join_warp(&(*reductions)[i], power);
    next_bank();
    first = end;
  }
}

// Inclusive prefix over the elements of the whole CTA in this iteration, on top of what earlier
// iterations carried.
Vec Strips::scan(const Node& n, const Point& at, const Vec& x) {
  if (is_scalar(n)) return x;
  const auto carry_found = scan_carry_.find(n.id);
  if (!joining_ || carry_found == scan_carry_.end()) {
    fail(n, "a prefix is taken inside another loop than its row's", hint_of(n),
         "a prefix along the only axis of a tile");
    return x;
  }
  const Val carry = carry_found->second;
  const auto join_two = [&](const Val& a, const Val& b) {
    return combine(n.reduce, n.dtype, a, b);
  };
  const Val none = neutral(n.reduce, n.dtype);
  const auto over_lanes = [&](const Val& mine) {
    for (int distance = 1; distance < 32; distance *= 2) {
      const Val below = shuffled(Ins::kShflUp, mine, distance);
      set(mine, lanes::select(Val(distance) <= lane(), join_two(below, mine), mine));
    }
  };

  Vec prefix;
  for (int e = 0; e < at.width; ++e) {
    Val value = x.size() == 1 ? x[0] : x[static_cast<size_t>(e)];
    if (at.guard.present()) value = lanes::select(at.guard, value, none);
    prefix.push_back(
        declare(none.type(), "prefix", e == 0 ? value : join_two(prefix.back(), value)));
  }
  const Val sum = declare(none.type(), "sum", prefix.back());
  over_lanes(sum);
  Val before =
      name_value("before", lanes::select(Val(0) < lane(), shuffled(Ins::kShflUp, sum, 1), none));
  Val all = sum;
  if (warps() > 1) {
    uses_slots_ = true;
    store_shared(sum, slot(0, warp()), lanes::equal(lane(), 31));
    sync();
    const Val sums = declare(none.type(), "warp_sums");
    load_shared(sums, slot(0, lanes::min(lane(), Val(warps() - 1))));
    set(sums, lanes::select(lane() < Val(warps()), sums, none));
    over_lanes(sums);
    const Val below = shuffled(Ins::kShflIdx, sums, lanes::max(warp() - Val(1), Val(0)));
    before = name_value("before", join_two(lanes::select(Val(0) < warp(), below, none), before));
    all = sums;
    next_bank();
  }
  all = shuffled(Ins::kShflIdx, all, 31);
  const Val base = declare(none.type(), "base", join_two(carry, before));
  set(carry, join_two(carry, all));
  Vec out;
  for (const Val& p : prefix) out.push_back(declare(none.type(), "running", join_two(base, p)));
  return out;
}

}  // namespace rooftile::codegen
