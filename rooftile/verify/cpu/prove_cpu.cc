// SPDX-License-Identifier: Apache-2.0
#include "rooftile/verify/cpu/prove_cpu.h"

#include <algorithm>

#include "rooftile/codegen/cpu/emit_cpu.h"
#include "rooftile/codegen/cpu/mma_text.h"
#include "rooftile/codegen/cpu/plan.h"
#include "rooftile/ir/types.h"
#include "rooftile/verify/cpu/size_bound.h"
#include "rooftile/verify/tile/accesses.h"
#include "rooftile/verify/tile/reasoner.h"

namespace rooftile::verify {

using codegen::Group;
using codegen::Item;
using codegen::ItemKind;
using codegen::Plan;
using codegen::ScratchPart;
using codegen::Step;
using ir::Node;
using ir::Op;
using ir::ValueId;

namespace {

// Five hundred threads with this much each, and what they share, fit 63 bits.
constexpr double kMostThreadBytes = 0x1p53, kMostSharedBytes = 0x1p61, kMostInstances = 0x1p62;

class CpuProver {
 public:
  CpuProver(const ir::Program& program, const Schedule& schedule, const TargetInfo& target,
            Plan plan, std::vector<ScratchPart> scratch)
      : program_(program),
        schedule_(schedule),
        target_(target),
        plan_(std::move(plan)),
        scratch_(std::move(scratch)),
        accesses_(collect_accesses(program)),
        reasoner_(program),
        bound_(reasoner_) {}

  std::vector<Finding> run() {
    for (ValueId id : program_.body.nodes)
      if (program_.node(id).op == Op::kTiles) phase(program_.node(id));
    for (const ScratchPart& part : scratch_) fits(part);
    sizes();
    races();
    alignment();
    addresses();
    return std::move(findings_);
  }

 private:
  void finish(Finding f) {
    if (f.verdict == Verdict::kProved && f.prover == Prover::kNone) f.prover = Prover::kDataflow;
    const std::vector<std::string> rests_on = f.assumptions;
    reasoner_.settle(f);
    f.assumptions.insert(f.assumptions.end(), rests_on.begin(), rests_on.end());
    findings_.push_back(std::move(f));
  }

  std::vector<Expr> facts_at(ValueId id) const {
    const auto scope = accesses_.scopes.find(id);
    if (scope == accesses_.scopes.end()) return {};
    std::vector<Expr> out = scope->second.domain;
    out.insert(out.end(), scope->second.conditions.begin(), scope->second.conditions.end());
    return out;
  }

  // Takes `goal`, which must hold where `id` is computed, into the finding.
  bool need(Finding& f, ValueId id, const Expr& goal, const std::string& what) {
    const Answer answer = reasoner_.prove(id < 0 ? std::vector<Expr>{} : facts_at(id), goal);
    if (answer.verdict == Verdict::kProved) return true;
    if (f.verdict == Verdict::kRefuted) return false;
    f.verdict = answer.verdict;
    f.prover = answer.prover;
    f.reason = what + ": not always " + goal.str() +
               (answer.reason.empty() ? "" : " (" + answer.reason + ")");
    if (answer.verdict == Verdict::kRefuted)
      for (const auto& [name, value] : answer.model) f.example.call.emplace(name, value);
    return false;
  }
  void refuse(Finding& f, const std::string& reason) const {
    f.verdict = Verdict::kRefuted;
    f.prover = Prover::kDataflow;
    f.reason = reason;
  }

  // ---- cpu.bounds, tensors: loops walk no more than the tile

  void phase(const Node& tiles) {
    Finding f = reasoner_.begin(Kind::kCpuBounds,
                                "row and vector loops over " + ir::node_str(tiles), tiles.loc);
    steps(f, tiles.block, tiles.id);
    finish(std::move(f));

    Finding count = reasoner_.begin(Kind::kCpuOverflow,
                                    "number of instances of " + ir::node_str(tiles), tiles.loc);
    Expr total = 1;
    for (const Expr& extent : tiles.extents) total = total * extent;
    at_most(count, {total}, kMostInstances);
    finish(std::move(count));
  }

