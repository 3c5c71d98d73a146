// SPDX-License-Identifier: Apache-2.0
// The frame of a fragment kernel: interface, barriers, roles, the walk over tiles, loops, ring
// slots.
#include "rooftile/codegen/gpu/fragment_lowering.h"

#include <algorithm>
#include <set>

#include "rooftile/codegen/gpu/element_ops.h"
#include "rooftile/codegen/gpu/place.h"
#include "rooftile/codegen/gpu/touched_tensors.h"

namespace rooftile::codegen {

using ir::Node;
using lanes::Ins;
using lanes::Ty;

lanes::Stmt op(Ins ins, std::vector<lanes::Val> args, int n, int bytes) {
  lanes::Instr i;
  i.ins = ins;
  i.args = std::move(args);
  i.n = n;
  i.bytes = bytes;
  return lanes::instr(std::move(i));
}
lanes::Stmt loop_over(const std::string& name, int count, lanes::Body body) {
  return lanes::for_(name, 0, count, 1, std::move(body), lanes::Unroll::kYes);
}
lanes::Val reg_i32(const std::string& name) { return lanes::var(Ty::kI32, name); }
lanes::Val u32(const lanes::Val& value) { return lanes::cast(Ty::kU32, value); }
lanes::Cache cache_of(gpu::L2 l2) {
  return l2 == gpu::L2::kEvictFirst  ? lanes::Cache::kEvictFirst
         : l2 == gpu::L2::kEvictLast ? lanes::Cache::kEvictLast
                                     : lanes::Cache::kPlain;
}

namespace {

lanes::Stmt by_elected(lanes::Body body) {
  return lanes::if_(lanes::var(Ty::kPred, "elected"), std::move(body));
}

lanes::Val barrier(const std::string& allocation, const lanes::Val& slot) {
  return lanes::shared(allocation) + u32(slot) * 8;
}

}  // namespace

FragmentLowering::FragmentLowering(const ir::Program& program, const Placed& placed,
                                   std::string name)
    : program_(program), placed_(placed), index_(program) {
  out_.name = std::move(name);
  // Names of the kernel's own; loops and axes of the program get others.
  for (const char* own :
       {"warp",         "lane",        "rank",       "first",      "elected",    "group",
        "row",          "column",      "block",      "eight",      "quad",       "half",
        "step",         "deep",        "reg",        "chunk",      "piece",      "word",
        "zeros",        "part_column", "sums_phase", "turn_phase", "workers",    "worker",
        "slot_of_sums", "owner",       "others",     "part",       "part_first", "part_last"})
    index_.unique(own);
  for (const auto& [id, value] : placed_.values)
    if (!value.reg.empty()) index_.unique(value.reg);
  for (const ir::TensorParam& tensor : program_.tensors) index_.unique(tensor.name);
}

void FragmentLowering::refuse(const Node& node, std::string message, std::string found,
                              std::string expected) {
  if (!error_.ok()) return;
  Diag diag;
  diag.code = ErrorCode::kPlacement;
  diag.subject = program_.name;
  diag.argument = node.label.empty() ? node.name : node.label;
  diag.message = std::move(message);
  diag.found = std::move(found);
  diag.expected = std::move(expected);
  diag.at = node.loc;
  error_ = diag;
}

int FragmentLowering::cluster_size() const {
  int size = 1;
  for (const gpu::ClusterAxis& axis : placed_.plan.cluster) size *= axis.size;
  return placed_.split.over_cluster() ? size * placed_.split.ways : size;
}

bool FragmentLowering::shared_by_cluster(const PlacedRing& ring) const {
  for (const std::vector<PlacedCopy>& copies : ring.alternatives)
    for (const PlacedCopy& copy : copies)
      if (!copy.shared_axis.empty()) return true;
  return false;
}

bool FragmentLowering::shares_rings() const {
  return std::any_of(placed_.rings.begin(), placed_.rings.end(),
                     [&](const PlacedRing& ring) { return shared_by_cluster(ring); });
}

Result<lanes::Program> FragmentLowering::run() {
  if (placed_.plan.cluster.size() > 1)
    refuse(program_.node(placed_.phase), "a cluster spans one axis");
  declare_interface();
  declare_rings();
  index_.push_scope();
  Body& body = out_.body;
  body.push_back(lanes::decl(Ty::kI32, "warp", lanes::special(lanes::Special::kWarp)));
  body.push_back(lanes::decl(Ty::kI32, "lane", lanes::special(lanes::Special::kLane)));
  if (cluster_size() > 1)
    body.push_back(lanes::decl(
        Ty::kI32, "rank", lanes::cast(Ty::kI32, lanes::special(lanes::Special::kClusterRank))));
  // Without shared rings peers meet late: the first copies go ahead of it.
  const bool meet_late = cluster_size() > 1 && !shares_rings();
  Body set_up, copying, computing;
  set_up_barriers(set_up);
  body.push_back(lanes::if_(lanes::equal(reg_i32("warp"), 0), std::move(set_up), {}, true));
  if (cluster_size() > 1) body.push_back(op(Ins::kClusterArrive));
  body.push_back(op(cluster_size() > 1 && !meet_late ? Ins::kClusterWait : Ins::kSyncThreads));
  // The kernel before may still run: nothing of global memory is touched before it is over, and the
  // one behind may take what this one leaves idle.
  if (placed_.plan.dependent_launch) {
    body.push_back(op(Ins::kGridWait));
    body.push_back(op(Ins::kGridLaunchNext));
  }
  copying_ = true;
  index_.push_scope();
  copying_role(copying);
  if (meet_late) copying.push_back(op(Ins::kClusterWait));
  index_.pop_scope();
  copying_ = false;
  index_.push_scope();
  if (meet_late) computing.push_back(op(Ins::kClusterWait));
  computing_role(computing);
  index_.pop_scope();
  body.push_back(lanes::if_(reg_i32("warp") < 4, std::move(copying), std::move(computing), true));
  RT_RETURN_IF_ERROR(error_);
  RT_RETURN_IF_ERROR(lanes::plan_shared(out_));
  return std::move(out_);  // verified by whoever reads it: the text, the emulator
}

void FragmentLowering::declare_interface() {
  const auto [read, written] = touched_tensors(program_, program_.node(placed_.phase));
  for (const ir::TensorParam& tensor : program_.tensors) {
    lanes::TensorUse use{.name = tensor.name, .dtype = tensor.dtype, .shape = tensor.shape};
    use.written = written.count(tensor.name) != 0;
    use.read = read.count(tensor.name) != 0;
    use.workspace = tensor.role == ir::Role::kWorkspace;
    // Workspaces are compact: their strides are whatever the extents make them.
    use.align_bytes = std::max(use.workspace ? 1 : tensor.align_bytes, size_bytes(tensor.dtype));
    if (stores_by_warps(placed_.plan, tensor.name)) use.align_bytes = 16;
    out_.tensors.push_back(std::move(use));
  }
  std::set<std::string> dims;
  for (const ir::TensorParam& tensor : program_.tensors)
    for (const Expr& extent : tensor.shape) collect_symbols(extent, dims);
  for (const ir::ScalarParam& scalar : program_.scalars) dims.erase(scalar.name);
  for (const std::string& dim : dims) out_.scalars.push_back({dim, Ty::kI32});
  for (const ir::ScalarParam& scalar : program_.scalars)
    out_.scalars.push_back({scalar.name, scalar.is_float ? Ty::kF32 : Ty::kI64});
  for (const ir::TensorParam& tensor : program_.tensors) {
    const size_t strides = tensor.shape.size() - (tensor.unit_inner_stride ? 1 : 0);
    for (size_t d = 0; d < tensor.shape.size() && d < strides; ++d)
      out_.scalars.push_back({tensor.name + ".s" + std::to_string(d), Ty::kI64});
  }
  out_.threads = 128 * (placed_.groups + 1);
  out_.cluster = cluster_size();
  out_.min_ctas_per_sm = placed_.plan.ctas_per_sm;
  out_.dependent_launch = placed_.plan.dependent_launch;
  const Expr clusters = work_count();
  Expr resident = Expr::sym("SMS") * placed_.plan.ctas_per_sm / cluster_size();
  // The parts of a tile are neighbours of one round: none waits for a CTA of a higher number. Where
  // so few do not run at once, one does all.
  if (const int ways = placed_.split.over_grid() ? placed_.split.ways : 0; ways > 0)
    resident = max(resident / ways * ways, 1);
  out_.grid_x = (placed_.plan.grid == gpu::Grid::kPersistent ? min(clusters, resident) : clusters) *
                cluster_size();
  declare_fix_up();
}

void FragmentLowering::declare_rings() {
  for (const PlacedRing& ring : placed_.rings) {
    out_.shared.push_back({.name = "ring_" + ring.name,
                           .bytes = int64_t{ring.depth} * ring.slot_bytes,
                           .align = 1024});
  }
  for (const PlacedRing& ring : placed_.rings)
    for (const char* kind : {"full_", "empty_"})
      out_.shared.push_back({.name = kind + ring.name,
                             .bytes = int64_t{8} * ring.depth,
                             .align = 8,
                             .barriers = true});
  declare_split();
  declare_turns();
}

std::string FragmentLowering::map_for(const std::string& tensor, std::vector<int> box) {
  std::string key = tensor;
  for (int side : box) key += "," + std::to_string(side);
  if (auto it = maps_.find(key); it != maps_.end()) return it->second;
  int count = 0;
  for (const lanes::TensorMapUse& map : out_.maps) count += map.tensor == tensor;
  const std::string name = "map_" + tensor + (count == 0 ? "" : std::to_string(count));
  out_.maps.push_back({.name = name,
                       .tensor = tensor,
                       .box = std::move(box),
                       .swizzle = lanes::Swizzle::k128,
                       .l2_promotion = 256});
  return maps_[key] = name;
}

// One thread makes the barriers; nobody uses one before the CTA, or the cluster, has met.
void FragmentLowering::set_up_barriers(Body& out) {
  Body body;
  for (const PlacedRing& ring : placed_.rings) {
    const int readers = (in_turns() ? 1 : placed_.groups) * (ring.by_warps ? 4 : 1);  // of a slot
    const int sharers = shared_by_cluster(ring) ? cluster_size() : 1;
    const std::string slot = index_.unique("slot");
    body.push_back(lanes::for_(
        slot, 0, ring.depth, 1,
        {op(Ins::kBarInit, {barrier("full_" + ring.name, reg_i32(slot)), ring.arrivals()}),
         op(Ins::kBarInit, {barrier("empty_" + ring.name, reg_i32(slot)), readers * sharers})},
        lanes::Unroll::kYes));
  }
  set_up_split(body);
  set_up_turns(body);
  body.push_back(op(Ins::kBarInitFence));
  out.push_back(lanes::decl(Ty::kPred, "first"));
  lanes::Instr elect;
  elect.ins = Ins::kElect;
  elect.results = {{"first", {}, 1}};
  out.push_back(lanes::instr(std::move(elect)));
  out.push_back(lanes::if_(lanes::var(Ty::kPred, "first"), std::move(body)));
}

void FragmentLowering::copying_role(Body& out) {
  out.push_back(lanes::comment(placed_.has_thread_copies()
                                   ? "copying role: its threads keep the rings full"
                                   : "copying role: one thread keeps the rings full"));
  const int regs = placed_.plan.roles[0].regs;
  if (regs > 0) out.push_back(op(Ins::kRegsDec, {}, regs));
  Body body;
  for (const PlacedRing& ring : placed_.rings) {
    body.push_back(lanes::decl(Ty::kI32, ring.name + "_slot", 0));
    body.push_back(lanes::decl(Ty::kI32, ring.name + "_phase", 0));
  }
  Body warp;
  warp.push_back(lanes::decl(Ty::kPred, "elected"));
  lanes::Instr elect;
  elect.ins = Ins::kElect;
  elect.results = {{"elected", {}, 1}};
  warp.push_back(lanes::instr(std::move(elect)));
  if (placed_.has_thread_copies()) {
    for (lanes::Stmt& s : warp) out.push_back(std::move(s));
    out.push_back(lanes::assign(
        "elected", lanes::var(Ty::kPred, "elected") && lanes::equal(reg_i32("warp"), 0)));
    for (lanes::Stmt& s : body) out.push_back(std::move(s));
    walk_tiles(out, placed_.copying);
    Body rest;
    drain(rest);
    if (!rest.empty()) out.push_back(by_elected(std::move(rest)));
    return;
  }
  walk_tiles(body, placed_.copying);
  drain(body);
  warp.push_back(by_elected(std::move(body)));
  out.push_back(lanes::if_(lanes::equal(reg_i32("warp"), 0), std::move(warp), {}, true));
}

// Arrivals that peers still owe must land before this CTA's shared memory goes away.
void FragmentLowering::drain(Body& out) {
  for (const PlacedRing& ring : placed_.rings) {
    if (!shared_by_cluster(ring)) continue;
    Body step;
    step.push_back(
        op(Ins::kBarWait, {barrier("empty_" + ring.name, reg_i32(ring.name + "_slot")),
                           lanes::fn(lanes::Fn::kXor, {reg_i32(ring.name + "_phase"), 1})}));
    advance(ring.name + "_slot", ring.name + "_phase", ring.depth, step);
    out.push_back(lanes::for_(index_.unique("rest"), 0, ring.depth, 1, std::move(step)));
  }
}

void FragmentLowering::computing_role(Body& out) {
  out.push_back(lanes::comment("computing groups"));
  const int regs = placed_.plan.roles[1].regs;
  if (regs > 0) out.push_back(op(Ins::kRegsInc, {}, regs));
  const int rows = 64 * placed_.row_blocks;
  out.push_back(lanes::decl(Ty::kI32, "group", lanes::floor_div(reg_i32("warp"), 4) - 1));
  out.push_back(lanes::decl(
      Ty::kI32, "row",
      (placed_.plan.share == gpu::Share::kRows ? reg_i32("group") * rows : Val(0)) +
          lanes::floor_mod(reg_i32("warp"), 4) * 16 + lanes::floor_div(reg_i32("lane"), 4)));
  out.push_back(lanes::decl(Ty::kI32, "column", lanes::floor_mod(reg_i32("lane"), 4) * 2));
  for (const PlacedRing& ring : placed_.rings)
    for (const char* name : {"_next", "_phase", "_at", "_free"})
      out.push_back(lanes::decl(Ty::kI32, ring.name + name, 0));
  if (placed_.split.over_cluster()) out.push_back(lanes::decl(Ty::kI32, "sums_phase", 0));
  if (placed_.split.owners > 1)
    out.push_back(lanes::decl(Ty::kI32, "part_column", reg_i32("rank") * placed_.split.columns));
  declare_turn_phase(out);
  declare_registers(out);
  walk_tiles(out, placed_.computing);
  finish_split(out);
  finish_stores(out);
}

// ---- the walk
// ------------------------------------------------------------------------------------

// Tiles, or groups of tiles that a cluster runs together.
Expr FragmentLowering::tile_count() const {
  const Node& phase = program_.node(placed_.phase);
  Expr count = 1;
  for (size_t i = 0; i < phase.vars.size(); ++i) {
    Expr extent = phase.extents[i];
    for (const gpu::ClusterAxis& axis : placed_.plan.cluster)
      if (axis.axis == phase.vars[i]) extent = ceil_div(extent, axis.size);
    count = count * extent;
  }
  return count;
}

// Counts of tiles and loop bounds are below 2^31: they index blocks of dims that are.
lanes::Val FragmentLowering::number32(const std::string& hint, const Expr& expr, Body& out) {
  const Val value = lanes::cast(Ty::kI32, index_.number(expr, out));
  if (value->kind == lanes::ValKind::kInt) return value;
  const std::string name = index_.unique(hint);
  out.push_back(lanes::decl(Ty::kI32, name, value));
  return reg_i32(name);
}

void FragmentLowering::walk_tiles(Body& out, const std::vector<Event>& list) {
  const Val cta = lanes::cast(Ty::kI32, lanes::special(lanes::Special::kCtaX));
  const Val grid = lanes::cast(Ty::kI32, lanes::special(lanes::Special::kGridX));
  const int size = cluster_size();
  const std::string tile = index_.unique("tile");
  Body body;
  index_.push_scope();
  if (placed_.split.over_grid()) {
    walk_parts(tile, list, out);
  } else if (placed_.plan.grid == gpu::Grid::kPersistent) {
    const Val count = number32("tiles", tile_count(), out);
    bind_tile(reg_i32(tile), body);
    events(list, body);
    const Val first = lanes::floor_div(cta, size), stride = lanes::floor_div(grid, size);
    if (in_turns() && !copying_)
      walk_turns(first, count, stride, tile, std::move(body), out);
    else
      out.push_back(lanes::for_(tile, first, count, stride, std::move(body)));
  } else {
    out.push_back(lanes::decl(Ty::kI32, tile, lanes::floor_div(cta, size)));
    bind_tile(reg_i32(tile), out);
    events(list, out);
  }
  index_.pop_scope();
}

// The parallel indices of a tile: a mixed-radix number, its last axis fastest; with a band, the
// tiles of `band` rows of the band axis are walked column by column before the next band begins.
void FragmentLowering::bind_tile(const Val& tile, Body& out) {
  const Node& phase = program_.node(placed_.phase);
  const gpu::Order& order = placed_.plan.order;
  std::vector<std::string> axes = order.axes.empty() ? phase.vars : order.axes;
  std::map<std::string, Expr> extents;
  std::string cluster_axis;
  int cluster = 1;
  for (size_t i = 0; i < phase.vars.size(); ++i) extents[phase.vars[i]] = phase.extents[i];
  for (const gpu::ClusterAxis& axis : placed_.plan.cluster) {
    if (extents.count(axis.axis) == 0)
      return refuse(phase, "the cluster names an axis that the phase lacks", axis.axis);
    cluster_axis = axis.axis;
    cluster = axis.size;
    extents[axis.axis] = ceil_div(extents[axis.axis], axis.size);
  }
  for (const std::string& axis : axes)
    if (extents.count(axis) == 0) return refuse(phase, "the order names an unknown axis", axis);
  if (axes.size() != phase.vars.size())
    return refuse(phase, "the order lists every parallel axis once");

  std::map<std::string, Val> at;
  Val rest = tile;
  size_t left = axes.size();
  if (order.band > 0) {
    // The band covers the two fastest axes.
    if (axes.size() < 2) return refuse(phase, "a band needs two axes");
    const std::string along =
        axes[axes.size() - 1] == order.band_axis ? axes[axes.size() - 2] : axes[axes.size() - 1];
    if (order.band_axis != axes[axes.size() - 1] && order.band_axis != axes[axes.size() - 2])
      return refuse(phase, "the band axis is one of the two fastest", order.band_axis);
    const int width = std::max(order.band / cluster, 1);
    const Val across_count = number32("across", extents[order.band_axis], out);
    const Val along_count = number32("along", extents[along], out);
    const Val plane = across_count * along_count;
    Val in_plane = rest;
    if (axes.size() > 2) {
      in_plane = lanes::floor_mod(rest, plane);
      rest = lanes::floor_div(rest, plane);
    }
    const std::string names[] = {index_.unique("band"), index_.unique("in_band"),
                                 index_.unique("width")};
    out.push_back(lanes::decl(Ty::kI32, names[0], lanes::floor_div(in_plane, along_count * width)));
    out.push_back(
        lanes::decl(Ty::kI32, names[1], in_plane - reg_i32(names[0]) * width * along_count));
    out.push_back(lanes::decl(Ty::kI32, names[2],
                              lanes::min(Val(width), across_count - reg_i32(names[0]) * width)));
    at[along] = lanes::floor_div(reg_i32(names[1]), reg_i32(names[2]));
    at[order.band_axis] =
        reg_i32(names[0]) * width + lanes::floor_mod(reg_i32(names[1]), reg_i32(names[2]));
    left -= 2;
  }
  while (left > 0) {
    const std::string& axis = axes[--left];
    if (left == 0) {
      at[axis] = rest;
      break;
    }
    const Val count = lanes::cast(Ty::kI32, index_.number(extents[axis], out));
    at[axis] = lanes::floor_mod(rest, count);
    rest = lanes::floor_div(rest, count);
  }
  for (const std::string& axis : phase.vars) {
    Val value = at.at(axis);
    if (axis == cluster_axis) value = value * cluster + reg_i32("rank");
    const std::string name = index_.unique(axis);
    out.push_back(lanes::decl(Ty::kI32, name, value));
    index_.bind(axis, reg_i32(name));
  }
}

// ---- events
// --------------------------------------------------------------------------------------

void FragmentLowering::events(const std::vector<Event>& list, Body& out) {
  for (size_t i = 0; i < list.size(); ++i) {
    if (list[i].kind != Event::kIssue) {
      event(list[i], out);
      continue;
    }
    std::vector<ValueId> products;  // started side by side, under one fence
    for (; i < list.size() && list[i].kind == Event::kIssue; ++i) products.push_back(list[i].id);
    --i;
    issue(products, out);
  }
}

// The events of a block of its own: what is loaded or looked up in it is not there behind it.
void FragmentLowering::scope(const std::vector<Event>& list, Body& out) {
  const auto outer = looked_up_;
  index_.push_scope();
  events(list, out);
  index_.pop_scope();
  looked_up_ = outer;
}

void FragmentLowering::event(const Event& e, Body& out) {
  if (!error_.ok()) return;
  const Node* node = e.id >= 0 ? &program_.node(e.id) : nullptr;
  switch (e.kind) {
    case Event::kLoop:
      return loop(e, out);
    case Event::kWhen:
      return when(e, out);
    case Event::kFill:
      return fill(e, out);
    case Event::kAcquire:
      return acquire(e, out);
    case Event::kRelease:
      return release(e, out);
    case Event::kIssue:
      return issue({e.id}, out);
    case Event::kWait:
      return wait(e.n, out);
    case Event::kCompute:
      return compute(e.id, out);
    case Event::kRescale:
      return rescale(*node, out);
    case Event::kJoin: {
      Body join;
      join_lanes(ir::ReduceKind::kSum, node->dtype, placed_.values.at(e.id).reg,
                 reg_i32("block") * 2 + reg_i32("half"), join);
      out.push_back(
          lanes::for_("block", 0, placed_.row_blocks, 1,
                      {lanes::for_("half", 0, 2, 1, std::move(join), lanes::Unroll::kYes)},
                      lanes::Unroll::kYes));
      return;
    }
    case Event::kYield:
      return yield(*node, out);
    case Event::kStore:
      return store(*node, out);
    case Event::kTakeTurn:
      return take_turn(out);
    case Event::kPassTurn:
      return pass_turn(out);
    case Event::kCombine:
      return combine_parts(out);
    case Event::kOwner: {
      Body body;
      index_.push_scope();
      events(e.body, body);
      index_.pop_scope();
      return only_owner(std::move(body), out);
    }
  }
}

void FragmentLowering::when(const Event& e, Body& out) {
  const Val condition = index_.condition(program_.node(e.id).expr, out);
  Body body;
  scope(e.body, body);
  out.push_back(lanes::if_(condition, std::move(body), {}, true));
}

void FragmentLowering::loop(const Event& e, Body& out) {
  const Node& node = program_.node(e.id);
  Val begin = number32(node.name + "_begin", node.begin, out);
  Val end = number32(node.name + "_end", node.end, out);
  const Val step = lanes::cast(Ty::kI32, index_.number(node.step, out));
  if (e.id == placed_.split.loop) take_part(step, begin, end, out);
  if (!copying_) init_carries(node, out);
  const std::string name = index_.unique(node.name);
  loops_.push_back({&node, reg_i32(name), begin, end, step});
  Body target;
  Body& around = e.first.empty() ? out : target;
  Val from = begin;
  if (!e.first.empty()) {
    index_.bind(node.name, begin);
    loops_.back().var = begin;
    scope(e.first, target);
    loops_.back().var = reg_i32(name);
    from = begin + step;
  }
  Body body;
  index_.bind(node.name, reg_i32(name));
  scope(e.body, body);
  around.push_back(lanes::for_(name, from, end, step, std::move(body)));
  index_.bind(node.name, begin);  // `last` names no element of the loop's range but its first
  events(e.last, around);
  loops_.pop_back();
  if (!e.first.empty()) out.push_back(lanes::if_(begin < end, std::move(target), {}, true));
  // No part of a loop split over the grid is empty (lower_fragments.cc). A sum that may have been
  // cleared ahead of the fix-up, ptxas would copy there, and spill.
  if (!copying_ && !(placed_.split.over_grid() && e.id == placed_.split.loop))
    clear_unstarted(node, begin < end, out);
}

// ---- rings
// ---------------------------------------------------------------------------------------

void FragmentLowering::advance(const std::string& slot, const std::string& phase, int depth,
                               Body& out) {
  const Val last = lanes::equal(reg_i32(slot), depth - 1);
  if (!phase.empty())
    out.push_back(lanes::assign(
        phase, lanes::fn(lanes::Fn::kXor, {reg_i32(phase), lanes::select(last, 1, 0)})));
  out.push_back(lanes::assign(slot, lanes::select(last, 0, reg_i32(slot) + 1)));
}

void FragmentLowering::fill(const Event& e, Body& out) {
  const PlacedRing& ring = placed_.rings[static_cast<size_t>(e.ring)];
  const std::vector<PlacedCopy>& copies = ring.alternatives[static_cast<size_t>(e.n)];
  const std::string slot = ring.name + "_slot", phase = ring.name + "_phase";
  const Val full = barrier("full_" + ring.name, reg_i32(slot));
  // A fresh barrier counts as one phase behind: the first round waits for nothing.
  Body wait = {op(Ins::kBarWait, {barrier("empty_" + ring.name, reg_i32(slot)),
                                  lanes::fn(lanes::Fn::kXor, {reg_i32(phase), 1})})};
  Body by_engine, by_threads;
  if (ring.has_engine())
    by_engine.push_back(
        op(Ins::kBarExpect, {full}, 0, ring.engine_bytes(static_cast<size_t>(e.n))));
  for (const PlacedCopy& copy : copies) {
    for (const ir::DimIndex& dim : program_.node(copy.load).region)
      if (dim.kind == ir::DimIndex::kIndirect) look_up(dim.indirect, copy, out);
    if (copy.by_threads())
      copy_rows(ring, copy, by_threads);
    else if (copy.run_rows > 0)
      copy_runs(ring, copy, by_engine);
    else
      fill_copy(ring, copy, by_engine);
  }
  const auto append = [&](Body& more) {
    for (lanes::Stmt& s : more) out.push_back(std::move(s));
  };
  if (ring.has_threads()) {
    append(wait);
    if (!by_engine.empty()) out.push_back(by_elected(std::move(by_engine)));
    by_threads.push_back(op(Ins::kCpArrive, {full}));
    append(by_threads);
  } else if (placed_.has_thread_copies()) {
    for (lanes::Stmt& s : by_engine) wait.push_back(std::move(s));
    out.push_back(by_elected(std::move(wait)));
  } else {
    append(wait);
    append(by_engine);
  }
  advance(slot, phase, ring.depth, out);
}

void FragmentLowering::fill_copy(const PlacedRing& ring, const PlacedCopy& copy, Body& out) {
  const Node& load = program_.node(copy.load);
  const int sharers = copy.shared_axis.empty() ? 1 : cluster_size();
  const int rows = copy.rows / sharers;  // of the slice that this CTA brings
  std::vector<int> box;
  for (size_t d = load.region.size(); d-- > 0;) {
    const ir::DimIndex& dim = load.region[d];
    box.push_back(dim.tile_axis == 1 ? copy.chunk_columns() : dim.tile_axis == 0 ? rows : 1);
  }
  const std::string map = map_for(load.name, box);
  const Val slot = reg_i32(ring.name + "_slot");
  for (int chunk = 0; chunk < copy.chunks(); ++chunk) {
    lanes::Instr i;
    i.ins = sharers > 1 ? Ins::kTmaLoadMulticast : Ins::kTmaLoad;
    i.map = map;
    i.dtype = load.dtype;
    i.bytes = rows * 128;
    i.cache = cache_of(copy.how.l2);
    Val address = lanes::shared("ring_" + ring.name) + u32(slot) * ring.slot_bytes +
                  (ring.offset_in_slot(copy.load) + chunk * copy.chunk_bytes());
    if (sharers > 1) address = address + u32(reg_i32("rank")) * (rows * 128);
    i.args = {address, barrier("full_" + ring.name, slot)};
    if (sharers > 1) i.args.push_back(lanes::int_val(Ty::kU32, (1 << sharers) - 1));
    for (size_t d = load.region.size(); d-- > 0;) {
      const ir::DimIndex& dim = load.region[d];
      Val at = lanes::cast(Ty::kI32, index_.number(dim.begin, out));
      if (dim.tile_axis == 1) at = at + chunk * copy.chunk_columns();
      if (dim.tile_axis == 0 && sharers > 1) at = at + reg_i32("rank") * rows;
      i.args.push_back(at);
    }
    out.push_back(lanes::instr(std::move(i)));
  }
}

// Zeros in the rows that a short tile leaves: a product adds what stands there times zero, and that
// must not be a NaN. All groups share the work and meet behind it.
void FragmentLowering::clear_rows(const PlacedRing& ring, const PlacedCopy& copy, Body& out) {
  const Val extent = lanes::cast(Ty::kI32, index_.number(program_.node(copy.load).shape[0], out));
  const Val thread = lanes::cast(Ty::kI32, lanes::special(lanes::Special::kTid)) - 128;
  const int rows_at_once = 16 * placed_.groups;  // eight threads a row of 128 bytes
  const std::string row = index_.unique("short_row");
  const Val slot = lanes::shared("ring_" + ring.name) +
                   u32(reg_i32(ring.name + "_at")) * ring.slot_bytes +
                   ring.offset_in_slot(copy.load);
  Body chunks;
  for (int chunk = 0; chunk < copy.chunks(); ++chunk) {
    lanes::Instr store;
    store.ins = Ins::kStShared;
    store.bytes = 16;
    store.regs = {{"zeros", 0, 4}};
    store.args = {slot + chunk * copy.chunk_bytes() +
                  u32(reg_i32(row) * 128 + lanes::floor_mod(thread, 8) * 16)};
    chunks.push_back(lanes::instr(std::move(store)));
  }
  Body body = {lanes::decl_array(Ty::kU32, "zeros", 4)};
  for (int word = 0; word < 4; ++word)
    body.push_back(lanes::assign("zeros", word, lanes::int_val(Ty::kU32, 0)));
  body.push_back(lanes::for_(row, extent + lanes::floor_div(thread, 8), copy.rows, rows_at_once,
                             std::move(chunks), lanes::Unroll::kNo, false));
  body.push_back(op(Ins::kProxyFence));
  constexpr int kClearBarrier = 9;  // named barriers 1.. are the groups' own
  body.push_back(op(Ins::kNamedSync, {kClearBarrier}, 128 * placed_.groups));
  out.push_back(lanes::if_(extent < copy.rows, std::move(body), {}, true));
}

void FragmentLowering::acquire(const Event& e, Body& out) {
  const PlacedRing& ring = placed_.rings[static_cast<size_t>(e.ring)];
  const std::string next = ring.name + "_next";
  out.push_back(op(Ins::kBarWait,
                   {barrier("full_" + ring.name, reg_i32(next)), reg_i32(ring.name + "_phase")}));
  // What threads wrote, products read through the other proxy.
  if (ring.has_threads()) out.push_back(op(Ins::kProxyFence));
  out.push_back(lanes::assign(ring.name + "_at", reg_i32(next)));
  advance(next, ring.name + "_phase", ring.depth, out);
  for (const std::vector<PlacedCopy>& copies : ring.alternatives) {
    const bool here = std::any_of(copies.begin(), copies.end(),
                                  [&](const PlacedCopy& copy) { return copy.load == e.id; });
    for (const PlacedCopy& copy : copies)
      if (here && copy.clear_rows) clear_rows(ring, copy, out);
  }
}

// n > 0: the slot of n steps ago, if there were as many; n < 0: the slots left after a loop, the
// -n-th of them, if the loop had as many steps.
void FragmentLowering::release(const Event& e, Body& out) {
  const PlacedRing& ring = placed_.rings[static_cast<size_t>(e.ring)];
  const std::string free = ring.name + "_free";
  const Val bar = barrier("empty_" + ring.name, reg_i32(free));
  Body body;
  // A warp has seen the slot arrive once all of its lanes have.
  if (ring.by_warps) body.push_back(op(Ins::kSyncWarp));
  const auto by = [&](const Val& chosen) {
    return ring.by_warps ? chosen : lanes::equal(lanes::floor_mod(reg_i32("warp"), 4), 0) && chosen;
  };
  if (shared_by_cluster(ring))
    body.push_back(lanes::if_(by(reg_i32("lane") < cluster_size()),
                              {op(Ins::kBarArriveRemote, {bar, u32(reg_i32("lane"))})}));
  else
    body.push_back(lanes::if_(by(lanes::equal(reg_i32("lane"), 0)), {op(Ins::kBarArrive, {bar})}));
  advance(free, "", ring.depth, body);
  if (e.n == 0) {
    for (lanes::Stmt& s : body) out.push_back(std::move(s));
    return;
  }
  const LoopFrame& frame = loops_.back();
  const Val there = e.n > 0 ? frame.begin + frame.step * (e.n - 1) < frame.var
                            : frame.begin + frame.step * (-e.n - 1) < frame.end;
  out.push_back(lanes::if_(there, std::move(body), {}, true));
}

}  // namespace rooftile::codegen
