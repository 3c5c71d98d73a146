// SPDX-License-Identifier: Apache-2.0
#include "rooftile/verify/tile/prove_tile.h"

#include <algorithm>
#include <map>

#include "rooftile/ir/types.h"
#include "rooftile/verify/tile/covers.h"
#include "rooftile/verify/tile/disjoint.h"
#include "rooftile/verify/tile/replay.h"

namespace rooftile::verify {
namespace {

constexpr size_t kEveryPhase = SIZE_MAX;

class TileProver {
 public:
  explicit TileProver(const ir::Program& program)
      : program_(program), accesses_(collect_accesses(program)), reasoner_(program) {}

  std::vector<Finding> run() {
    shapes();
    for (const Access& access : accesses_.all) bounds(access);
    for (size_t phase = 0; phase < phases(); ++phase) {
      once(phase);
      order(phase);
    }
    covers();
    return std::move(findings_);
  }

 private:
  size_t phases() const {
    size_t count = 0;
    for (const Access& a : accesses_.all) count = std::max(count, a.scope.phase + 1);
    return count;
  }

  void finish(Finding f) {
    reasoner_.settle(f);
    findings_.push_back(std::move(f));
  }

  // ---- counterexamples

  // Sizes, attributes and elements of index tensors of a model; the rest says where.
  Counterexample example_of(const Env& model, const Scope& scope,
                            const std::vector<AxisWalk>& positions) const {
    Counterexample example;
    for (const auto& [name, value] : model)
      if (is_argument(name)) example.call.emplace(name, value);
    auto put = [&](const std::string& symbol, const std::string& shown) {
      if (const auto it = model.find(symbol); it != model.end())
        example.at.emplace_back(shown, it->second);
    };
    for (const std::string& suffix : {std::string(), std::string(kOther)}) {
      const std::string prime = suffix.empty() ? "" : " of the other instance";
      for (const AxisWalk& walk : scope.tiles) put(walk.var + suffix, walk.var + prime);
      for (const AxisWalk& walk : scope.loops) put(walk.var + suffix, walk.var + prime);
      for (const AxisWalk& walk : positions) put(walk.var + suffix, walk.var + prime);
    }
    return example;
  }

  bool is_argument(const std::string& name) const {
    if (name.find('[') != std::string::npos) return program_.tensor(name.substr(0, name.find('[')));
    const ir::ScalarParam* scalar = program_.scalar(name);
    if (scalar != nullptr) return true;
    if (std::count(program_.tile_params.begin(), program_.tile_params.end(), name) > 0) return true;
    for (const ir::TensorParam& t : program_.tensors)
      for (const Expr& extent : t.shape)
        if (symbols_of(extent).count(name) > 0) return true;
    return false;
  }

  // A refutation stands when the interpreter refuses the call, or when it is too large to be run
  // and rests on sizes alone, which the arithmetic has checked.
  void refute(Finding& f, Counterexample example, std::string reason) const {
    std::optional<Status> shown = replay(program_, example.call);
    if (!shown || shown->ok()) {  // what the question left open may have to be there
      Env larger = example.call;
      for (auto& [name, value] : larger)
        if (value == 0 && name.find('[') == std::string::npos) value = 1;
      const std::optional<Status> again = replay(program_, larger);
      if (again && !again->ok()) {
        shown = again;
        example.call = std::move(larger);
      }
    }
    const bool sizes_only =
        std::none_of(program_.clauses.begin(), program_.clauses.end(),
                     [](const ir::Clause& c) { return c.kind != ir::Clause::kCondition; });
    f.reason = std::move(reason);
    if (shown ? !shown->ok() : sizes_only) {
      f.verdict = Verdict::kRefuted;
      if (shown) example.story.push_back(shown->diag().str());
      f.example = std::move(example);
      return;
    }
    f.verdict = Verdict::kUnknown;
    f.reason += shown ? "; but the interpreter runs the call that was found"
                      : "; and the call that was found cannot be run";
    for (const auto& [name, value] : example.call)
      f.reason += ", " + name + " = " + std::to_string(value);
  }

  // Takes an answer into a finding. False if the finding is settled by it.
  bool take(Finding& f, const Answer& answer, const Scope& scope,
            const std::vector<AxisWalk>& positions, const std::string& what) const {
    if (answer.verdict == Verdict::kProved) return true;
    if (answer.verdict == Verdict::kRefuted) {
      f.prover = answer.prover;
      refute(f, example_of(answer.model, scope, positions), what);
    } else {
      f.verdict = Verdict::kUnknown;
      f.reason = what + ": " + answer.reason;
    }
    return false;
  }

  // ---- tile.bounds

