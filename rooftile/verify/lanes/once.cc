// SPDX-License-Identifier: Apache-2.0
#include "rooftile/verify/lanes/once.h"

#include <algorithm>

#include "rooftile/verify/lanes/determined.h"
#include "rooftile/verify/lanes/meets.h"
#include "rooftile/verify/lanes/read_order.h"
#include "rooftile/verify/lanes/store_hits.h"
#include "rooftile/verify/lanes/table_runs.h"
#include "rooftile/verify/lanes/try_stores.h"

namespace rooftile::verify {

using lanes::Ins;
using lanes::Instr;

namespace {

constexpr size_t kMostChoices = 4;

// Stores with one base: the box that their offsets fill.
struct Group {
  std::vector<const TensorSite*> sites;
  std::vector<StoreForm> forms;
  std::vector<int64_t> low, size;  // of the box
  std::optional<TableRuns> runs;   // of the rows in one dimension ...
  size_t run_dim = 0;              // ... this one
  bool in_runs(size_t dim) const { return runs && run_dim == dim; }
};

class Proof {
 public:
  Proof(Walk& walk, const lanes::TensorUse& tensor, const std::vector<TensorSite>& sites)
      : walk_(walk), q_(walk.questions()), tensor_(tensor), sites_(sites) {}

  void run() {
    const std::string why = all();
    if (!why.empty())
      if (const auto bad = try_stores(walk_, tensor_, sites_, !kept_ && !tensor_.workspace))
        return walk_.report().broken(Kind::kWriteOnce, *bad->stmt, Prover::kEnumeration, bad->what,
                                     {bad->call, bad->at, bad->story});
    for (const TensorSite& site : sites_) {
      if (why.empty())
        walk_.report().proved(Kind::kWriteOnce, *site.stmt, Prover::kEnumeration);
      else if (twice_)
        walk_.report().broken(Kind::kWriteOnce, *site.stmt, Prover::kEnumeration, why);
      else
        walk_.report().unknown(Kind::kWriteOnce, *site.stmt, why);
    }
  }

 private:
  std::string all() {
    if (runs()) return {};
    std::vector<StoreForm> forms;
    for (const TensorSite& site : sites_) {
      forms.push_back(store_form(walk_, site));
      if (!forms.back().wrong.empty()) return forms.back().wrong;
    }
    const std::vector<Choice> choices = alternatives(forms);
    if (choices.size() > kMostChoices) return "too many branches that store it differently";
    // Each way that a CTA may go stores everything by itself. Where CTAs may go different ways,
    // each stores the same in all of them.
    const bool together = std::none_of(choices.begin(), choices.end(), names_the_cta);
    std::string first;
    for (size_t way = 0; way < size_t{1} << choices.size(); ++way) {
      if (std::string why = one_way(forms, choices, way); !why.empty()) return why;
      if (way == 0) first = share_;
      if (!together && share_ != first) return "CTAs that go another way store other elements";
    }
    return {};
  }

