// SPDX-License-Identifier: Apache-2.0
// Work shared out: a loop split over the CTAs of a cluster, whole tiles in turn, the token.
//
// Partial sums travel as register images: a thread sends its registers with st.async, 16 bytes at a
// time, to the thread of its own number in the CTA that owns them, on a barrier that counts the
// bytes. An owner adds the images of all CTAs, its own among them, in the order of their ranks.
#include "rooftile/codegen/gpu/element_ops.h"
#include "rooftile/codegen/gpu/fragment_lowering.h"
#include "rooftile/codegen/gpu/place.h"

namespace rooftile::codegen {

using ir::Node;
using lanes::Ins;
using lanes::Ty;
using lanes::Val;

namespace {

// A group's own barrier among those of its kind.
Val group_barrier(const std::string& allocation) {
  return lanes::shared(allocation) + u32(reg_i32("group")) * 8;
}

Val leads_group() {
  return lanes::equal(lanes::floor_mod(reg_i32("warp"), 4), 0) && lanes::equal(reg_i32("lane"), 0);
}

Val flipped(const std::string& phase) { return lanes::fn(lanes::Fn::kXor, {reg_i32(phase), 1}); }

}  // namespace

bool FragmentLowering::persistent() const { return placed_.plan.grid == gpu::Grid::kPersistent; }

// ---- a loop split over a cluster ---------------------------------------------------------------

// Images of one sum, of one CTA: a vector of 16 bytes is the four registers of a column group.
int FragmentLowering::image_vectors() const {
  return placed_.row_blocks * placed_.split.columns / 8;
}

void FragmentLowering::declare_split() {
  const PlacedSplit& split = placed_.split;
  if (!split.over_cluster()) return;
  for (ValueId result : split.results)
    out_.shared.push_back(
        {.name = "images_" + placed_.values.at(result).reg,
         .bytes = int64_t{split.ways} * image_vectors() * 16 * 128 * placed_.groups,
         .align = 16});
  for (const char* name : {"sums_full", "sums_free"})
    out_.shared.push_back(
        {.name = name, .bytes = int64_t{8} * placed_.groups, .align = 8, .barriers = true});
}

// full: the owner's announcement and the bytes. free: every warp of every owner has read.
void FragmentLowering::set_up_split(Body& out) {
  const PlacedSplit& split = placed_.split;
  if (!split.over_cluster()) return;
  for (int g = 0; g < placed_.groups; ++g) {
    out.push_back(op(Ins::kBarInit, {lanes::shared("sums_full") + u32(Val(8 * g)), 1}));
    out.push_back(
        op(Ins::kBarInit, {lanes::shared("sums_free") + u32(Val(8 * g)), 4 * split.owners}));
  }
}

// The steps of this CTA: consecutive ones, as evenly as they divide.
void FragmentLowering::take_part(const Val& step, Val& begin, Val& end, Body& out) {
  if (placed_.split.over_grid()) return take_steps(step, begin, end, out);
  const int ways = placed_.split.ways;
  const std::string steps = index_.unique("steps"), first = index_.unique("part_begin"),
                    last = index_.unique("part_end");
  const Val rank = reg_i32("rank");
  out.push_back(
      lanes::decl(Ty::kI32, steps, lanes::floor_div(end - begin + (step - Val(1)), step)));
  const Val count = reg_i32(steps);
  out.push_back(lanes::decl(Ty::kI32, first, begin + lanes::floor_div(count * rank, ways) * step));
  out.push_back(lanes::decl(
      Ty::kI32, last, lanes::min(end, begin + lanes::floor_div(count * (rank + 1), ways) * step)));
  begin = reg_i32(first);
  end = reg_i32(last);
}

void FragmentLowering::combine_parts(Body& out) {
  const PlacedSplit& split = placed_.split;
  if (split.over_grid()) return fix_up(out);
  out.push_back(lanes::comment("partial sums go to their owners"));
  // A fresh barrier counts as one phase behind: the first tile's images wait for nothing.
  if (persistent())
    out.push_back(op(Ins::kBarWait, {group_barrier("sums_free"), flipped("sums_phase")}));
  for (ValueId result : split.results) send_images(result, out);
  Body own;
  const int bytes =
      static_cast<int>(split.results.size()) * split.ways * image_vectors() * 16 * 128;
  own.push_back(
      lanes::if_(leads_group(), {op(Ins::kBarExpect, {group_barrier("sums_full")}, 0, bytes)}));
  own.push_back(op(Ins::kBarWaitCluster, {group_barrier("sums_full"), reg_i32("sums_phase")}));
  for (ValueId result : split.results) add_images(result, own);
  if (persistent()) {
    own.push_back(op(Ins::kSyncWarp));
    own.push_back(lanes::if_(
        reg_i32("lane") < split.ways,
        {op(Ins::kBarArriveRemote, {group_barrier("sums_free"), u32(reg_i32("lane"))})}));
  }
  only_owner(std::move(own), out);
  if (persistent()) out.push_back(lanes::assign("sums_phase", flipped("sums_phase")));
  behind_split_ = true;
}

void FragmentLowering::only_owner(Body body, Body& out) {
  if (placed_.split.owners > 1) {
    for (lanes::Stmt& s : body) out.push_back(std::move(s));
    return;
  }
  const Val owns = placed_.split.over_grid() ? owns_sums() : lanes::equal(reg_i32("rank"), 0);
  out.push_back(lanes::if_(owns, std::move(body), {}, true));
}

// To each owner its columns, into the place of this CTA and thread.
void FragmentLowering::send_images(ValueId result, Body& out) {
  const PlacedSplit& split = placed_.split;
  const Node& node = program_.node(result);
  const Node& loop = program_.node(split.loop);
  const PlacedValue& sum = placed_.values.at(loop.block.yields[static_cast<size_t>(node.axis)]);
  const std::string images = "images_" + placed_.values.at(result).reg;
  const int threads = 128 * placed_.groups, wide = split.columns / 8;
  const Val thread = lanes::cast(Ty::kI32, lanes::special(lanes::Special::kTid)) - 128;
  const Val mb = reg_i32("block"), j = reg_i32("eight");
  for (int owner = 0; owner < split.owners; ++owner) {
    const std::string to = index_.unique("owner_images"), bar = index_.unique("owner_full");
    auto peer = [&](const std::string& name, const Val& address) {
      lanes::Instr map;
      map.ins = Ins::kMapa;
      map.results = {{name, {}, 1}};
      map.args = {address, owner};
      out.push_back(lanes::decl(Ty::kU32, name));
      out.push_back(lanes::instr(std::move(map)));
    };
    peer(to, lanes::shared(images) +
                 u32(reg_i32("rank") * (image_vectors() * threads * 16) + thread * 16));
    peer(bar, group_barrier("sums_full"));
    lanes::Instr send;
    send.ins = Ins::kStAsync;
    send.regs = {{sum.reg, (mb * (wide * split.owners) + (owner * wide + j)) * 4, 4}};
    send.args = {lanes::var(Ty::kU32, to) + u32((mb * wide + j) * (threads * 16)),
                 lanes::var(Ty::kU32, bar)};
    out.push_back(loop_over("block", placed_.row_blocks,
                            {loop_over("eight", wide, {lanes::instr(std::move(send))})}));
  }
}

void FragmentLowering::add_images(ValueId result, Body& out) {
  const PlacedSplit& split = placed_.split;
  const PlacedValue& whole = placed_.values.at(result);
  const Ty type = register_type(program_.node(result).dtype);
  const int threads = 128 * placed_.groups, wide = split.columns / 8;
  const Val thread = lanes::cast(Ty::kI32, lanes::special(lanes::Special::kTid)) - 128;
  const Val vector = reg_i32("block") * wide + reg_i32("eight"), q = reg_i32("quad");
  const std::string image = index_.unique("image");
  Body body = {lanes::decl_array(type, image, 4 * split.ways)};
  for (int rank = 0; rank < split.ways; ++rank) {
    lanes::Instr load;
    load.ins = Ins::kLdShared;
    load.bytes = 16;
    load.results = {{image, 4 * rank, 4}};
    load.args = {
        lanes::shared("images_" + whole.reg) +
        u32(vector * (threads * 16) + thread * 16 + rank * (image_vectors() * threads * 16))};
    body.push_back(lanes::instr(std::move(load)));
  }
  Val sum = lanes::elem(type, image, q);
  for (int rank = 1; rank < split.ways; ++rank) sum = sum + lanes::elem(type, image, q + 4 * rank);
  body.push_back(loop_over("quad", 4, {lanes::assign(whole.reg, vector * 4 + q, sum)}));
  out.push_back(
      loop_over("block", placed_.row_blocks, {loop_over("eight", wide, std::move(body))}));
}

// What owners still owe must land before this CTA's barriers go away.
void FragmentLowering::finish_split(Body& out) {
  if (!placed_.split.over_cluster() || !persistent()) return;
  out.push_back(op(Ins::kBarWait, {group_barrier("sums_free"), flipped("sums_phase")}));
}

// ---- whole tiles in turn
// -------------------------------------------------------------------------

bool FragmentLowering::in_turns() const { return placed_.plan.share == gpu::Share::kTurns; }

// Slots that a tile takes of a ring.
Val FragmentLowering::slots_of_tile(size_t ring, Body& out) {
  Val count = 0;
  for (const Event& event : placed_.copying) {
    const Node& loop = program_.node(event.id);
    int fills = 0;
    for (const Event& inner : event.body) fills += static_cast<size_t>(inner.ring) == ring;
    const Expr steps = max(Expr(0), ceil_div(loop.end - loop.begin, loop.step));
    count = count + number32(loop.name + "_steps", steps, out) * fills;
  }
  return count;
}

// The slots of `tiles` tiles that other groups consume.
void FragmentLowering::skip_tiles(const Val& tiles, const std::vector<Val>& slots, Body& out) {
  for (size_t r = 0; r < placed_.rings.size(); ++r) {
    const PlacedRing& ring = placed_.rings[r];
    const std::string next = ring.name + "_next", phase = ring.name + "_phase";
    const std::string at = index_.unique(ring.name + "_skipped");
    out.push_back(lanes::decl(Ty::kI32, at, reg_i32(next) + tiles * slots[r]));
    const Val turns = lanes::floor_div(reg_i32(at), ring.depth);
    out.push_back(lanes::assign(
        phase, lanes::fn(lanes::Fn::kXor, {reg_i32(phase), lanes::floor_mod(turns, 2)})));
    out.push_back(lanes::assign(next, reg_i32(at) - turns * ring.depth));
    out.push_back(lanes::assign(ring.name + "_free", reg_i32(next)));
  }
}

void FragmentLowering::walk_turns(const Val& first, const Val& count, const Val& stride,
                                  const std::string& tile, Body body, Body& out) {
  std::vector<Val> slots;
  for (size_t r = 0; r < placed_.rings.size(); ++r) slots.push_back(slots_of_tile(r, out));
  skip_tiles(reg_i32("group"), slots, out);
  skip_tiles(placed_.groups - 1, slots, body);
  out.push_back(lanes::for_(tile, first + reg_i32("group") * stride, count, stride * placed_.groups,
                            std::move(body)));
}

// ---- the token: one barrier a group, that the warps of the group before arrive at
//
// Every warp, since the token may come round again before a slow one has seen it pass.

void FragmentLowering::declare_turns() {
  if (placed_.plan.turns.empty()) return;
  out_.shared.push_back(
      {.name = "turn", .bytes = int64_t{8} * placed_.groups, .align = 8, .barriers = true});
}

void FragmentLowering::set_up_turns(Body& out) {
  if (placed_.plan.turns.empty()) return;
  for (int g = 0; g < placed_.groups; ++g)
    out.push_back(op(Ins::kBarInit, {lanes::shared("turn") + u32(Val(8 * g)), 4}));
}

// Group 0 has the token at first: its fresh barrier counts as one phase behind.
void FragmentLowering::declare_turn_phase(Body& out) {
  if (placed_.plan.turns.empty()) return;
  out.push_back(
      lanes::decl(Ty::kI32, "turn_phase", lanes::select(lanes::equal(reg_i32("group"), 0), 1, 0)));
}

void FragmentLowering::take_turn(Body& out) {
  out.push_back(op(Ins::kBarWait, {group_barrier("turn"), reg_i32("turn_phase")}));
  out.push_back(lanes::assign("turn_phase", flipped("turn_phase")));
}

void FragmentLowering::pass_turn(Body& out) {
  const Val next =
      lanes::select(lanes::equal(reg_i32("group"), placed_.groups - 1), 0, reg_i32("group") + 1);
  out.push_back(lanes::if_(lanes::equal(reg_i32("lane"), 0),
                           {op(Ins::kBarArrive, {lanes::shared("turn") + u32(next) * 8})}));
}

}  // namespace rooftile::codegen
