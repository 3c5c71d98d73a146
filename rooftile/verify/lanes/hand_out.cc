// SPDX-License-Identifier: Apache-2.0
#include "rooftile/verify/lanes/hand_out.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

namespace rooftile::verify {

using lanes::Body;
using lanes::Fn;
using lanes::Special;
using lanes::Stmt;
using lanes::StmtKind;
using lanes::Ty;
using lanes::Val;
using lanes::ValKind;

namespace {

bool same(const Val& a, const Val& b) {
  if (!a.present() || !b.present()) return a.present() == b.present();
  return a->kind == b->kind && a->type == b->type && a->integer == b->integer &&
         a->name == b->name && a->special == b->special && a->fn == b->fn &&
         a->number == b->number &&
         std::equal(a->args.begin(), a->args.end(), b->args.begin(), b->args.end(), same);
}

Val reg(const std::string& name) { return lanes::var(Ty::kI32, name); }
Val special32(Special which) { return lanes::cast(Ty::kI32, lanes::special(which)); }

bool is_fn(const Val& v, Fn fn) { return v.present() && v->kind == ValKind::kFn && v->fn == fn; }

// Declarations in a row, compared one by one with what they are to hold; their names are free.
class Row {
 public:
  Row(const Body& body, size_t at) : body_(body), at_(at) {}

  // The register that is declared next; "" if none is.
  std::string name() const {
    return at_ < body_.size() && body_[at_].kind == StmtKind::kDecl && body_[at_].count == 0 &&
                   body_[at_].type == Ty::kI32 && body_[at_].value.present()
               ? body_[at_].name
               : "";
  }
  const Val& value() const { return body_[at_].value; }
  // Takes the declaration if it holds this.
  std::string take(const Val& expected) {
    const std::string out = name();
    ok_ = ok_ && !out.empty() && same(value(), expected);
    if (ok_) members_.push_back(&body_[at_++]);
    return out;
  }
  bool ok() const { return ok_; }
  size_t at() const { return at_; }
  std::vector<const Stmt*>& members() { return members_; }

