// SPDX-License-Identifier: Apache-2.0
#include "rooftile/verify/lanes/read_order.h"

#include <algorithm>

#include "rooftile/verify/lanes/order.h"
#include "rooftile/verify/lanes/store_hits.h"
#include "rooftile/verify/lanes/tape.h"

namespace rooftile::verify {

using lanes::Ins;
using lanes::Stmt;
using lanes::StmtKind;

namespace {

constexpr int64_t kGroup = 128;  // threads

bool is_instr(const Stmt& stmt, Ins ins) {
  return stmt.kind == StmtKind::kInstr && stmt.instr.ins == ins;
}

// The counters of the loops around both; false if the two stand in different copies of one.
bool shared_counters(const TensorSite& a, const TensorSite& b, const StoreForm& of_a,
                     const StoreForm& of_b, std::vector<std::string>& out) {
  for (const LoopAt& loop : a.loops)
    for (const LoopAt& other : b.loops) {
      if (loop.stmt != other.stmt) continue;
      if (!loop.variable.same_as(other.variable)) return false;
      const auto counted = [&](const StoreForm& form) {
        return std::find(form.counted.begin(), form.counted.end(), loop.name) != form.counted.end();
      };
      if (counted(of_a) && counted(of_b)) out.push_back(loop.name);
    }
  return true;
}

bool inside(const Hit& part, const std::vector<int64_t>& size, const Hit& whole,
            const std::vector<int64_t>& extent) {
  for (size_t d = 0; d < size.size(); ++d)
    if (part.at[d] < whole.at[d] || part.at[d] + size[d] > whole.at[d] + extent[d]) return false;
  return true;
}

bool apart(const Hit& a, const std::vector<int64_t>& size, const Hit& b,
           const std::vector<int64_t>& extent) {
  for (size_t d = 0; d < size.size(); ++d)
    if (a.at[d] + size[d] <= b.at[d] || b.at[d] + extent[d] <= a.at[d]) return true;
  return false;
}

}  // namespace

bool read_by_the_same_threads(Walk& walk, const TensorSite& read,
                              const std::vector<TensorSite>& writes) {
  const StoreForm form = store_form(walk, read);
  if (!form.wrong.empty()) return false;
  std::map<std::vector<int64_t>, int64_t> writer;
  for (const TensorSite& write : writes) {
    const StoreForm other = store_form(walk, write);
    if (!other.wrong.empty() || write.extent != read.extent || key_of(other) != key_of(form))
      continue;
    const auto stored = hits_of(walk.symbols(), other, {"tid"});
    if (!stored) return false;
    for (const Hit& hit : *stored) writer.emplace(hit.at, hit.whose[0]);
  }
  const auto hits = hits_of(walk.symbols(), form, {"tid"});
  return hits && std::all_of(hits->begin(), hits->end(), [&](const Hit& hit) {
           const auto it = writer.find(hit.at);
           return it != writer.end() && it->second == hit.whose[0];
         });
}

bool is_of_a_group(Walk& walk, const Stmt& barrier, const TensorSites& sites) {
  const auto number = sites.barriers.find(&barrier);
  if (number == sites.barriers.end() || barrier.instr.n != kGroup ||
      barrier.instr.guard.present())  // then some may skip it
    return false;
  for (const std::string& name : symbols_of(number->second))
    if (name != "tid") return false;
  Tape tape(walk.symbols());
  const int result = tape.add(number->second), tid = tape.input("tid");
  std::map<int64_t, int64_t> group_of;  // by the number of the barrier
  for (int64_t t = kGroup; t < walk.program().threads; ++t) {
    if (tid >= 0) tape.set(tid, t);
    if (!tape.run()) return false;
    const int64_t group = t / kGroup;
    const auto [it, fresh] = group_of.emplace(tape.value(result), group);
    if (it->second != group) return false;
  }
  // As many numbers as groups: each has one.
  return !group_of.empty() &&
         static_cast<int64_t>(group_of.size()) == walk.program().threads / kGroup - 1;
}

bool read_before_the_group_meets(Walk& walk, const TensorSite& read,
                                 const std::vector<TensorSite>& writes, const TensorSites& sites) {
  if (read.stmt->instr.ins != Ins::kLdGlobal) return false;  // others end later
  const StoreForm form = store_form(walk, read);
  if (!form.wrong.empty()) return false;
  const StatementOrder order(walk.program());
  std::vector<bool> stored;  // each of the hits
  for (const TensorSite& write : writes) {
    const StoreForm other = store_form(walk, write);
    std::vector<std::string> whose;
    if (!other.wrong.empty() || key_of(other) != key_of(form) ||
        !shared_counters(read, write, form, other, whose))
      return false;
    bool fenced = write.stmt->instr.ins != Ins::kTmaStore, met = false;
    for (const Stmt* stmt : order.between(*read.stmt, *write.stmt)) {
      fenced = fenced || (is_instr(*stmt, Ins::kProxyFence) && !stmt->instr.guard.present());
      met =
          met || (fenced && is_instr(*stmt, Ins::kNamedSync) && is_of_a_group(walk, *stmt, sites));
    }
    if (!met) return false;
    whose.emplace_back("tid");
    const auto to = hits_of(walk.symbols(), other, whose),
               from = hits_of(walk.symbols(), form, whose);
    if (!to || !from) return false;
    stored.resize(from->size());
    for (size_t i = 0; i < from->size(); ++i)
      for (const Hit& box : *to) {
        const Hit& hit = (*from)[i];
        if (apart(hit, read.extent, box, write.extent)) continue;
        const bool alike = std::equal(hit.whose.begin(), hit.whose.end() - 1, box.whose.begin()) &&
                           hit.whose.back() / kGroup == box.whose.back() / kGroup &&
                           hit.whose.back() >= kGroup;
        if (!alike || !inside(hit, read.extent, box, write.extent)) return false;
        stored[i] = true;
      }
  }
  return !stored.empty() && std::all_of(stored.begin(), stored.end(), [](bool b) { return b; });
}

}  // namespace rooftile::verify
