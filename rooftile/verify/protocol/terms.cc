// SPDX-License-Identifier: Apache-2.0
// Interning, bounds, renaming and texts of terms; what functions make of them is in term_fns.cc.
#include "rooftile/verify/protocol/terms.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "rooftile/lanes/value_rules.h"

namespace rooftile::verify::protocol {
namespace {

using lanes::Ty;

int64_t clamp(__int128 x) { return static_cast<int64_t>(std::clamp<__int128>(x, -kOpen, kOpen)); }
// An open end stays open, whatever is added.
int64_t plus(int64_t a, int64_t b) {
  if (a <= -kOpen || a >= kOpen) return a;
  if (b <= -kOpen || b >= kOpen) return b;
  return clamp(static_cast<__int128>(a) + b);
}
Interval times(Interval i, int64_t by) {
  const auto end = [&](int64_t x) { return clamp(static_cast<__int128>(x) * by); };
  if (by == 0) return {0, 0};
  return by > 0 ? Interval{end(i.lo), end(i.hi)} : Interval{end(i.hi), end(i.lo)};
}

Interval type_bounds(Ty type) {
  switch (type) {
    case Ty::kPred:
      return {0, 1};
    case Ty::kI32:
      return {-(int64_t{1} << 31), (int64_t{1} << 31) - 1};
    case Ty::kU32:
      return {0, (int64_t{1} << 32) - 1};
    case Ty::kU64:
      return {0, kOpen};
    default:
      return kAnything;
  }
}

}  // namespace

bool Loop::operator<(const Loop& o) const {
  return std::tie(parent, base, unit, end, occurrence, renamed) <
         std::tie(o.parent, o.base, o.unit, o.end, o.occurrence, o.renamed);
}

size_t Terms::ValueHash::operator()(const Value& v) const {
  uint64_t h = static_cast<uint64_t>(v.sum) * 0x9E3779B97F4A7C15ull + v.unknown;
  for (const int64_t x : v.lane) h = (h ^ static_cast<uint64_t>(x)) * 0xC2B2AE3D27D4EB4Full + 1;
  return h ^ (h >> 29);
}

size_t Terms::CallHash::operator()(const Call& c) const {
  uint64_t h = c.what;
  for (const ValueId arg : c.args) h = (h ^ static_cast<uint32_t>(arg)) * 0x9E3779B97F4A7C15ull;
  return h ^ (h >> 29);
}

Terms::Terms() {
  sums_.emplace_back();
  sum_bounds_.push_back({0, 0});
  sum_ids_.emplace(Coefficients(), kNoSum);
  Value unknown;
  unknown.unknown = kAllLanes;
  intern(unknown);
  unknown.lane[0] = 1;
  intern(unknown);
}

// ---- interning

ValueId Terms::intern(const Value& v) {
  const auto [it, is_new] = value_ids_.emplace(v, static_cast<ValueId>(values_.size()));
  if (is_new) values_.push_back(v);
  return it->second;
}

ValueId Terms::constant(int64_t number) {
  Value v;
  v.lane.fill(number);
  return intern(v);
}

ValueId Terms::of_lanes(const std::array<int64_t, kLanes>& lane) {
  Value v;
  v.lane = lane;
  return intern(v);
}

ValueId Terms::of_sum(SumId sum, int64_t number) {
  Value v;
  v.sum = sum;
  v.lane.fill(number);
  return intern(v);
}

SumId Terms::sum_of(Coefficients terms) {
  std::erase_if(terms, [](const auto& t) { return t.second == 0; });
  const auto [it, is_new] = sum_ids_.emplace(terms, static_cast<SumId>(sums_.size()));
  if (is_new) {
    sum_bounds_.push_back(bounds_of(terms));
    sums_.push_back(std::move(terms));
  }
  return it->second;
}

ValueId Terms::of_atom(AtomId atom) { return of_sum(sum_of({{atom, 1}}), 0); }

AtomId Terms::intern_atom(Atom a) {
  std::string key =
      fmt::format("{} {} {} {} {} {}", static_cast<int>(a.kind), static_cast<int>(a.type),
                  static_cast<int>(a.fn), a.name, a.loop, a.index);
  for (const ValueId arg : a.args) key += fmt::format(",{}", arg);
  const auto [it, is_new] = atom_ids_.emplace(std::move(key), static_cast<AtomId>(atoms_.size()));
  if (!is_new) return it->second;
  for (const ValueId arg : a.args)
    if (const AtomId step = newest_step(arg); depth(step) > depth(a.newest_step))
      a.newest_step = step;
  if (a.kind == AtomKind::kStep) a.newest_step = it->second;
  const Interval fixed = a.bounds;
  atoms_.push_back(std::move(a));
  const Interval derived = atom_bounds(atoms_.back());
  atoms_.back().bounds = {std::max(fixed.lo, derived.lo), std::min(fixed.hi, derived.hi)};
  return it->second;
}

ValueId Terms::symbol(const std::string& name, Ty type, Interval bounds) {
  Atom a;
  a.kind = AtomKind::kSymbol;
  a.type = type;
  a.name = name;
  a.bounds = bounds;
  return of_atom(intern_atom(std::move(a)));
}

ValueId Terms::float_constant(double number) {
  Atom a;
  a.kind = AtomKind::kFloat;
  a.type = Ty::kF32;
  a.index = std::bit_cast<int64_t>(number);
  return of_atom(intern_atom(std::move(a)));
}

ValueId Terms::load(const std::string& tensor, Ty type, std::vector<ValueId> index,
                    Interval bounds) {
  Atom a;
  a.kind = AtomKind::kLoad;
  a.type = type;
  a.name = tensor;
  a.args = std::move(index);
  a.bounds = bounds;
  return of_atom(intern_atom(std::move(a)));
}

LoopId Terms::loop(const Loop& key) {
  Loop l = key;
  l.depth = l.parent == kNoAtom ? 0 : depth(l.parent) + 1;
  const auto [it, is_new] = loop_ids_.emplace(l, static_cast<LoopId>(loops_.size()));
  if (is_new) loops_.push_back(l);
  return it->second;
}

AtomId Terms::step_atom(LoopId l, int64_t index) {
  Atom a;
  a.kind = AtomKind::kStep;
  a.loop = l;
  a.index = index;
  return intern_atom(std::move(a));
}

// Before the first step nothing is added: the variable is what it began with.
ValueId Terms::step(LoopId l, int64_t index) {
  return index <= 0 ? scaled(loop(l).unit, index) : of_atom(step_atom(l, index));
}

// ---- questions

bool Terms::known(ValueId id, uint32_t mask) const {
  const Value& v = value(id);
  return v.sum == kNoSum && (v.unknown & mask) == 0;
}

bool Terms::uniform(ValueId id, uint32_t mask) const {
  const Value& v = value(id);
  if ((v.unknown & mask) != 0) return false;
  const int first = std::countr_zero(mask);
  for (uint32_t left = mask; left != 0; left &= left - 1)
    if (v.lane[static_cast<size_t>(std::countr_zero(left))] != v.lane[static_cast<size_t>(first)])
      return false;
  return true;
}

bool Terms::is(ValueId id, int64_t number) const {
  return known(id) && uniform(id) && value(id).lane[0] == number;
}

Interval Terms::atom_bounds(const Atom& a) const {
  const auto arg = [&](size_t i) { return uniform(a.args[i]) ? bounds(a.args[i]) : kAnything; };
  switch (a.kind) {
    case AtomKind::kPositive:
    case AtomKind::kZero:
      return {0, 1};
    case AtomKind::kFloat:
      return kAnything;
    case AtomKind::kStep: {
      const Loop& l = loop(a.loop);
      const Interval unit = bounds(l.unit);
      if (!l.renamed && unit.lo == unit.hi) return times(unit, a.index);
      return {unit.lo, kOpen};
    }
    case AtomKind::kFn:
      break;
    default:
      return type_bounds(a.type);
  }
  using lanes::Fn;
  const Interval whole = type_bounds(a.type);
  switch (a.fn) {
    case Fn::kMin:
      return {std::min(arg(0).lo, arg(1).lo), std::min(arg(0).hi, arg(1).hi)};
    case Fn::kMax:
      return {std::max(arg(0).lo, arg(1).lo), std::max(arg(0).hi, arg(1).hi)};
    case Fn::kSelect:
      return {std::min(arg(1).lo, arg(2).lo), std::max(arg(1).hi, arg(2).hi)};
    case Fn::kFloorMod:
      return arg(1).lo > 0 ? Interval{0, arg(1).hi - 1} : whole;
    case Fn::kFloorDiv: {
      const Interval n = arg(0), d = arg(1);
      if (n.lo < 0 || d.lo <= 0) return whole;
      return {d.hi < kOpen ? n.lo / d.hi : 0, n.hi < kOpen ? n.hi / d.lo : kOpen};
    }
    case Fn::kMul:
      if (arg(0).lo < 0 || arg(1).lo < 0) return whole;
      return {clamp(static_cast<__int128>(arg(0).lo) * arg(1).lo), kOpen};
    case Fn::kLogicalAnd:
    case Fn::kLogicalOr:
      return {0, 1};
    default:
      return whole;
  }
}

// Steps of one loop are as far apart as their numbers say.
Interval Terms::bounds_of(const Coefficients& terms) const {
  Interval out{0, 0};
  const auto take = [&](Interval i) { out = {plus(out.lo, i.lo), plus(out.hi, i.hi)}; };
  std::vector<bool> taken(terms.size());
  for (size_t i = 0; i < terms.size(); ++i) {
    if (taken[i]) continue;
    const Atom& a = atom(terms[i].first);
    if (a.kind == AtomKind::kStep)
      for (size_t j = i + 1; j < terms.size() && !taken[i]; ++j) {
        const Atom& b = atom(terms[j].first);
        if (taken[j] || b.kind != AtomKind::kStep || b.loop != a.loop ||
            terms[i].second != -terms[j].second)
          continue;
        taken[i] = taken[j] = true;
        take(times(bounds(loop(a.loop).unit), (a.index - b.index) * terms[i].second));
      }
    if (!taken[i]) take(times(a.bounds, terms[i].second));
  }
  return out;
}

Interval Terms::bounds(ValueId id, int lane) const {
  const Value& v = value(id);
  if ((v.unknown >> lane & 1) != 0) return kAnything;
  const Interval& s = sum_bounds_[static_cast<size_t>(v.sum)];
  const int64_t c = v.lane[static_cast<size_t>(lane)];
  return {plus(s.lo, c), plus(s.hi, c)};
}

AtomId Terms::newest_step_of(SumId s) const {
  AtomId newest = kNoAtom;
  for (const auto& [a, by] : sum(s))
    if (const AtomId step = atom(a).newest_step; depth(step) > depth(newest)) newest = step;
  return newest;
}

AtomId Terms::newest_step(ValueId v) const { return newest_step_of(value(v).sum); }

// ---- renaming

void Terms::begin_renaming(std::map<LoopId, int64_t> shift) {
  shift_ = std::move(shift);
  renamed_values_.clear();
  renamed_atoms_.clear();
  renamed_sums_.clear();
  renamed_loops_.clear();
}

LoopId Terms::renamed_loop(LoopId l) {
  if (const auto it = renamed_loops_.find(l); it != renamed_loops_.end()) return it->second;
  Loop to = loop(l);
  to.parent = renamed_atom(to.parent);
  to.base = renamed(to.base);
  to.unit = renamed(to.unit);
  to.end = renamed(to.end);
  const auto by = shift_.find(l);
  to.renamed |= by != shift_.end() && by->second != 0;
  const LoopId out = loop(to);
  renamed_loops_.emplace(l, out);
  return out;
}

AtomId Terms::renamed_atom(AtomId id) {
  if (id == kNoAtom || atom(id).newest_step == kNoAtom) return id;
  if (const auto it = renamed_atoms_.find(id); it != renamed_atoms_.end()) return it->second;
  Atom a = atom(id);
  if (a.kind == AtomKind::kStep) {
    const auto by = shift_.find(a.loop);
    const LoopId l = renamed_loop(a.loop);
    const AtomId out = step_atom(l, a.index - (by == shift_.end() ? 0 : by->second));
    renamed_atoms_.emplace(id, out);
    return out;
  }
  for (ValueId& arg : a.args) arg = renamed(arg);
  a.newest_step = kNoAtom;
  if (a.kind != AtomKind::kLoad) a.bounds = kAnything;
  const AtomId out = intern_atom(std::move(a));
  renamed_atoms_.emplace(id, out);
  return out;
}

SumId Terms::renamed_sum(SumId s) {
  if (newest_step_of(s) == kNoAtom) return s;
  if (const auto it = renamed_sums_.find(s); it != renamed_sums_.end()) return it->second;
  Coefficients terms = sum(s);
  for (auto& [a, by] : terms) a = renamed_atom(a);
  std::sort(terms.begin(), terms.end());
  const SumId out = sum_of(std::move(terms));
  renamed_sums_.emplace(s, out);
  return out;
}

ValueId Terms::renamed(ValueId id) {
  const SumId s = value(id).sum;
  if (s == kNoSum || newest_step_of(s) == kNoAtom) return id;
  if (const auto it = renamed_values_.find(id); it != renamed_values_.end()) return it->second;
  const SumId sum = renamed_sum(s);
  Value v = value(id);
  v.sum = sum;
  const ValueId out = intern(v);
  renamed_values_.emplace(id, out);
  return out;
}

// ---- texts

std::string Terms::atom_text(AtomId id, bool shape) const {
  const Atom& a = atom(id);
  std::string args;
  for (const ValueId arg : a.args) args += (args.empty() ? "" : ", ") + text(arg, shape);
  switch (a.kind) {
    case AtomKind::kSymbol:
      return a.name;
    case AtomKind::kFloat:
      return lanes::float_text(std::bit_cast<double>(a.index));
    case AtomKind::kLoad:
      return fmt::format("{}[{}]", a.name, args);
    case AtomKind::kStep: {
      if (shape) return "step";
      const Loop& l = loop(a.loop);
      const bool one = is(l.unit, 1);
      return fmt::format(
          "{}{}", loop(a.loop).renamed ? "later " : "",
          one ? fmt::format("step{}", a.index) : fmt::format("{}*({})", a.index, text(l.unit)));
    }
    case AtomKind::kPositive:
      return fmt::format("[{} >= 0]", args);
    case AtomKind::kZero:
      return fmt::format("[{} == 0]", args);
    case AtomKind::kFn:
      return fmt::format("{}({})", lanes::fn_info(a.fn).name, args);
  }
  return "";
}

std::string Terms::text(ValueId id, bool shape) const {
  const Value& v = value(id);
  if (v.unknown != 0) return "?";
  std::string out;
  for (const auto& [a, by] : sum(v.sum)) {
    const std::string name = atom_text(a, shape);
    if (by == 1)
      out += (out.empty() ? "" : " + ") + name;
    else if (by == -1)
      out += (out.empty() ? "-" : " - ") + name;
    else
      out += fmt::format("{}{}*{}", out.empty() ? "" : " + ", by, name);
  }
  const int64_t c = v.lane[0];
  if (out.empty()) return std::to_string(c);
  if (c > 0) out += fmt::format(" + {}", c);
  if (c < 0) out += fmt::format(" - {}", -c);
  return out;
}

}  // namespace rooftile::verify::protocol
