// SPDX-License-Identifier: Apache-2.0
#include "rooftile/verify/lanes/store_form.h"

#include <algorithm>
#include <functional>
#include <utility>

namespace rooftile::verify {

using K = ExprKind;

namespace {

constexpr int64_t kMostCopies = 4096;  // of an unrolled loop

using Replacements = std::vector<std::pair<Expr, Expr>>;

Expr replaced(const Expr& e, const Replacements& all) {
  for (const auto& [from, to] : all)
    if (e.same_as(from)) return to;
  if (e.args().empty()) return e;
  std::vector<Expr> args;
  bool changed = false;
  for (const Expr& arg : e.args()) {
    args.push_back(replaced(arg, all));
    changed |= args.back().node() != arg.node();
  }
  return changed ? Expr::make(e.kind(), std::move(args), e.kind() == K::kIndexLoad ? e.name() : "")
                 : e;
}

void terms_of(const Expr& e, const Expr& factor, std::vector<Expr>& out) {
  const std::vector<Expr>& a = e.args();
  if (e.kind() == K::kAdd || e.kind() == K::kSub) {
    terms_of(a[0], factor, out);
    return terms_of(a[1], e.kind() == K::kAdd ? factor : Expr(0) - factor, out);
  }
  if (e.kind() == K::kMul && a[1].is_const()) return terms_of(a[0], factor * a[1], out);
  out.push_back(e * factor);
}

// Of a site in a loop that hands out parts: who comes to it.
enum class Part { kAny, kOwner, kOther };

Part part_of(const TensorSite& site, const PartsAt& parts) {
  for (size_t i = 0; i < site.facts.size(); ++i) {
    if (site.kinds[i] != FactKind::kCondition) continue;
    if (says(site.facts[i], parts.slot, parts.owner, true)) return Part::kOwner;
    if (says(site.facts[i], parts.slot, parts.owner, false)) return Part::kOther;
  }
  return Part::kAny;
}

class Former {
 public:
  Former(Walk& walk, const TensorSite& site) : walk_(walk), site_(site) {}

  StoreForm run() {
    grid();
    counted_.insert("tid");
    for (const LoopAt& loop : site_.loops) add(loop);
    for (const Expr& index : site_.index) split(replaced(index, replacements_));
    facts();
    if (tid_taken_) counted_.erase("tid");
    form_.counted.assign(counted_.begin(), counted_.end());
    return std::move(form_);
  }

 private:
  Expr place(const std::string& hint, const Interval& range) {
    return walk_.symbols().add(hint, {.kind = SymbolKind::kPlace, .range = range});
  }
  void fail(const std::string& why) {
    if (form_.wrong.empty()) form_.wrong = why;
  }

  void grid() {
    const lanes::Program& p = walk_.program();
    const Expr x = Expr::sym("cta.x");
    if (p.cluster == 1) {
      cta_ = x;
      ctas_ = p.grid_x;
    } else {
      const Expr rank = place("rank", {0, p.cluster - 1});
      cta_ = place("cluster.x", {0, INT32_MAX});
      ctas_ = p.grid_x / Expr(p.cluster);
      counted_.insert(rank.name());
      replacements_.emplace_back(x % Expr(p.cluster), rank);
      replacements_.emplace_back(x / Expr(p.cluster), cta_);
      form_.domain.push_back(cta_ < ctas_);
    }
    for (const auto& [name, count] : {std::pair("cta.y", p.grid_y), std::pair("cta.z", p.grid_z)})
      if (!count.is_const(1)) form_.digits.push_back({Expr::sym(name), count});
  }

  void add(const LoopAt& loop) {
    if (loop.name.empty()) return;  // one copy at a time
    if (loop.parts != nullptr) return add_parts(*loop.parts);
    const lanes::Program& p = walk_.program();
    const Expr tid = Expr::sym("tid");
    if (loop.begin.same_as(tid) && loop.step.is_const(p.threads)) {
      // All threads together walk 0 .. end.
      const Expr v = place("vector", {0, INT32_MAX});
      replacements_.emplace_back(loop.variable, v);
      form_.digits.push_back({v, replaced(loop.end, replacements_)});
      tid_taken_ = true;
      return;
    }
    if (loop.begin.is_const() && loop.end.is_const() && loop.step.is_const()) {
      const Interval range = walk_.symbols().find(loop.name)->range;
      if (!range.bounded() || range.hi - range.lo > kMostCopies)
        return fail("a long loop of copies");
      const Expr counter = Expr::sym(loop.name);
      // Vectors held in registers: the same walk, of known length, clipped by a guard.
      const Expr vector = tid + counter * Expr(p.threads);
      if (range.lo == 0 && mentions(vector)) {
        const int64_t capacity = (range.hi + 1) * p.threads;
        const Expr v = place("vector", {0, capacity - 1});
        replacements_.emplace_back(vector, v);
        held_.push_back({v, capacity});
        tid_taken_ = true;
        return;
      }
      counted_.insert(loop.name);
      return;
    }
    // A walk of the grid over tiles.
    const Expr begin = replaced(loop.begin, replacements_);
    const Expr step = replaced(loop.step, replacements_);
    if (!walked_ && begin.same_as(cta_) &&
        (step.same_as(ctas_) || walk_.questions().holds(step == ctas_))) {
      walked_ = true;
      form_.digits.push_back({Expr::sym(loop.name), replaced(loop.end, replacements_)});
      return;
    }
    fail("stored in a loop that is no walk of the grid or of the threads");
  }

