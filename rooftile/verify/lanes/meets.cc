// SPDX-License-Identifier: Apache-2.0
#include "rooftile/verify/lanes/meets.h"

#include <algorithm>
#include <map>
#include <optional>

#include "rooftile/verify/lanes/order.h"
#include "rooftile/verify/lanes/read_order.h"
#include "rooftile/verify/lanes/store_hits.h"

namespace rooftile::verify {

using lanes::Ins;
using lanes::Stmt;
using lanes::StmtKind;

namespace {

constexpr int64_t kGroup = 128;

const PartsAt* parts_of(const TensorSite& site) {
  for (const LoopAt& loop : site.loops)
    if (loop.parts != nullptr && loop.parts->form->owner != "") return loop.parts.get();
  return nullptr;
}

// The one number that a register holds: it is declared with it right there, and nothing changes it.
std::optional<int64_t> stored_number(const StatementOrder& order, const Stmt& stmt) {
  const lanes::RegRef& ref = stmt.instr.regs.at(0);
  std::optional<int64_t> out;
  for (const Stmt& s : order.body_of(stmt)) {
    if (&s == &stmt) return out;
    if (s.kind == StmtKind::kDecl && s.name == ref.name && s.value.present())
      out = s.value->kind == lanes::ValKind::kInt ? std::optional(s.value->integer) : std::nullopt;
    else if (s.kind != StmtKind::kDecl && s.kind != StmtKind::kInstr)
      out = std::nullopt;
  }
  return std::nullopt;
}

class Meets {
 public:
  Meets(Walk& walk, TensorSites& sites) : walk_(walk), sites_(sites), order_(walk.program()) {}

  std::set<std::string> run() {
    for (auto& [tensor, all] : sites_.reads)
      for (const TensorSite& site : all)
        if (site.stmt->instr.ins == Ins::kWaitGlobal) tickets_.insert(tensor);
    for (auto& [tensor, all] : sites_.adds)
      for (const TensorSite& site : all)
        if (site.stmt->instr.ins == Ins::kRedGlobalRelease) tickets_.insert(tensor);
    for (const std::string& tensor : tickets_) tickets(tensor);
    if (!tickets_.empty() || has_hand_outs()) images();
    return tickets_;
  }

 private:
  // ---- reports

  void wrong(Kind kind, const TensorSite& site, const std::string& why) {
    walk_.report().broken(kind, *site.stmt, Prover::kLemma, why);
  }
  bool is(Kind kind, const TensorSite& site, const Expr& claim, const std::string& what) {
    Questions& q = walk_.questions();
    q.push();
    for (size_t i = 0; i < site.facts.size(); ++i) q.assume(site.facts[i], site.kinds[i]);
    const Answer answer = q.prove(claim);
    q.pop();
    if (answer.verdict == Verdict::kProved) return true;
    walk_.report().note(kind, *site.stmt, answer, what + ": " + claim.str());
    return false;
  }

  bool has_hand_outs() const {
    for (const auto* all : {&sites_.reads, &sites_.writes})
      for (const auto& [tensor, sites] : *all)
        for (const TensorSite& site : sites)
          if (parts_of(site) != nullptr) return true;
    return false;
  }

  // Of a cluster, each CTA has a row for itself.
  Expr row(const Expr& slot) const {
    const int size = walk_.program().cluster;
    return size == 1 ? slot : slot * Expr(size) + Expr::sym("cta.x") % Expr(size);
  }
  static bool owns(const TensorSite& site, const PartsAt& parts, bool yes) {
    for (size_t i = 0; i < site.facts.size(); ++i)
      if (site.kinds[i] == FactKind::kCondition &&
          says(site.facts[i], parts.slot, parts.owner, yes))
        return true;
    return false;
  }

  // ---- tickets

  // Nothing keeps a thread back but who it is, whether its CTA owns the sums, and, of an owner,
  // whether there are others.
  bool unconditional(const StoreForm& form, const PartsAt& parts) const {
    return std::all_of(form.clips.begin(), form.clips.end(),
                       [&](const Expr& clip) { return clip.same_as(Expr(0) < parts.others); });
  }