 private:
  const Body& body_;
  size_t at_;
  bool ok_ = true;
  std::vector<const Stmt*> members_;
};

void assigned(const Body& body, std::set<std::string>& out) {
  for (const Stmt& stmt : body) {
    if (stmt.kind == StmtKind::kAssign) out.insert(stmt.target.name);
    for (const lanes::RegRef& result : stmt.instr.results) out.insert(result.name);
    assigned(stmt.body, out);
    assigned(stmt.orelse, out);
  }
}

}  // namespace

HandOuts::HandOuts(const lanes::Program& program) : size_(program.cluster) { look(program.body); }

const HandOut* HandOuts::at(const Stmt& loop) const {
  const auto it = found_.find(&loop);
  return it == found_.end() ? nullptr : &it->second;
}

void HandOuts::look(const Body& body) {
  for (size_t i = 0; i < body.size(); ++i) {
    const Stmt& stmt = body[i];
    if (stmt.kind == StmtKind::kFor && (equal_parts(stmt) || runs(body, i))) continue;
    look(stmt.body);
    look(stmt.orelse);
  }
}

// Nothing but the pattern gives its registers values.
bool HandOuts::keep(const Stmt& loop, HandOut found, std::vector<const Stmt*> members) {
  std::set<std::string> changed;
  for (const Stmt& stmt : loop.body)
    if (std::find(members.begin(), members.end(), &stmt) == members.end())
      assigned({stmt}, changed);
  std::set<std::string> names = {loop.name};
  for (const Stmt* member : members)
    if (member->kind == StmtKind::kDecl && !names.insert(member->name).second) return false;
  for (const Val* v : {&found.count, &found.steps})
    if ((*v)->kind == ValKind::kVar && !names.insert((*v)->name).second) return false;
  if (std::any_of(names.begin(), names.end(),
                  [&](const std::string& name) { return changed.count(name) > 0; }))
    return false;
  for (const Stmt* member : members) members_[member] = &loop;
  found_.emplace(&loop, std::move(found));
  return true;
}

// for slot = cta / size .. parts by grid / size:
//   tile = slot / ways; part = ways - 1 - slot % ways: the first part of a tile comes last
//   steps [steps part / ways, steps (part + 1) / ways)
//   owner: the slot of part 0; others = ways - 1
bool HandOuts::equal_parts(const Stmt& loop) {
  HandOut h;
  h.form = HandOut::kEqualParts;
  const Val slot = reg(loop.name);
  if (!same(loop.begin, lanes::floor_div(special32(Special::kCtaX), size_)) ||
      !same(loop.step, lanes::floor_div(special32(Special::kGridX), size_)) || loop.body.size() < 4)
    return false;
  h.slot = loop.name;
  h.count = loop.end;
  if (h.count->kind != ValKind::kVar && h.count->kind != ValKind::kInt) return false;
  // ways, from (ways - 1) - slot % ways, and the steps, from steps part / ways.
  const Stmt& part_stmt = loop.body[1];
  if (!is_fn(part_stmt.value, Fn::kSub) || part_stmt.value->args[0]->kind != ValKind::kInt)
    return false;
  const int64_t last = part_stmt.value->args[0]->integer;
  if (last < 1 || last > 1023) return false;
  h.ways = static_cast<int>(last) + 1;
  const Val& scaled = loop.body[2].value;
  if (!scaled.present() || scaled->kind != ValKind::kFn) return false;
  const Val& product = scaled->args[0];
  h.steps = is_fn(product, Fn::kMul) ? product->args[0] : Val(1);
  if (h.steps->kind != ValKind::kVar && h.steps->kind != ValKind::kInt) return false;

  Row row(loop.body, 0);
  h.tile = row.take(lanes::floor_div(slot, h.ways));
  const Val part = reg(row.take(Val(h.ways - 1) - lanes::floor_mod(slot, h.ways)));
  h.first = row.take(lanes::floor_div(h.steps * part, h.ways));
  h.last = row.take(lanes::floor_div(h.steps * (part + 1), h.ways));
  if (!row.ok()) return false;
  if (const std::string owner = row.name(); !owner.empty() && same(row.value(), slot + part)) {
    h.owner = row.take(slot + part);
    h.others = row.take(Val(h.ways - 1));
  }
  return row.ok() && keep(loop, std::move(h), std::move(row.members()));
}

// The steps of the tiles that make no whole wave are numbered through, and each CTA takes a run of
// them; runs go to CTAs in the reverse of their numbers. Docs: 0004, "Parts".
bool HandOuts::runs(const Body& body, size_t at) {
  constexpr size_t kBefore = 13;
  const Stmt& loop = body[at];
  if (at < kBefore || loop.body.size() < 5 || !loop.begin.is_int(0) || !loop.step.is_int(1))
    return false;
  HandOut h;
  h.form = HandOut::kRuns;
  Row out(body, at - kBefore);
  const Val workers = reg(out.take(lanes::floor_div(special32(Special::kGridX), size_)));
  h.slot = out.take(lanes::floor_div(special32(Special::kCtaX), size_));
  const Val slot = reg(h.slot);
  const Val worker = reg(out.take(workers - slot - 1));
  if (!out.ok() || out.name().empty() || !is_fn(out.value(), Fn::kFloorDiv)) return false;
  const Val tiles = out.value()->args[0];
  if (tiles->kind != ValKind::kVar && tiles->kind != ValKind::kInt) return false;
  const Val waves = reg(out.take(lanes::floor_div(tiles, workers)));
  // How many waves go whole: all, or all but the last few.
  if (!out.ok() || out.name().empty() || !is_fn(out.value(), Fn::kSelect)) return false;
  const Val& kept = out.value()->args[2];
  if (!is_fn(kept, Fn::kMax)) return false;
  const Val& left = kept->args[0];
  const int64_t shared_waves =
      is_fn(left, Fn::kSub) && left->args[1]->kind == ValKind::kInt ? left->args[1]->integer : 0;
  if (shared_waves < 0 || shared_waves > 1 << 20) return false;
  const Val whole =
      reg(out.take(lanes::select(lanes::equal(tiles, waves * workers), waves,
                                 lanes::max(waves - Val(static_cast<int>(shared_waves)), 0))));
  // The steps of a tile: from the first number in the loop that is a product.
  const Stmt &shared_stmt = loop.body[0], &at_stmt = loop.body[1];
  if (shared_stmt.kind != StmtKind::kDecl || at_stmt.kind != StmtKind::kDecl) return false;
  const Val shared_tile = reg(shared_stmt.name);
  const Val steps = is_fn(at_stmt.value, Fn::kMul) ? at_stmt.value->args[1] : Val(1);
  if (steps->kind != ValKind::kVar && steps->kind != ValKind::kInt) return false;

  const Val shared = reg(out.take((tiles - whole * workers) * steps));
  const Val run = reg(out.take(lanes::floor_div(shared, workers)));
  const Val longer = reg(out.take(shared - run * workers));
  const Val begin = reg(out.take(worker * run + lanes::min(worker, longer)));
  const Val end = reg(out.take(begin + run + lanes::select(worker < longer, 1, 0)));
  const Val first = reg(out.take(lanes::floor_div(begin, steps)));
  const Val pieces =
      reg(out.take(lanes::select(begin < end, lanes::floor_div(end - 1, steps) - first + 1, 0)));
  const Val long_steps = reg(out.take(longer * (run + 1)));
  if (!out.ok() || out.at() != at || !same(loop.end, whole + pieces)) return false;
  const auto worker_of = [&](const Val& step) {
    return lanes::select(step < long_steps, lanes::floor_div(step, run + 1),
                         longer + lanes::floor_div(step - long_steps, lanes::max(run, 1)));
  };

  Row in(loop.body, 0);
  const Val item = reg(loop.name), is_whole = item < whole;
  in.take(first + item - whole);
  const Val at_step = reg(in.take(shared_tile * steps));
  h.tile = in.take(lanes::select(is_whole, worker + item * workers, whole * workers + shared_tile));
  h.first = in.take(lanes::select(is_whole, 0, lanes::max(begin - at_step, 0)));
  h.last = in.take(lanes::select(is_whole, steps, lanes::min(end - at_step, steps)));
  if (!in.ok()) return false;
  std::vector<const Stmt*> members = std::move(out.members());
  if (const std::string owner = in.name(); !owner.empty() && same(in.value(), slot)) {
    h.owner = in.take(slot);
    h.others = in.take(0);
    if (!in.ok() || in.at() >= loop.body.size()) return false;
    const Stmt& of_run = loop.body[in.at()];
    if (of_run.kind != StmtKind::kIf || !same(of_run.value, whole <= item) ||
        !of_run.orelse.empty() || of_run.body.size() != 3)
      return false;
    Row choice(of_run.body, 0);
    const Val owner_worker = reg(choice.take(worker_of(at_step)));
    const auto gives = [&](size_t i, const std::string& name, const Val& value) {
      const Stmt& stmt = of_run.body[i];
      return stmt.kind == StmtKind::kAssign && stmt.target.name == name &&
             !stmt.target.first.present() && same(stmt.value, value);
    };
    if (!choice.ok() || !gives(1, h.owner, workers - owner_worker - 1) ||
        !gives(2, h.others, worker_of(at_step + steps - 1) - owner_worker))
      return false;
    members.push_back(&of_run);
  }
  members.insert(members.end(), in.members().begin(), in.members().end());
  h.count = tiles;
  h.steps = steps;
  // The registers of the pattern before the loop are those that the loop finds.
  return keep(loop, std::move(h), std::move(members));
}

}  // namespace rooftile::verify