  // Conditions whose two sides both store, the same for all threads and copies.
  struct Choice {
    std::vector<Expr> yes;  // all of them
    Expr no;
  };
  static bool names_the_cta(const Choice& choice) {
    const std::set<std::string> names = symbols_of(choice.no);
    return std::any_of(names.begin(), names.end(), is_place);
  }
  // What of the tensor a CTA stores, as text. Where a dimension is the place of the CTA alone, all
  // that lies there is its own, in whatever boxes: everything is stored, once.
  std::string share_of(const std::map<std::string, Group>& groups) const {
    std::set<std::string> shares;
    for (const auto& [key, group] : groups)
      for (size_t d = 0; d < group.size.size(); ++d) {
        const Expr& base = group.forms[0].base[d];
        const std::set<std::string> names = symbols_of(base);
        if (std::none_of(names.begin(), names.end(), is_place)) continue;
        const bool alone = std::all_of(names.begin(), names.end(), [&](const std::string& name) {
          const Symbol* symbol = walk_.symbols().find(name);
          return is_place(name) || (symbol != nullptr && symbol->kind == SymbolKind::kCall);
        });
        if (!alone) return boxes_of(groups);
        shares.insert(std::to_string(d) + ": " + base.str() + " + " + std::to_string(group.low[d]) +
                      " +: " + std::to_string(group.size[d]) + "; ");
      }
    if (shares.empty()) return boxes_of(groups);
    std::string out;
    for (const std::string& share : shares) out += share;
    return out;
  }
  static bool is_place(const std::string& name) { return name.starts_with("cta."); }
  // Families of stores, as text: which boxes, and how often.
  static std::string boxes_of(const std::map<std::string, Group>& groups) {
    std::string out;
    for (const auto& [key, group] : groups) {
      out += key + "[";
      for (size_t d = 0; d < group.size.size(); ++d)
        out += std::to_string(group.low[d]) + " +: " + std::to_string(group.size[d]) + ", ";
      std::map<std::string, Expr, std::less<>> renamed;
      const std::vector<Digit>& digits = group.forms[0].digits;
      for (size_t d = 0; d < digits.size(); ++d)
        renamed.emplace(digits[d].symbol.name(), Expr::sym("$" + std::to_string(d)));
      for (const Digit& digit : digits) out += substitute(digit.count, renamed).str() + " x ";
      out += "] ";
    }
    return out;
  }
  static bool has(const StoreForm& form, const Expr& e) {
    return std::any_of(form.clips.begin(), form.clips.end(),
                       [&](const Expr& clip) { return clip.same_as(e); });
  }
  static bool says_yes(const StoreForm& form, const Choice& choice) {
    return std::all_of(choice.yes.begin(), choice.yes.end(),
                       [&](const Expr& e) { return has(form, e); });
  }

  std::vector<Choice> alternatives(const std::vector<StoreForm>& forms) const {
    std::vector<Choice> out;
    for (const StoreForm& form : forms)
      for (const Expr& clip : form.clips) {
        Choice choice{{}, clip};
        conjuncts(negated(clip), choice.yes);
        const bool both = std::any_of(forms.begin(), forms.end(), [&](const StoreForm& other) {
          return says_yes(other, choice);
        });
        const bool known = std::any_of(out.begin(), out.end(), [&](const Choice& c) {
          return c.no.same_as(clip) || (c.yes.size() == 1 && c.yes[0].same_as(clip));
        });
        if (both && !known && same_in_all_threads(clip)) out.push_back(std::move(choice));
      }
    return out;
  }

  static Expr negated(const Expr& e) {
    const std::vector<Expr>& a = e.args();
    switch (e.kind()) {
      case ExprKind::kNot:
        return a[0];
      case ExprKind::kEq:
        return a[0] != a[1];
      case ExprKind::kNe:
        return a[0] == a[1];
      case ExprKind::kLt:
        return a[1] <= a[0];
      case ExprKind::kLe:
        return a[1] < a[0];
      default:
        return !e;
    }
  }

  static void conjuncts(const Expr& e, std::vector<Expr>& out) {
    if (e.kind() != ExprKind::kAnd) return out.push_back(e);
    conjuncts(e.args()[0], out);
    conjuncts(e.args()[1], out);
  }

  bool same_in_all_threads(const Expr& e) const {
    const std::set<std::string> names = symbols_of(e);
    return std::all_of(names.begin(), names.end(), [&](const std::string& name) {
      const Symbol* symbol = walk_.symbols().find(name);
      return symbol != nullptr && (symbol->kind == SymbolKind::kCall || is_place(name));
    });
  }