  // The column that the one thread of each group names; nothing if it is not one thread.
  std::optional<std::map<int64_t, int64_t>> columns(const TensorSite& site, const PartsAt& parts) {
    TensorSite alone = site;
    alone.index = {site.index.back()};
    alone.extent = {1};
    std::erase_if(alone.loops, [](const LoopAt& loop) { return loop.parts == nullptr; });
    const StoreForm form = store_form(walk_, alone);
    const auto hits = form.wrong.empty() && form.base[0].is_const(0) && unconditional(form, parts)
                          ? hits_of(walk_.symbols(), form, {"tid"})
                          : std::nullopt;
    if (!hits) return std::nullopt;
    std::map<int64_t, int64_t> out;
    for (const Hit& hit : *hits)
      if (!out.emplace(hit.whose[0] / kGroup, hit.at[0]).second) return std::nullopt;
    std::set<int64_t> different;
    for (const auto& [group, column] : out) different.insert(column);
    if (out.count(0) > 0 || different.size() != out.size()) return std::nullopt;
    if (static_cast<int64_t>(out.size()) != walk_.program().threads / kGroup - 1)
      return std::nullopt;
    return out;
  }

  // Row and column, and that it is not in a loop of its own: each who comes to it does it once.
  bool names_the_ticket(Kind kind, const TensorSite& site, const PartsAt& parts) {
    if (site.index.size() != 2) return wrong(kind, site, "tickets have a row and a column"), false;
    if (!is(kind, site, site.index[0] == row(parts.owner), "the ticket is the owner's"))
      return false;
    if (site.loops.size() != 1)
      return wrong(kind, site, "it is done more than once for a part"), false;
    const auto here = columns(site, parts);
    if (!here) return wrong(kind, site, "it is not one thread of each group that does it"), false;
    if (!columns_) columns_ = here;
    if (*columns_ != *here) return wrong(kind, site, "groups are told apart otherwise"), false;
    return true;
  }

  void tickets(const std::string& tensor) {
    columns_.reset();
    std::vector<const TensorSite*> waits, clears;
    for (const TensorSite& site : sites_.reads[tensor]) {
      if (site.stmt->instr.ins == Ins::kWaitGlobal)
        waits.push_back(&site);
      else
        wrong(Kind::kGlobalRace, site, "a ticket is for waiting, not for reading");
    }
    for (const TensorSite& site : sites_.writes[tensor]) clears.push_back(&site);
    std::vector<TensorSite>& adds = sites_.adds[tensor];
    // An addition that nobody makes is waited for in vain; one that nobody waits for stays behind.
    if (adds.empty() || waits.empty() || clears.empty()) {
      for (const auto* all : {&sites_.reads[tensor], &sites_.writes[tensor], &adds})
        for (const TensorSite& site : *all)
          wrong(Kind::kGlobalRace, site,
                "tickets are added to, awaited and cleared, or none of it");
      return;
    }
    const PartsAt* const parts = parts_of(adds[0]);
    for (const auto* all : {&sites_.reads[tensor], &sites_.writes[tensor]})
      for (const TensorSite& site : *all)
        if (parts_of(site) != parts)
          return wrong(Kind::kGlobalRace, site, "another hand-out's parts than those announced");
    for (const TensorSite& add : adds) addition(add, adds.size() == 1);
    for (const TensorSite* wait : waits) this->wait(*wait, clears, waits.size() == 1);
    for (const TensorSite* clear : clears) this->clear(*clear, waits);
    const lanes::TensorUse* use = tensor_named(walk_.program(), tensor);
    if (use != nullptr && use->workspace && use->zeroed && use->dtype == DType::kI32) return;
    for (const TensorSite* wait : waits)
      wrong(Kind::kGlobalRace, *wait, "tickets are not zero when the kernel starts");
  }

  void addition(const TensorSite& site, bool alone) {
    constexpr Kind kKind = Kind::kGlobalRace;
    const PartsAt* parts = parts_of(site);
    if (site.stmt->instr.ins != Ins::kRedGlobalRelease)
      return wrong(kKind, site, "a ticket is added to, and not released");
    if (parts == nullptr || !owns(site, *parts, false))
      return walk_.report().unknown(kKind, *site.stmt,
                                    "who adds is not known to have a part of another's tile");
    if (!alone) return wrong(kKind, site, "one part is announced in two places");
    if (site.stmt->instr.op != lanes::Fn::kAdd || stored_number(order_, *site.stmt) != 1)
      return wrong(kKind, site, "a part counts as 1");
    if (names_the_ticket(kKind, site, *parts))
      walk_.report().proved(kKind, *site.stmt, Prover::kLemma);
  }