  void steps(Finding& f, const ir::Block& block, ValueId region) {
    for (const Step& step : plan_.steps(block, region)) {
      if (step.kind == Step::kGroup) group(f, step.group);
      if (step.kind == Step::kLoop || step.kind == Step::kWhen)
        steps(f, program_.node(step.id).block, step.id);
    }
  }

  const std::vector<Expr>& domain(const Item& item) const {
    const Node& n = program_.node(item.id);
    const bool over_operand = item.kind == ItemKind::kReduce ||
                              item.kind == ItemKind::kColumnReduce || item.kind == ItemKind::kStore;
    return over_operand ? program_.node(n.operands[0]).shape : n.shape;
  }

  void group(Finding& f, const Group& g) {
    for (const Item& item : g.items) {
      const std::vector<Expr>& shape = domain(item);
      const Node& n = program_.node(item.id);
      // How far the loops go along each axis of what is evaluated.
      std::vector<Expr> loops;
      for (size_t d = 0; d + 1 < shape.size(); ++d)
        loops.push_back(d < g.outer.size() ? g.outer[d] : Expr(1));
      if (!shape.empty()) loops.push_back(shape.back());
      const bool over_operand = &shape != &n.shape;
      walk(f, over_operand ? n.operands[0] : item.id, loops, item.id, true);
      if (item.kind == ItemKind::kStore) inside(f, item.id, n, loops, shape);
    }
  }

  // What `id` is computed from, where its loops go as far as `loops`.
  void walk(Finding& f, ValueId id, const std::vector<Expr>& loops, ValueId at, bool definition) {
    const Node& n = program_.node(id);
    if (!definition && plan_.buffer_of(id) >= 0) return;  // stored: its own step has looked
    if (n.op == Op::kLoad) return inside(f, at, n, loops, n.shape);
    if (n.op == Op::kTranspose) {
      if (loops.size() == 2) walk(f, n.operands[0], {loops[1], loops[0]}, at, false);
      return;
    }
    const bool maps = n.op == Op::kElementwise || n.op == Op::kSelect || n.op == Op::kCast ||
                      n.op == Op::kPhilox || n.op == Op::kScan;
    if (!maps) return;
    for (ValueId operand : n.operands) {
      const Node& x = program_.node(operand);
      if (x.shape.empty()) {
        walk(f, operand, {}, at, false);
        continue;
      }
      // An extent of 1 stretches: its position is 0.
      std::vector<Expr> narrowed = loops;
      for (size_t d = 0; d < x.shape.size() && d < narrowed.size(); ++d)
        if (x.shape[d].is_const(1)) narrowed[d] = 1;
      walk(f, operand, narrowed, at, false);
    }
  }

  void inside(Finding& f, ValueId at, const Node& access, const std::vector<Expr>& loops,
              const std::vector<Expr>& shape) {
    for (size_t d = 0; d < shape.size(); ++d) {
      if (d < loops.size() && (loops[d].same_as(shape[d]) || loops[d].is_const(0))) continue;
      if (d >= loops.size()) return refuse(f, "no loop walks an axis of " + ir::node_str(access));
      if (shape[d].is_const(1) && loops[d].is_const(1)) continue;
      need(f, at, loops[d] <= shape[d], "a loop over " + ir::node_str(access));
    }
  }

  // ---- cpu.bounds, scratch: everything fits its part