  std::string one_way(const std::vector<StoreForm>& forms, const std::vector<Choice>& choices,
                      size_t way) {
    std::map<std::string, Group> groups;
    for (size_t s = 0; s < sites_.size(); ++s) {
      const TensorSite& site = sites_[s];
      StoreForm form = forms[s];
      bool taken = true;
      for (size_t c = 0; c < choices.size(); ++c) {
        const Choice& choice = choices[c];
        const bool yes = (way >> c & 1) != 0;
        taken = taken && !(yes ? has(form, choice.no) : says_yes(form, choice));
        std::erase_if(form.clips, [&](const Expr& clip) {
          return yes ? std::any_of(choice.yes.begin(), choice.yes.end(),
                                   [&](const Expr& e) { return e.same_as(clip); })
                     : clip.same_as(choice.no);
        });
        if (yes)
          form.domain.insert(form.domain.end(), choice.yes.begin(), choice.yes.end());
        else
          form.domain.push_back(choice.no);
      }
      if (!taken) continue;
      const std::string key = key_of(form);
      Group& group = groups[key];
      group.sites.push_back(&site);
      group.forms.push_back(std::move(form));
    }
    if (groups.empty()) return kept_ ? "" : "nobody stores it";
    for (auto& [key, group] : groups)
      if (std::string why = box(group); !why.empty()) return why;
    share_ = share_of(groups);
    for (auto& [key, group] : groups)
      if (std::string why = runs_of(group); !why.empty()) return why;
    for (auto& [key, group] : groups)
      for (const StoreForm& form : group.forms)
        if (std::string why = apart(group, form); !why.empty()) return why;
    if (std::string why = groups_apart(groups); !why.empty()) return why;
    if (kept_) return {};  // updated in place: what is not written keeps its value
    if (groups.size() > 1) return "several families of stores: whether they cover it does not show";
    return covers(groups.begin()->second);
  }

  // Each place of the box is hit once.
  std::string box(Group& group) {
    const size_t rank = group.forms[0].offset.size();
    std::vector<std::vector<int64_t>> hits;
    for (const StoreForm& form : group.forms) {
      auto found = hits_of(walk_.symbols(), form);
      if (!found) return "too many threads and copies to look at";
      for (Hit& hit : *found) hits.push_back(std::move(hit.at));
    }
    if (hits.empty()) return {};
    group.low.assign(rank, INT64_MAX);
    std::vector<int64_t> high(rank, INT64_MIN);
    for (const std::vector<int64_t>& hit : hits)
      for (size_t d = 0; d < rank; ++d) {
        group.low[d] = std::min(group.low[d], hit[d]);
        high[d] = std::max(high[d], hit[d] + group.sites[0]->extent[d]);
      }
    int64_t volume = 1;
    for (size_t d = 0; d < rank; ++d) {
      group.size.push_back(high[d] - group.low[d]);
      volume *= group.size[d] / group.sites[0]->extent[d];
    }
    // Where boxes begin belongs to the base.
    for (StoreForm& form : group.forms)
      for (size_t d = 0; d < rank; ++d) {
        form.base[d] = form.base[d] + Expr(group.low[d]);
        form.offset[d] = form.offset[d] - Expr(group.low[d]);
      }
    for (const TensorSite* site : group.sites)
      if (site->extent != group.sites[0]->extent) return "stores of several widths";
    for (const std::vector<int64_t>& hit : hits)
      for (size_t d = 0; d < rank; ++d)
        if ((hit[d] - group.low[d]) % group.sites[0]->extent[d] != 0)
          return "stores that begin inside others";
    std::sort(hits.begin(), hits.end());
    if (const auto it = std::adjacent_find(hits.begin(), hits.end()); it != hits.end()) {
      twice_ = std::all_of(group.forms.begin(), group.forms.end(),
                           [](const StoreForm& form) { return form.clips.empty(); });
      std::string at;
      for (int64_t x : *it) at += (at.empty() ? "" : ", ") + std::to_string(x);
      return "the element at offset (" + at + ") of its box is written twice";
    }
    if (volume != static_cast<int64_t>(hits.size()) && !kept_)
      return "offsets leave gaps: " + std::to_string(hits.size()) + " of " + std::to_string(volume);
    return {};
  }

  bool walks_slots(const Group& group, const TableRuns& runs) {
    return under(group, Expr(0) <= runs.walker() && runs.walker() < runs.count());
  }