  void shapes() {
    std::map<ir::ValueId, std::vector<const ShapeClaim*>> of_node;
    for (const ShapeClaim& claim : accesses_.shapes)
      if (!claim.holds.is_const(1)) of_node[claim.node].push_back(&claim);
    for (const auto& [id, claims] : of_node) {
      const ir::Node& n = program_.node(id);
      Finding f = reasoner_.begin(
          Kind::kTileBounds,
          "extents and divisors of " + std::string(ir::op_name(n.op)) + " " + ir::node_str(n),
          n.loc);
      for (const ShapeClaim* claim : claims) {
        std::vector<Expr> facts = claim->scope.domain;
        facts.insert(facts.end(), claim->scope.conditions.begin(), claim->scope.conditions.end());
        if (!take(f, reasoner_.prove(facts, claim->holds), claim->scope, {},
                  "not always " + claim->holds.str()))
          break;
      }
      finish(std::move(f));
    }
  }

  void bounds(const Access& access) {
    const ir::TensorParam& tensor = *program_.tensor(access.tensor);
    Finding f = reasoner_.begin(Kind::kTileBounds, subject_of(program_, access),
                                program_.node(access.node).loc);
    const std::vector<Expr> facts = facts_of(access);
    bool going = access.unknown.empty();
    if (!going) f.verdict = Verdict::kUnknown, f.reason = access.unknown;
    for (const Expr& exact : access.exact)
      going = going && take(f, reasoner_.prove(facts, exact), access.scope, access.positions,
                            "index arithmetic wraps: not always " + exact.str());
    for (size_t d = 0; going && d < tensor.shape.size(); ++d)
      for (const Expr& inside : {Expr(0) <= access.index[d], access.index[d] < tensor.shape[d]})
        going = going && take(f, reasoner_.prove(facts, inside), access.scope, access.positions,
                              "dimension " + std::to_string(d) + " of `" + tensor.name +
                                  "`: not always " + inside.str());
    finish(std::move(f));
  }

  // ---- tile.once

  void once(size_t phase) {
    std::map<std::string, std::vector<const Access*>> stores;
    for (const Access& a : accesses_.all)
      if (a.kind == Access::kStore && a.scope.phase == phase) stores[a.tensor].push_back(&a);
    for (const auto& [tensor, list] : stores) {
      Finding f =
          reasoner_.begin(Kind::kTileOnce, subject_of(program_, *list[0]) + phase_text(phase),
                          program_.node(list[0]->node).loc);
      for (size_t i = 0; i < list.size() && f.verdict == Verdict::kProved; ++i)
        for (size_t j = i; j < list.size() && f.verdict == Verdict::kProved; ++j)
          if (!(list[i]->adds && list[j]->adds))
            apart(f, *list[i], *list[j], "two instances store one element of `" + tensor + "`");
      finish(std::move(f));
    }
  }

  void apart(Finding& f, const Access& a, const Access& b, const std::string& what) {
    const Meeting meeting = meet_only_in_one_instance(reasoner_, a, b);
    if (meeting.verdict != Verdict::kProved) met(f, a, b, meeting, what);
  }

  void met(Finding& f, const Access& a, const Access& b, const Meeting& meeting,
           const std::string& what) const {
    f.subject = subject_of(program_, a);
    f.loc = program_.node(a.node).loc;
    f.prover = Prover::kSolver;
    Counterexample example = example_of(meeting.model, a.scope, a.positions);
    if (meeting.verdict == Verdict::kUnknown) {
      f.verdict = Verdict::kUnknown;
      f.reason = "perhaps " + what + ": " + meeting.reason;
    } else if (a.tensor == b.tensor) {
      refute(f, std::move(example), what);
    } else {  // two arguments in one place in memory: the interpreter keeps them apart
      f.verdict = Verdict::kRefuted;
      f.reason = what;
      f.example = std::move(example);
    }
  }

  std::string phase_text(size_t phase) const {
    return phases() < 2 ? "" : " in phase " + std::to_string(phase);
  }

  // ---- tile.order

  bool may_share(const std::string& a, const std::string& b) const {
    auto lists = [&](const std::string& x, const std::string& y) {
      const auto& names = program_.tensor(x)->may_alias;
      return std::find(names.begin(), names.end(), y) != names.end();
    };
    return lists(a, b) || lists(b, a);
  }

  void order(size_t phase) {
    Finding f = reasoner_.begin(Kind::kTileOrder, "reads and stores" + phase_text(phase), {});
    for (const Access& a : accesses_.all)
      if (a.scope.phase == phase && f.loc.file.empty()) f.loc = program_.node(a.node).loc;
    for (const Access& read : accesses_.all) {
      if (read.kind == Access::kStore || read.scope.phase != phase) continue;
      for (const Access& store : accesses_.all) {
        if (store.kind != Access::kStore || f.verdict != Verdict::kProved) continue;
        const bool same = store.tensor == read.tensor,
                   shared = may_share(store.tensor, read.tensor);
        if (same && store.scope.phase == phase)
          apart(f, read, store, "an instance reads what another stores in `" + read.tensor + "`");
        if (shared) in_place(f, read, store);
      }
    }
    if (f.prover == Prover::kNone) f.prover = Prover::kDataflow;
    finish(std::move(f));
  }