  void fits(const ScratchPart& part) {
    Finding f = reasoner_.begin(Kind::kCpuBounds, "scratch `" + part.name + "`",
                                part.source >= 0 ? program_.node(part.source).loc : SourceLoc());
    for (size_t i = 0; i < part.holds.size(); ++i)
      need(f, part.source, part.holds[i] <= part.extents[i], "what is packed");
    if (part.buffer >= 0) values_fit(f, part);
    if (part.form == ScratchPart::kAhead) blocks_fit(f, part);
    room_behind(f, part);
    const bool of_product = part.whole_tiles || part.form == ScratchPart::kPackedRows ||
                            part.form == ScratchPart::kPanels || part.form == ScratchPart::kAhead;
    if (of_product)  // tried at every size of tile, with fenced memory:
                     // codegen/cpu/mma_reach_test.cc
      f.assumptions = {"products touch 32-row tiles, 32-column panels and 16-word rows, no more"};
    finish(std::move(f));
  }

  void values_fit(Finding& f, const ScratchPart& part) {
    for (const Node& n : program_.nodes) {
      if (!n.has_value() || n.shape.empty() || plan_.buffer_of(n.id) != part.buffer) continue;
      if (f.loc.file.empty()) f.loc = n.loc;
      if (n.shape.size() != part.extents.size())
        return refuse(f, ir::node_str(n) + " has another rank than its buffer");
      for (size_t d = 0; d < n.shape.size(); ++d)
        if (!n.shape[d].same_as(part.extents[d]))
          need(f, n.id, n.shape[d] <= part.extents[d], ir::node_str(n));
      const bool in_tiles = n.op == Op::kMma || is_left_operand(n.id);
      if (in_tiles && part.form == ScratchPart::kRows && !part.whole_tiles)
        return refuse(f, ir::node_str(n) + " is worked on in whole register tiles");
    }
  }

  bool is_left_operand(ValueId id) const {
    return std::any_of(program_.nodes.begin(), program_.nodes.end(), [&](const Node& n) {
      if (n.op != Op::kMma) return false;
      const codegen::Product& product = plan_.product(n.id);
      return product.a == id && !product.a_transposed;
    });
  }

  // Blocks of a tensor that was packed ahead start where a panel and a word row start, and end
  // inside.
  void blocks_fit(Finding& f, const ScratchPart& part) {
    for (const Access& a : accesses_.all) {
      if (a.kind != Access::kLoad || "ahead_" + a.tensor != part.name) continue;
      const Node& load = program_.node(a.node);
      const std::vector<Expr>& shape = program_.tensor(a.tensor)->shape;
      for (size_t d = 0; d < load.region.size(); ++d) {
        const ir::DimIndex& dim = load.region[d];
        if (dim.kind != ir::DimIndex::kRange) continue;
        for (size_t axis = 0; axis < 2; ++axis) {
          if (!part.extents[axis].same_as(shape[d])) continue;
          const int64_t unit =
              axis == 0 ? codegen::kPanelColumns : int64_t{codegen::kWordAlign} * part.per_word;
          need(f, load.id, dim.begin % Expr(unit) == Expr(0), "where a block starts");
          need(f, load.id,
               ceil_div(dim.begin + dim.extent, Expr(unit)) <= ceil_div(shape[d], Expr(unit)),
               "where a block ends");
        }
      }
    }
  }

  // Whole vectors and whole register tiles at the end of a row, and behind the last.
  void room_behind(Finding& f, const ScratchPart& part) {
    const int64_t lanes = target_.lanes_f32();
    const Expr width = Expr::sym("width");
    auto up = [](const Expr& x, int64_t to) { return ceil_div(x, Expr(to)) * Expr(to); };
    auto holds = [&](const Expr& goal, const std::string& what) {
      const Answer answer = reasoner_.prove({Expr(0) <= width}, goal);
      if (answer.verdict != Verdict::kProved) refuse(f, what + ": not always " + goal.str());
    };
    if (part.form == ScratchPart::kFlat && lanes > codegen::kVectorRoom)
      refuse(f, "a vector reaches further than the room behind the last element");
    if (part.form != ScratchPart::kRows) return;
    ScratchPart any = part;
    any.extents.back() = width;
    const Expr pitch = codegen::pitch(any);
    holds(up(width, lanes) <= pitch, "a vector at the end of a row");
    if (!part.whole_tiles) return;
    // Products write panels of 32 columns; left operands are read 64 bytes at a time.
    const bool product = plan_.buffers()[static_cast<size_t>(part.buffer)].product;
    if (product) holds(up(width, codegen::kPanelColumns) <= pitch, "a panel at the end of a row");
    holds(up(width * Expr(part.element_bytes), 64) <= pitch * Expr(part.element_bytes),
          "a word row at the end of a row");
  }