  // Rows that lie where a table says.
  std::string runs_of(Group& group) {
    for (size_t d = 0; d < group.size.size(); ++d) {
      std::optional<TableRuns> runs = TableRuns::find(walk_, walk_.contract(), walk_.program(),
                                                      group.forms[0], d, group.size[d]);
      if (!runs) continue;
      for (const TensorSite* site : group.sites)
        if (site->extent[d] != 1) return "a store of several rows in a run";
      if (!walks_slots(group, *runs)) return "slots of the walk that the table does not have";
      if (std::string why = runs->apart(q_); !why.empty()) return why;
      for (const StoreForm& form : group.forms) {
        const auto other =
            TableRuns::find(walk_, walk_.contract(), walk_.program(), form, d, group.size[d]);
        if (!other || !other->same_as(*runs)) return "stores of one run under several conditions";
      }
      group.runs = std::move(runs);
      group.run_dim = d;
      break;
    }
    return {};
  }

  void know(const StoreForm& form) {
    for (const Expr& fact : form.domain) q_.assume(fact, FactKind::kDomain);
  }

  // Different CTAs, tiles, vectors: different boxes.
  std::string apart(const Group& group, const StoreForm& form) {
    if (group.size.empty()) return {};
    q_.push();
    know(form);
    for (const Expr& clip : form.clips) q_.assume(clip);
    std::string why;
    Determined determined(q_, walk_.contract());
    for (size_t d = 0; d < form.base.size(); ++d) {
      if (group.in_runs(d)) {  // a row is in one slot's run
        determined.add(group.runs->walker());
        continue;
      }
      if (group.size[d] > 1 && !q_.divides().multiple(form.base[d], group.size[d]) &&
          !q_.holds(form.base[d] % Expr(group.size[d]) == Expr(0)))
        why = form.base[d].str() + " is no multiple of its box's " + std::to_string(group.size[d]);
      determined.add(form.base[d]);
    }
    for (const Digit& digit : form.digits)
      if (why.empty() && !digit.count.is_const(1) && !determined.has(digit.symbol))
        why = digit.symbol.str() + " does not follow from the element that is written";
    q_.pop();
    return why;
  }

  // Families apart in some dimension: on either side of something that the call alone decides.
  std::string groups_apart(const std::map<std::string, Group>& groups) {
    for (auto a = groups.begin(); a != groups.end(); ++a)
      for (auto b = std::next(a); b != groups.end(); ++b)
        if (!separated(a->second, b->second) && !separated(b->second, a->second))
          return "two families of stores, whether they meet does not show";
    return {};
  }

  bool separated(const Group& low, const Group& high) {
    if (low.size.empty() || high.size.empty()) return true;
    for (size_t d = 0; d < low.size.size(); ++d) {
      std::vector<Expr> walls = closed_terms(high.forms[0].base[d]);
      for (const Expr& wall : walls)
        if (under(low, low.forms[0].base[d] + Expr(low.size[d]) <= wall) &&
            under(high, wall <= high.forms[0].base[d]))
          return true;
    }
    return false;
  }

  bool under(const Group& group, const Expr& goal) {
    q_.push();
    know(group.forms[0]);
    const bool holds = q_.holds(goal);
    q_.pop();
    return holds;
  }

  std::vector<Expr> closed_terms(const Expr& e) {
    if (e.kind() == ExprKind::kAdd) {
      std::vector<Expr> out = closed_terms(e.args()[0]);
      for (const Expr& more : closed_terms(e.args()[1])) out.push_back(more);
      return out;
    }
    for (const std::string& name : symbols_of(e)) {
      const Symbol* symbol = walk_.symbols().find(name);
      if (symbol != nullptr && symbol->kind != SymbolKind::kCall) return {};
    }
    return {e};
  }

  // As many boxes as the tensor has, each inside it, and nothing but its edge keeps a store back.
  std::string covers(const Group& group) {
    if (group.size.empty()) return "nobody stores it";
    q_.push();
    for (const Expr& extent : tensor_.shape) q_.assume(Expr(1) <= extent);  // else there is nothing
    std::string why = covers_all(group);
    q_.pop();
    return why;
  }