  // `read` and `store` are of two tensors that may be one in memory, element by element: the store
  // must come after the last read of the element, which only the instance itself can make sure of.
  void in_place(Finding& f, const Access& read, const Access& store) {
    const std::string what = "`" + read.tensor + "` is read after `" + store.tensor +
                             "`, which may be the same memory, has been stored";
    if (store.scope.phase > read.scope.phase) return;
    const bool read_first = &read < &store;
    const bool loop_between = shares_loop(read, store);
    if (store.scope.phase == read.scope.phase) {
      apart(f, read, store, what);
      if (f.verdict != Verdict::kProved || (read_first && !loop_between)) return;
    }
    const Meeting meeting = never_meet(reasoner_, read, store);
    if (meeting.verdict != Verdict::kProved) met(f, read, store, meeting, what);
  }

  static bool shares_loop(const Access& a, const Access& b) {
    return !a.scope.loops.empty() && !b.scope.loops.empty() &&
           a.scope.loops[0].var == b.scope.loops[0].var;
  }

  // ---- tile.covers

  void covers() {
    for (const ir::TensorParam& t : program_.tensors)
      if (t.role == ir::Role::kOut) complete(t, kEveryPhase, "output `" + t.name + "`", t.loc);
    // What is read must have been stored, in an earlier phase or above in the same instance.
    std::set<std::pair<std::string, size_t>> asked;
    for (const Access& a : accesses_.all) {
      const ir::TensorParam& t = *program_.tensor(a.tensor);
      const bool holds_nothing = t.role == ir::Role::kWorkspace || t.role == ir::Role::kOut;
      const bool reads = a.kind != Access::kStore || a.adds;
      if (!holds_nothing || !reads || stored_above(a) ||
          !asked.insert({a.tensor, a.scope.phase}).second)
        continue;
      complete(t, a.scope.phase, subject_of(program_, a), program_.node(a.node).loc);
    }
  }

  // A store of the same elements in the same instance, before and under no further condition.
  bool stored_above(const Access& read) const {
    for (const Access& store : accesses_.all) {
      if (&store >= &read) break;
      if (store.kind == Access::kStore && !store.adds && store.tensor == read.tensor &&
          store.scope.phase == read.scope.phase && store.unknown.empty() &&
          store.scope.regions.size() <= read.scope.regions.size() &&
          std::equal(store.scope.regions.begin(), store.scope.regions.end(),
                     read.scope.regions.begin()) &&
          same_region(store, read))
        return true;
    }
    return false;
  }
  static bool same_region(const Access& a, const Access& b) {
    auto same = [](const Expr& x, const Expr& y) { return x.same_as(y); };
    return a.positions.size() == b.positions.size() &&
           std::equal(a.positions.begin(), a.positions.end(), b.positions.begin(),
                      [](const AxisWalk& x, const AxisWalk& y) {
                        return x.var == y.var && x.end.same_as(y.end);
                      }) &&
           std::equal(a.index.begin(), a.index.end(), b.index.begin(), b.index.end(), same);
  }

  void complete(const ir::TensorParam& tensor, size_t phase, const std::string& subject,
                const SourceLoc& loc) {
    Finding f = reasoner_.begin(Kind::kTileCovers, subject, loc);
    const Coverage coverage = covered_before(reasoner_, accesses_, tensor.name, phase);
    f.verdict = coverage.verdict;
    for (const Access& a : accesses_.all)
      if (f.loc.file.empty() && a.kind == Access::kStore && a.tensor == tensor.name)
        f.loc = program_.node(a.node).loc;
    if (f.verdict == Verdict::kProved) {
      for (const std::string& table : coverage.tensors)
        f.assumptions.push_back("each element of `" + table + "` is stored once: tile.once");
    } else {
      f.reason = coverage.reason;
      show_gap(f, coverage);
    }
    const std::vector<std::string> rests_on = f.assumptions;
    reasoner_.settle(f);
    f.assumptions.insert(f.assumptions.end(), rests_on.begin(), rests_on.end());
    findings_.push_back(std::move(f));
  }

  // Elements that are never stored are looked for by the interpreter, at sizes where a step of the
  // argument failed, and at a few small ones.
  void show_gap(Finding& f, const Coverage& coverage) const {
    std::vector<Env> tries = coverage.models;
    for (int64_t size : {1, 2, 3, 5}) {
      Env small;
      for (const ir::TensorParam& t : program_.tensors)
        for (const Expr& extent : t.shape)
          if (extent.kind() == ExprKind::kSym && t.role != ir::Role::kWorkspace)
            small[extent.name()] = size;
      tries.push_back(std::move(small));
    }
    for (const Env& model : tries) {
      Counterexample example = example_of(model, {}, {});
      const std::optional<Status> shown = replay(program_, example.call);
      if (!shown || shown->ok() || shown->diag().code != ErrorCode::kUnwritten) continue;
      f.verdict = Verdict::kRefuted;
      f.prover = Prover::kEnumeration;
      example.story.push_back(shown->diag().str());
      f.example = std::move(example);
      return;
    }
  }

  const ir::Program& program_;
  const Accesses accesses_;
  Reasoner reasoner_;
  std::vector<Finding> findings_;
};

}  // namespace

std::vector<Finding> prove_tile(const ir::Program& program) { return TileProver(program).run(); }

}  // namespace rooftile::verify