  // ---- cpu.overflow

  // Whether the sizes, in any call within the declared limits, are together at most `limit`.
  void at_most(Finding& f, const std::vector<Expr>& sizes, double limit) {
    double total = 0;
    for (const Expr& size : sizes) {
      const std::optional<double> most = bound_.of(size);
      if (most && (total += *most) <= limit) continue;
      f.verdict = Verdict::kUnknown;
      f.reason = "no bound is known for " + size.str() +
                 (most ? ", at most " + std::to_string(*most) : "");
      return too_large(f, size, limit);
    }
    f.prover = Prover::kInterval;
    f.assumptions = {
        "size limit: a tensor has at most 2^40 elements",
        "the launcher: extents are below 2^48; nothing is run without elements to write"};
  }

  // Equal dims, as large as limits and contract let them be, that make a size that does not fit.
  void too_large(Finding& f, const Expr& size, double limit) const {
    Env call;
    for (const ir::TensorParam& t : program_.tensors)
      for (const Expr& extent : t.shape)
        for (const std::string& symbol : symbols_of(extent)) call[symbol] = 1;
    for (int bits = 0; bits <= 40; ++bits) {
      for (auto& entry : call) entry.second = int64_t{1} << bits;
      double value = 0;
      if (!admitted(call)) return;
      if (!magnitude(size, call, value) || value <= limit) continue;
      f.verdict = Verdict::kRefuted;
      f.prover = Prover::kConstant;
      f.reason = size.str() + " does not fit";
      f.example.call = call;
      return;
    }
  }

  bool admitted(const Env& call) const {
    for (const ir::Clause& c : program_.clauses)
      if (c.kind == ir::Clause::kCondition && evaluate(c.condition, call).value_or(1) == 0)
        return false;
    return std::all_of(program_.tensors.begin(), program_.tensors.end(), [&](const auto& t) {
      double count = 1;
      for (const Expr& extent : t.shape)
        count *= static_cast<double>(evaluate(extent, call).value_or(1));
      return t.role == ir::Role::kWorkspace || count <= static_cast<double>(kMostElements);
    });
  }

  // Of sums and products only, in floating point: the size itself may not fit an integer.
  static bool magnitude(const Expr& e, const Env& call, double& out) {
    if (const std::optional<int64_t> exact = evaluate(e, call)) {
      out = static_cast<double>(*exact);
      return true;
    }
    if (e.kind() != ExprKind::kMul && e.kind() != ExprKind::kAdd) return false;
    double a = 0, b = 0;
    if (!magnitude(e.args()[0], call, a) || !magnitude(e.args()[1], call, b)) return false;
    out = e.kind() == ExprKind::kMul ? a * b : a + b;
    return true;
  }

  void sizes() {
    std::vector<Expr> own, shared;
    for (const ScratchPart& part : scratch_) {
      const int64_t times = part.owner == ScratchPart::kMember ? members() : 1;
      (part.owner == ScratchPart::kShared ? shared : own)
          .push_back(codegen::bytes(part) * Expr(times));
    }
    Finding f = reasoner_.begin(Kind::kCpuOverflow, "scratch of a thread");
    at_most(f, own, kMostThreadBytes);
    finish(std::move(f));
    f = reasoner_.begin(Kind::kCpuOverflow, "memory that threads share");
    at_most(f, shared, kMostSharedBytes);
    finish(std::move(f));
  }
  int64_t members() const {
    int64_t most = 1;
    for (const auto& [var, width] : schedule_.gang) most = std::max(most, width);
    return most;
  }