  void wait(const TensorSite& site, const std::vector<const TensorSite*>& clears, bool alone) {
    constexpr Kind kKind = Kind::kGlobalRace;
    const PartsAt* parts = parts_of(site);
    if (parts == nullptr || !owns(site, *parts, true))
      return walk_.report().unknown(kKind, *site.stmt, "who waits is not known to own the sums");
    if (!alone) return wrong(kKind, site, "an owner waits in two places");
    if (!is(kKind, site, site.awaited == parts->others, "all others have come")) return;
    if (!is(kKind, site, Expr(1) <= parts->others, "there are others")) return;
    if (!names_the_ticket(kKind, site, *parts)) return;
    const bool cleared = std::any_of(clears.begin(), clears.end(), [&](const TensorSite* clear) {
      return follows(*site.stmt, *clear->stmt);
    });
    if (!cleared)
      return wrong(kKind, site, "the ticket is not cleared: the next launch would not wait");
    waits_.push_back(&site);
    walk_.report().proved(kKind, *site.stmt, Prover::kLemma);
  }

  // In the same body, so that the same thread does both.
  bool follows(const Stmt& first, const Stmt& second) const {
    const lanes::Body& body = order_.body_of(first);
    return &body == &order_.body_of(second) && &first < &second;
  }

  void clear(const TensorSite& site, const std::vector<const TensorSite*>& waits) {
    constexpr Kind kKind = Kind::kWriteOnce;
    const PartsAt* parts = parts_of(site);
    if (site.stmt->instr.ins != Ins::kStGlobal || stored_number(order_, *site.stmt) != 0)
      return wrong(kKind, site, "a ticket is cleared to 0");
    const bool waited = std::any_of(waits.begin(), waits.end(), [&](const TensorSite* wait) {
      return follows(*wait->stmt, *site.stmt);
    });
    if (!waited || parts == nullptr)
      return wrong(kKind, site, "a ticket is cleared by who has not waited for it");
    if (names_the_ticket(kKind, site, *parts))
      walk_.report().proved(kKind, *site.stmt, Prover::kLemma);
  }

  // ---- images

  void images() {
    for (const auto& [tensor, writes] : sites_.writes) {
      const lanes::TensorUse* use = tensor_named(walk_.program(), tensor);
      const auto reads = sites_.reads.find(tensor);
      if (use == nullptr || !use->workspace || tickets_.count(tensor) > 0 ||
          reads == sites_.reads.end())
        continue;
      if (!std::all_of(writes.begin(), writes.end(),
                       [](const TensorSite& site) { return parts_of(site) != nullptr; }))
        continue;
      sites_.images.insert(tensor);
      bool sound = true;
      for (const TensorSite& site : writes) sound = published(site) && sound;
      for (const TensorSite& site : reads->second)
        if (sound && gathered(site, writes))
          walk_.report().proved(Kind::kGlobalRace, *site.stmt, Prover::kLemma);
        else if (!sound)
          walk_.report().unknown(Kind::kGlobalRace, *site.stmt,
                                 "what is read is not announced as it should be");
    }
  }

  bool group_meets(const Stmt& a, const Stmt& b) {
    const std::vector<const Stmt*> between = order_.between(a, b);
    return std::any_of(between.begin(), between.end(), [&](const Stmt* stmt) {
      return stmt->kind == StmtKind::kInstr && stmt->instr.ins == Ins::kNamedSync &&
             is_of_a_group(walk_, *stmt, sites_);
    });
  }

  bool published(const TensorSite& site) {
    constexpr Kind kKind = Kind::kGlobalRace;
    if (site.stmt->instr.ins != Ins::kStGlobal) {
      wrong(kKind, site, "an image is stored, by threads");
      return false;
    }
    const PartsAt& parts = *parts_of(site);
    if (!owns(site, parts, false)) {
      wrong(kKind, site, "an image is stored by who owns the sums");
      return false;
    }
    if (!is(kKind, site, site.index[0] == row(parts.slot), "an image goes to its slot's own row"))
      return false;
    const StoreForm form = store_form(walk_, site);
    if (!form.wrong.empty() || !form.clips.empty()) {
      wrong(kKind, site, "an image is not stored whenever it is announced");
      return false;
    }
    bool announced = false;
    for (const auto& [tensor, adds] : sites_.adds)
      for (const TensorSite& add : adds)
        if (add.stmt->instr.ins == Ins::kRedGlobalRelease && parts_of(add) == &parts) {
          announced = true;
          if (group_meets(*site.stmt, *add.stmt)) continue;
          wrong(kKind, site, "the part is announced before all threads have stored theirs");
          return false;
        }
    if (!announced) {
      wrong(kKind, site, "nobody announces the image");
      return false;
    }
    walk_.report().proved(kKind, *site.stmt, Prover::kLemma);
    return true;
  }