  // The lemmas of hand_out.h: each tile has one owner; each slot sends once at most.
  void add_parts(const PartsAt& parts) {
    walked_ = true;
    parts_ = &parts;
    const Part part = part_of(site_, parts);
    if (part == Part::kOwner)
      form_.digits.push_back({parts.tile, parts.tiles});
    else if (part == Part::kOther && parts.form->form == HandOut::kRuns)
      form_.digits.push_back({cta_, ctas_});
    else if (part == Part::kOther)
      form_.digits.push_back({parts.slot, parts.slots});
    else
      fail("stored by all who have parts of a tile");
  }

  bool mentions(const Expr& e) const {
    const std::function<bool(const Expr&)> in = [&](const Expr& x) {
      return x.same_as(e) || std::any_of(x.args().begin(), x.args().end(), in);
    };
    return std::any_of(site_.index.begin(), site_.index.end(), in);
  }

  bool counted_only(const Expr& e) const {
    const std::set<std::string> names = walk_.symbols().closure(e);
    return std::all_of(names.begin(), names.end(), [&](const std::string& name) {
      const Symbol* symbol = walk_.symbols().find(name);
      return counted_.count(name) != 0 ||
             (symbol != nullptr && symbol->kind == SymbolKind::kDefined);
    });
  }
  bool counted_at_all(const Expr& e) const {
    const std::set<std::string> names = walk_.symbols().closure(e);
    return std::any_of(names.begin(), names.end(),
                       [&](const std::string& name) { return counted_.count(name) != 0; });
  }

  void split(const Expr& index) {
    std::vector<Expr> terms;
    terms_of(index, 1, terms);
    Expr base = 0, offset = 0;
    for (const Expr& term : terms) {
      if (term.is_const() || counted_only(term)) {
        offset = offset + term;
      } else {
        if (counted_at_all(term)) fail("an index mixes threads and tiles: " + term.str());
        base = base + term;
      }
    }
    form_.base.push_back(base);
    form_.offset.push_back(offset);
  }

  void facts() {
    if (!walked_) {
      form_.digits.push_back({cta_, ctas_});
    }
    for (size_t i = 0; i < site_.facts.size(); ++i) {
      const Expr fact = replaced(site_.facts[i], replacements_);
      if (parts_ != nullptr && (says(site_.facts[i], parts_->slot, parts_->owner, true) ||
                                says(site_.facts[i], parts_->slot, parts_->owner, false)))
        continue;  // the digit says it
      if (site_.kinds[i] != FactKind::kCondition) {
        form_.domain.push_back(fact);
        continue;
      }
      if (limits_held(fact)) continue;
      (counted_only(fact) ? form_.selectors : form_.clips).push_back(fact);
    }
    for (const auto& [v, capacity] : held_) form_.digits.push_back({v, Expr(capacity)});
  }

  // v < count of a walk in registers: how far it goes, if the registers are enough.
  bool limits_held(const Expr& fact) {
    if (fact.kind() != K::kLt) return false;
    for (size_t i = 0; i < held_.size(); ++i) {
      if (!fact.args()[0].same_as(held_[i].first)) continue;
      if (!walk_.questions().holds(fact.args()[1] <= Expr(held_[i].second))) return false;
      form_.digits.push_back({held_[i].first, fact.args()[1]});
      form_.domain.push_back(fact);
      held_.erase(held_.begin() + static_cast<std::ptrdiff_t>(i));
      return true;
    }
    return false;
  }

  Walk& walk_;
  const TensorSite& site_;
  StoreForm form_;
  Replacements replacements_;
  std::set<std::string> counted_;
  std::vector<std::pair<Expr, int64_t>> held_;
  Expr cta_, ctas_;
  const PartsAt* parts_ = nullptr;
  bool walked_ = false, tid_taken_ = false;
};

}  // namespace

bool says(const Expr& fact, const Expr& a, const Expr& b, bool equal) {
  const std::vector<Expr>& args = fact.args();
  if (fact.kind() == K::kNot) return says(args[0], a, b, !equal);
  if (fact.kind() != (equal ? K::kEq : K::kNe)) return false;
  return (args[0].same_as(a) && args[1].same_as(b)) || (args[0].same_as(b) && args[1].same_as(a));
}

StoreForm store_form(Walk& walk, const TensorSite& site) { return Former(walk, site).run(); }

}  // namespace rooftile::verify