  std::string covers_all(const Group& group) {
    const StoreForm& form = group.forms[0];
    Expr stored = all_of(form.digits), wanted = 1;
    for (size_t d = 0; d < tensor_.shape.size(); ++d)
      wanted = wanted * (group.in_runs(d) ? group.runs->count()
                                          : ceil_div(tensor_.shape[d], Expr(group.size[d])));
    cancel(stored, wanted);
    if (!q_.holds(stored == wanted))
      return stored.str() + " boxes are stored, and the tensor has " + wanted.str();
    for (const StoreForm& other : group.forms)
      if (!as_often(form, other)) return "stores that fill a box together, and not equally often";
    if (group.runs) {
      if (std::string why = group.runs->covers(q_, tensor_.shape[group.run_dim]); !why.empty())
        return why;
    }
    for (size_t s = 0; s < group.sites.size(); ++s)
      if (std::string why = kept_back(group, s); !why.empty()) return why;
    return {};
  }

  // Whether two stores of one family are made the same number of times: their digits count alike.
  bool as_often(const StoreForm& a, const StoreForm& b) {
    if (a.digits.size() != b.digits.size()) return false;
    std::map<std::string, Expr, std::less<>> renamed;
    for (size_t d = 0; d < a.digits.size(); ++d)
      renamed.emplace(b.digits[d].symbol.name(), a.digits[d].symbol);
    for (size_t d = 0; d < a.digits.size(); ++d) {
      const Expr count = substitute(b.digits[d].count, renamed);
      if (!count.same_as(a.digits[d].count) && !q_.holds(count == a.digits[d].count)) return false;
    }
    return true;
  }

  // How often the digits together have a value.
  Expr all_of(const std::vector<Digit>& digits) {
    std::vector<Expr> counts;
    for (const Digit& digit : digits) counts.push_back(digit.count);
    for (size_t inner = 0; inner < digits.size(); ++inner)
      for (size_t outer = 0; outer < digits.size(); ++outer)
        if (inner != outer) sum_blocks(digits[outer].symbol, counts[outer], counts[inner]);
    Expr product = 1;
    for (const Expr& count : counts) product = product * count;
    return product;
  }

  // Blocks of B of X elements, the last one short: digit `outer` goes through them, `inner` has
  // min(X - i B, B) / w values in block i = outer % n of n = ceil(X / B). Their sum over the blocks
  // is X / w, where w divides X and B.
  void sum_blocks(const Expr& outer, Expr& outer_count, Expr& inner_count) {
    const bool divided =
        inner_count.kind() == ExprKind::kFloorDiv && inner_count.args()[1].is_const();
    const int64_t w = divided ? inner_count.args()[1].value() : 1;
    const Expr least = divided ? inner_count.args()[0] : inner_count;
    if (least.kind() != ExprKind::kMin || w < 1) return;
    for (const size_t which : {size_t{0}, size_t{1}}) {
      const Expr &block = least.args()[which], &rest = least.args()[1 - which];
      if (!block.is_const() || block.value() < 1 || block.value() % w != 0 ||
          rest.kind() != ExprKind::kSub)
        continue;
      const Expr &whole = rest.args()[0], n = ceil_div(whole, block);
      if (!rest.args()[1].same_as(outer % n * block) || closed_terms(whole).empty()) continue;
      if (w > 1 && !q_.holds(whole % Expr(w) == Expr(0))) continue;
      std::vector<Expr> factors;
      factors_of(outer_count, factors);
      const auto at = std::find_if(factors.begin(), factors.end(),
                                   [&](const Expr& factor) { return factor.same_as(n); });
      if (at == factors.end()) continue;
      factors.erase(at);
      outer_count = 1;
      for (const Expr& factor : factors) outer_count = outer_count * factor;
      inner_count = whole / Expr(w);
      return;
    }
  }

  static void factors_of(const Expr& e, std::vector<Expr>& out) {
    if (e.kind() != ExprKind::kMul) return out.push_back(e);
    factors_of(e.args()[0], out);
    factors_of(e.args()[1], out);
  }

  // Factors of both sides go; a tensor in which one of them is 0 has nothing to store.
  static void cancel(Expr& a, Expr& b) {
    std::vector<Expr> left, right;
    factors_of(a, left);
    factors_of(b, right);
    a = b = 1;
    for (const Expr& factor : left) {
      const auto it = std::find_if(right.begin(), right.end(),
                                   [&](const Expr& f) { return f.same_as(factor); });
      if (it != right.end())
        right.erase(it);
      else
        a = a * factor;
    }
    for (const Expr& factor : right) b = b * factor;
  }