  bool gathered(const TensorSite& site, const std::vector<TensorSite>& writes) {
    constexpr Kind kKind = Kind::kGlobalRace;
    if (site.stmt->instr.ins != Ins::kLdGlobal) {
      wrong(kKind, site, "an image is loaded, by threads");
      return false;
    }
    const PartsAt* parts = parts_of(site);
    if (parts == nullptr || !owns(site, *parts, true)) {
      wrong(kKind, site, "images are read by who does not own the sums");
      return false;
    }
    const bool waited = std::any_of(waits_.begin(), waits_.end(), [&](const TensorSite* wait) {
      return parts_of(*wait) == parts && group_meets(*wait->stmt, *site.stmt);
    });
    if (!waited) {
      wrong(kKind, site, "an image is read without a wait for it, and a barrier of the group");
      return false;
    }
    return of_the_others(site, *parts) && columns_match(site, writes);
  }

  // The row is that of slot owner - o, for some 1 <= o <= others.
  bool of_the_others(const TensorSite& site, const PartsAt& parts) {
    Questions& q = walk_.questions();
    q.push();
    for (size_t i = 0; i < site.facts.size(); ++i) q.assume(site.facts[i], site.kinds[i]);
    bool found = false;
    for (const LoopAt& loop : site.loops) {
      if (found || loop.parts != nullptr) continue;
      const Expr& o = loop.variable;
      found = q.holds(Expr(1) <= o) && q.holds(o <= parts.others) &&
              q.holds(site.index[0] == row(parts.owner - o));
    }
    q.pop();
    if (!found)
      wrong(Kind::kGlobalRace, site,
            "an image is read whose row is not that of one of the others: " + site.index[0].str());
    return found;
  }

  // Threads of a group read what threads of the same group have stored.
  bool columns_match(const TensorSite& read, const std::vector<TensorSite>& writes) {
    const auto columns = [&](const TensorSite& site) {
      TensorSite alone = site;
      alone.index = {site.index.back()};
      alone.extent = {site.extent.back()};
      std::erase_if(alone.loops, [&](const LoopAt& loop) {
        return loop.parts == nullptr && symbols_of(alone.index[0]).count(loop.name) == 0;
      });
      const StoreForm form = store_form(walk_, alone);
      return form.wrong.empty() && form.base[0].is_const(0)
                 ? hits_of(walk_.symbols(), form, {"tid"})
                 : std::nullopt;
    };
    std::map<int64_t, int64_t> group_of;  // by column
    for (const TensorSite& write : writes) {
      const auto hits = columns(write);
      if (!hits || write.extent.back() != read.extent.back() || write.index.size() != 2) {
        walk_.report().unknown(Kind::kGlobalRace, *read.stmt,
                               "which columns are stored is not known");
        return false;
      }
      for (const Hit& hit : *hits) group_of.emplace(hit.at[0], hit.whose[0] / kGroup);
    }
    const auto hits = columns(read);
    // Those that announce and wait are the computing groups, behind the first 128 threads.
    const bool match = hits && std::all_of(hits->begin(), hits->end(), [&](const Hit& hit) {
                         const auto it = group_of.find(hit.at[0]);
                         return hit.whose[0] >= kGroup && it != group_of.end() &&
                                it->second == hit.whose[0] / kGroup;
                       });
    if (!match)
      wrong(Kind::kGlobalRace, read, "a group reads what its like in the other CTA has not stored");
    return match;
  }

  Walk& walk_;
  TensorSites& sites_;
  const StatementOrder order_;
  std::set<std::string> tickets_;
  std::optional<std::map<int64_t, int64_t>> columns_;
  std::vector<const TensorSite*> waits_;
};

}  // namespace

std::set<std::string> prove_meets(Walk& walk, TensorSites& sites) {
  return Meets(walk, sites).run();
}

}  // namespace rooftile::verify