  // An index is inside its dimension (tile.bounds) and a dimension's reach is part of the tensor's,
  // which the launcher has computed without wrapping.
  void addresses() {
    Finding f = reasoner_.begin(Kind::kCpuOverflow, "offsets into tensors");
    f.assumptions = {"tile.bounds", "the launcher: no element lies 2^58 elements from the first"};
    finish(std::move(f));
  }

  // ---- cpu.race

  void races() {
    Finding f = reasoner_.begin(Kind::kCpuRace, "threads");
    for (const ScratchPart& part : scratch_) {
      const bool whole_tensor =
          part.form == ScratchPart::kWorkspace || part.form == ScratchPart::kAhead;
      if (part.owner == ScratchPart::kShared && !whole_tensor)
        refuse(f, "`" + part.name + "` is written by every thread and there is one of it");
    }
    // A value that an earlier phase left in scratch would be another thread's.
    for (const Node& n : program_.nodes)
      if (n.has_value() && !n.shape.empty() && plan_.buffer_of(n.id) >= 0 &&
          accesses_.scopes.count(n.id) == 0)
        refuse(f, ir::node_str(n) + " is kept in the scratch of one thread for all");
    f.assumptions = {"tile.once", "tile.order",
                     "OpenMP: a barrier ends each parallel loop; thread numbers are distinct and "
                     "below omp_get_max_threads()"};
    finish(std::move(f));
  }

  // ---- cpu.alignment

  void alignment() {
    Finding f = reasoner_.begin(Kind::kCpuAlignment, "vectors, elements, scratch");
    for (const ScratchPart& part : scratch_)
      if (part.element_bytes <= 0 || 64 % part.element_bytes != 0)
        refuse(f, "elements of `" + part.name + "` do not divide the 64 bytes that parts start at");
    // Stores past the caches are whole vectors. Their row starts at a multiple of 64 bytes, which
    // the text asks, and they go by two vectors of elements, narrow ones joined to one.
    const int64_t lanes = target_.lanes_f32(), vector_bytes = 4 * lanes;
    for (const Access& a : accesses_.all) {
      if (a.kind != Access::kStore || schedule_.nontemporal_bytes <= 0) continue;
      const int64_t element = size_bytes(program_.tensor(a.tensor)->dtype);
      const bool by_vectors = element == 4 || element == 2;  // the others take plain stores
      if (by_vectors && (2 * lanes * element) % vector_bytes != 0)
        refuse(f, "stores to `" + a.tensor + "` past the caches are not whole vectors");
    }
    f.assumptions = {"the launcher: data of a tensor is aligned to its elements",
                     "the workspace starts at a multiple of 64 bytes"};
    f.prover = f.verdict == Verdict::kProved ? Prover::kEnumeration : f.prover;
    finish(std::move(f));
  }

  const ir::Program& program_;
  const Schedule& schedule_;
  const TargetInfo& target_;
  const Plan plan_;
  const std::vector<ScratchPart> scratch_;
  const Accesses accesses_;
  Reasoner reasoner_;
  SizeBound bound_;
  std::vector<Finding> findings_;
};

}  // namespace

std::vector<Finding> prove_cpu(const ir::Program& program, const Schedule& schedule,
                               const TargetInfo& target, const std::vector<ScratchPart>* scratch) {
  Result<Plan> plan = Plan::make(program, schedule);
  Result<codegen::CpuKernelText> kernel = codegen::emit_cpu(program, "k", schedule, target);
  if (!plan.ok() || !kernel.ok()) {
    Finding f;
    f.kind = Kind::kCpuBounds;
    f.subject = "lowering to the CPU";
    f.reason = (plan.ok() ? kernel.diag() : plan.diag()).message;
    return {f};
  }
  const std::vector<ScratchPart>& parts = scratch != nullptr ? *scratch : kernel->scratch;
  return CpuProver(program, schedule, target, std::move(*plan), parts).run();
}

}  // namespace rooftile::verify