  std::string kept_back(const Group& group, size_t s) {
    const StoreForm& form = group.forms[s];
    q_.push();
    know(form);
    std::string why;
    for (size_t d = 0; d < form.base.size(); ++d) {
      if (group.in_runs(d)) continue;
      if (!q_.holds(Expr(0) <= form.base[d]) || !q_.holds(form.base[d] < tensor_.shape[d]))
        why = form.base[d].str() + " is not shown to be the start of a box in the tensor";
    }
    for (const Expr& selector : form.selectors) q_.assume(selector);
    for (size_t d = 0; d < form.base.size(); ++d)
      if (!group.in_runs(d)) q_.assume(form.base[d] + form.offset[d] < tensor_.shape[d]);
    for (const Expr& clip : form.clips)
      if (!(group.runs && group.runs->accounts_for(clip)) && why.empty() && !q_.holds(clip))
        why = "an element inside the tensor is not stored unless " + clip.str();
    q_.pop();
    return why;
  }

  // Runs end to end: CTA c stores [begin(c), begin(c + 1)).
  bool runs() {
    if (sites_.size() != 1 || sites_[0].index.size() != 1) return false;
    const TensorSite& site = sites_[0];
    const StoreForm form = store_form(walk_, site);
    if (!form.wrong.empty() || form.digits.size() != 2 || !form.clips.empty() ||
        !form.selectors.empty() || !form.offset[0].is_const(0) || site.extent[0] != 1)
      return false;
    const Digit &vector = form.digits[0], &cta = form.digits[1];
    if (!cta.symbol.same_as(Expr::sym("cta.x"))) return false;
    const auto at = [&](const Expr& e, const Expr& c) {
      return substitute(e, {{cta.symbol.name(), c}, {vector.symbol.name(), Expr(0)}});
    };
    const Expr& begin = form.base[0];
    q_.push();
    know(form);
    const bool side_by_side =
        q_.holds(begin == at(begin, cta.symbol) + vector.symbol) &&
        q_.holds(at(begin, cta.symbol) + vector.count == at(begin, cta.symbol + Expr(1)));
    q_.pop();
    return side_by_side && q_.holds(at(begin, 0) == Expr(0) || cta.count <= Expr(0)) &&
           q_.holds(at(begin, cta.count) == tensor_.shape[0] || cta.count <= Expr(0));
  }

  Walk& walk_;
  Questions& q_;
  const lanes::TensorUse& tensor_;
  const std::vector<TensorSite>& sites_;
  bool twice_ = false;
  std::string share_;  // of the way that was looked at last
  const bool kept_ =
      (tensor_.workspace && tensor_.read) || walk_.contract().kept.count(tensor_.name) != 0;
};

// The index of a site, alike for sites that walk alike.
std::string canonical(Walk& walk, const TensorSite& site) {
  const StoreForm form = store_form(walk, site);
  std::string out;
  for (size_t d = 0; d < form.base.size(); ++d)
    out += (form.base[d] + form.offset[d]).str() + " x " + std::to_string(site.extent[d]) + ";";
  int n = 0;
  std::vector<std::string> names;
  for (const Digit& digit : form.digits) names.push_back(digit.symbol.name());
  for (const std::string& name : form.counted)
    if (name != "tid") names.push_back(name);
  for (const std::string& name : names) {
    const std::string to = "$" + std::to_string(n++);
    if (name.starts_with("cta.")) continue;
    for (size_t at; (at = out.find(name)) != std::string::npos;) out.replace(at, name.size(), to);
  }
  return out;
}

}  // namespace

void Once::instruction(Walk& walk, const lanes::Stmt& stmt) {
  const Instr& instr = stmt.instr;
  const lanes::InsInfo& info = lanes::ins_info(instr.ins);
  const bool tma = !instr.map.empty() && instr.ins != Ins::kPrefetchMap;
  if (instr.ins == Ins::kNamedSync) sites_.barriers[&stmt] = walk.value(instr.args[0]);
  if (instr.global.tensor.empty() && !tma) return;
  TensorSite site;
  site.stmt = &stmt;
  std::string tensor = instr.global.tensor;
  if (tma) {
    const lanes::TensorMapUse* map = map_named(program_, instr.map);
    if (map == nullptr) return;
    tensor = map->tensor;
    for (size_t d = map->box.size(); d-- > 0;) {
      site.index.push_back(walk.value(instr.args[instr.args.size() - map->box.size() + d]));
      site.extent.push_back(map->box[d]);
    }
  } else {
    for (const lanes::Val& index : instr.global.index) {
      site.index.push_back(walk.value(index));
      site.extent.push_back(1);
    }
    if (!site.extent.empty()) site.extent.back() = instr.global.width;
  }
  // Those of the contract hold anyway.
  const auto first = static_cast<std::ptrdiff_t>(walk.questions().contract_facts());
  site.facts.assign(walk.questions().facts().begin() + first, walk.questions().facts().end());
  site.kinds.assign(walk.questions().kinds().begin() + first, walk.questions().kinds().end());
  site.loops = walk.loops();
  if (instr.ins == Ins::kWaitGlobal) site.awaited = walk.value(instr.args[0]);
  if ((info.writes & lanes::kGlobal) == 0)
    sites_.reads[tensor].push_back(std::move(site));
  else if ((info.reads & lanes::kGlobal) != 0)
    sites_.adds[tensor].push_back(std::move(site));
  else
    sites_.writes[tensor].push_back(std::move(site));
}

// A tensor that the code says it stores, and nobody does.
void Once::all_stored(Walk& walk) {
  for (const lanes::TensorUse& tensor : program_.tensors) {
    if (!tensor.written || walk.contract().kept.count(tensor.name) != 0) continue;
    if (sites_.writes.count(tensor.name) == 0 && sites_.adds.count(tensor.name) == 0)
      walk.report().kernel(Kind::kWriteOnce, "tensor " + tensor.name, false, Prover::kDataflow,
                           "nobody stores it");
  }
}

void Once::finish(Walk& walk) {
  all_stored(walk);
  for (const auto& [name, sites] : sites_.adds)
    for (const TensorSite& site : sites)
      walk.report().proved(Kind::kWriteOnce, *site.stmt, Prover::kDataflow);
  const std::set<std::string> met = prove_meets(walk, sites_);
  for (const auto& [name, sites] : sites_.writes)
    if (const lanes::TensorUse* tensor = tensor_named(program_, name);
        tensor != nullptr && met.count(name) == 0)
      Proof(walk, *tensor, sites).run();
  // Reads of what is written, by this name or one that may be the same tensor.
  for (const auto& [name, writes] : sites_.writes) {
    std::set<std::string> stored;
    for (const TensorSite& site : writes) stored.insert(canonical(walk, site));
    const auto check = [&, &writes = writes](const std::string& read) {
      const auto it = sites_.reads.find(read);
      if (it == sites_.reads.end()) return;
      for (const TensorSite& site : it->second) {
        if (read_by_the_same_threads(walk, site, writes))
          walk.report().proved(Kind::kGlobalRace, *site.stmt, Prover::kEnumeration);
        else if (stored.count(canonical(walk, site)) != 0)
          walk.report().proved(Kind::kGlobalRace, *site.stmt, Prover::kDataflow);
        else if (read_before_the_group_meets(walk, site, writes, sites_))
          walk.report().proved(Kind::kGlobalRace, *site.stmt, Prover::kEnumeration);
        else
          walk.report().unknown(Kind::kGlobalRace, *site.stmt,
                                "reads " + read +
                                    ", which is written, and neither by the very thread at the "
                                    "very elements nor behind a barrier of all who read");
      }
    };
    if (met.count(name) != 0 || sites_.images.count(name) != 0) continue;
    check(name);
    for (const auto& [a, b] : walk.contract().may_alias) {
      if (a == name) check(b);
      if (b == name) check(a);
    }
  }
}

}  // namespace rooftile::verify
