// SPDX-License-Identifier: Apache-2.0
// A loop split over the grid: which steps of which tiles a CTA takes, and how partial sums meet.
//
// A part is a run of the steps of one tile. CTAs (clusters, where the schedule has them; both roles
// alike) know their parts by arithmetic. The CTA with the first steps of a tile owns its sums; the
// others leave theirs in a workspace as register images, in a slot that nobody else writes:
//   others   store the image; meet (the group); one thread adds 1 to the owner's ticket, release
//   owner    one thread waits until all have, acquire, and clears the ticket; meet; the images are
//            added to its own sums in the order of the parts
// So results do not depend on timing, and tickets are zero again when the kernel ends. An owner
// waits for CTAs of lower numbers only, in the same round of the grid where there are several, and
// a CTA publishes what others wait for before it waits itself: no wait is in vain. The proofs know
// this arithmetic and no other (verify/lanes/hand_out.h, docs/decisions/0004-proofs.md, "Parts").
#include "rooftile/codegen/gpu/element_ops.h"
#include "rooftile/codegen/gpu/fragment_lowering.h"
#include "rooftile/codegen/gpu/place.h"

namespace rooftile::codegen {

using ir::Node;
using lanes::Ins;
using lanes::Ty;
using lanes::Val;

namespace {

constexpr const char* kTickets = "tickets";
// Parts of a tile, and vectors of a thread's sums: where there are more, a loop adds them.
constexpr int kUnrolledParts = 8, kUnrolledVectors = 16;

Val leads_group() {
  return lanes::equal(lanes::floor_mod(reg_i32("warp"), 4), 0) && lanes::equal(reg_i32("lane"), 0);
}

std::string workspace_of(const PlacedValue& sum) { return "parts_" + sum.reg; }

}  // namespace

// Of each tile: the same number everywhere, which place_work.cc has seen to.
Expr FragmentLowering::split_steps() const {
  const Node& loop = program_.node(placed_.split.loop);
  return ceil_div(loop.end - loop.begin, loop.step);
}

// What can be handed to a CTA (cluster): tiles, parts of them, or single steps.
Expr FragmentLowering::work_count() const {
  const PlacedSplit& split = placed_.split;
  if (!split.over_grid()) return tile_count();
  return tile_count() * (split.ways > 0 ? Expr(split.ways) : split_steps());
}

// A slot a part, or a CTA where each leaves at most one part to others.
void FragmentLowering::declare_fix_up() {
  const PlacedSplit& split = placed_.split;
  if (!split.over_grid()) return;
  const Expr slots = split.ways > 0 ? work_count() * cluster_size() : out_.grid_x;
  auto declare = [&](const std::string& name, DType dtype, const Expr& row, int align) {
    out_.tensors.push_back({.name = name,
                            .dtype = dtype,
                            .shape = {slots, row},
                            .written = true,
                            .read = true,
                            .workspace = true,
                            .zeroed = name == kTickets,
                            .align_bytes = align});
    out_.scalars.push_back({name + ".s0", Ty::kI64});
  };
  for (ValueId result : split.results) {
    const Ty type = register_type(program_.node(result).dtype);
    declare(workspace_of(placed_.values.at(result)), type == Ty::kI32 ? DType::kI32 : DType::kF32,
            Expr(int64_t{image_vectors()} * 4 * 128 * placed_.groups), 16);
  }
  declare(kTickets, DType::kI32, placed_.groups, 4);
}

// ---- the walk
// ------------------------------------------------------------------------------------

void FragmentLowering::walk_parts(const std::string& tile, const std::vector<Event>& list,
                                  Body& out) {
  if (placed_.split.ways > 0) return walk_equal_parts(tile, list, out);
  walk_stream(tile, list, out);
}

// Part by part; the first part of a tile comes last, since its CTA waits for the others.
void FragmentLowering::walk_equal_parts(const std::string& tile, const std::vector<Event>& list,
                                        Body& out) {
  const int ways = placed_.split.ways, size = cluster_size();
  const Val cta = lanes::cast(Ty::kI32, lanes::special(lanes::Special::kCtaX));
  const Val grid = lanes::cast(Ty::kI32, lanes::special(lanes::Special::kGridX));
  const Val count = number32("parts", work_count(), out);
  const Val steps = number32("steps", split_steps(), out);
  const Val slot = reg_i32("slot_of_sums"), part = reg_i32("part");
  Body body;
  body.push_back(lanes::decl(Ty::kI32, tile, lanes::floor_div(slot, ways)));
  body.push_back(lanes::decl(Ty::kI32, "part", Val(ways - 1) - lanes::floor_mod(slot, ways)));
  body.push_back(lanes::decl(Ty::kI32, "part_first", lanes::floor_div(steps * part, ways)));
  body.push_back(lanes::decl(Ty::kI32, "part_last", lanes::floor_div(steps * (part + 1), ways)));
  if (!copying_) {
    body.push_back(lanes::decl(Ty::kI32, "owner", slot + part));
    body.push_back(lanes::decl(Ty::kI32, "others", ways - 1));
  }
  bind_tile(reg_i32(tile), body);
  events(list, body);
  out.push_back(lanes::for_("slot_of_sums", lanes::floor_div(cta, size), count,
                            lanes::floor_div(grid, size), std::move(body)));
}

// Whole tiles first, by stride. The steps of the rest are numbered through, and each CTA takes a
// run of them: the end of a tile, perhaps whole ones, the beginning of another. CTAs take runs in
// the reverse of their numbers, so that who owns a tile comes after those that it waits for.
void FragmentLowering::walk_stream(const std::string& tile, const std::vector<Event>& list,
                                   Body& out) {
  const int size = cluster_size();
  const Val cta = lanes::cast(Ty::kI32, lanes::special(lanes::Special::kCtaX));
  const Val grid = lanes::cast(Ty::kI32, lanes::special(lanes::Special::kGridX));
  auto define = [](Body& to, const std::string& name, const Val& value) {
    to.push_back(lanes::decl(Ty::kI32, name, value));
    return reg_i32(name);
  };
  auto fresh = [&](Body& to, const std::string& hint, const Val& value) {
    return define(to, index_.unique(hint), value);
  };
  const Val tiles = number32("tiles", tile_count(), out);
  const Val steps = number32("steps", split_steps(), out);
  const Val workers = define(out, "workers", lanes::floor_div(grid, size));
  const Val slot = define(out, "slot_of_sums", lanes::floor_div(cta, size));
  const Val worker = define(out, "worker", workers - slot - 1);
  const Val waves = fresh(out, "waves", lanes::floor_div(tiles, workers));
  const Val streamed_waves = Val(placed_.split.stream_waves - 1);
  const Val whole = fresh(out, "whole",
                          lanes::select(lanes::equal(tiles, waves * workers), waves,
                                        lanes::max(waves - streamed_waves, 0)));
  // Runs of `run` steps, the first `longer` of them one step longer.
  const Val shared = fresh(out, "shared_steps", (tiles - whole * workers) * steps);
  const Val run = fresh(out, "run", lanes::floor_div(shared, workers));
  const Val longer = fresh(out, "longer", shared - run * workers);
  const Val begin = fresh(out, "run_begin", worker * run + lanes::min(worker, longer));
  const Val end = fresh(out, "run_end", begin + run + lanes::select(worker < longer, 1, 0));
  const Val first = fresh(out, "run_tile", lanes::floor_div(begin, steps));
  const Val pieces = fresh(
      out, "pieces", lanes::select(begin < end, lanes::floor_div(end - 1, steps) - first + 1, 0));
  const Val last_long = fresh(out, "long_steps", longer * (run + 1));
  auto worker_of = [&](const Val& at) {
    return lanes::select(at < last_long, lanes::floor_div(at, run + 1),
                         longer + lanes::floor_div(at - last_long, lanes::max(run, 1)));
  };

  Body body;
  const std::string item = index_.unique("item");
  const Val is_whole = reg_i32(item) < whole;
  const Val shared_tile = fresh(body, "shared_tile", first + reg_i32(item) - whole);
  const Val at = fresh(body, "at_step", shared_tile * steps);
  define(body, tile,
         lanes::select(is_whole, worker + reg_i32(item) * workers, whole * workers + shared_tile));
  define(body, "part_first", lanes::select(is_whole, 0, lanes::max(begin - at, 0)));
  define(body, "part_last", lanes::select(is_whole, steps, lanes::min(end - at, steps)));
  if (!copying_) {
    define(body, "owner", slot);
    define(body, "others", 0);
    Body of_run;
    const Val owner = fresh(of_run, "owner_worker", worker_of(at));
    of_run.push_back(lanes::assign("owner", workers - owner - 1));
    of_run.push_back(lanes::assign("others", worker_of(at + steps - 1) - owner));
    body.push_back(lanes::if_(whole <= reg_i32(item), std::move(of_run), {}, true));
  }
  bind_tile(reg_i32(tile), body);
  events(list, body);
  out.push_back(lanes::for_(item, 0, whole + pieces, 1, std::move(body)));
}

void FragmentLowering::take_steps(const Val& step, Val& begin, Val& end, Body& out) {
  const std::string first = index_.unique("part_begin"), last = index_.unique("part_end");
  out.push_back(lanes::decl(Ty::kI32, first, begin + reg_i32("part_first") * step));
  out.push_back(lanes::decl(Ty::kI32, last, lanes::min(end, begin + reg_i32("part_last") * step)));
  begin = reg_i32(first);
  end = reg_i32(last);
}

// ---- the fix-up
// ------------------------------------------------------------------------------------

Val FragmentLowering::owns_sums() const {
  return lanes::equal(reg_i32("slot_of_sums"), reg_i32("owner"));
}

// Row of a workspace: CTAs of a cluster have one each.
Val FragmentLowering::sums_row(const Val& slot) const {
  const int size = cluster_size();
  return size > 1 ? slot * size + reg_i32("rank") : slot;
}

void FragmentLowering::fix_up(Body& out) {
  out.push_back(lanes::comment("the sums of a tile meet at their owner"));
  Body publish, gather;
  publish_sums(publish);
  gather_sums(gather);
  gather = {lanes::if_(0 < reg_i32("others"), std::move(gather), {}, true)};
  out.push_back(lanes::if_(!owns_sums(), std::move(publish), std::move(gather), true));
}

// A thread's registers, 16 bytes at a time: one vector of all threads beside the other, so that a
// warp moves 512 bytes in a row. In 64 bits, the number of the vector becomes a part of the
// instruction.
lanes::Stmt FragmentLowering::move_sums(ValueId result, const Val& slot, bool load) {
  const PlacedValue& sum = placed_.values.at(result);
  const int threads = 128 * placed_.groups;
  const Val thread = lanes::cast(Ty::kI32, lanes::special(lanes::Special::kTid)) - 128;
  const Val vector = reg_i32("eight"), q = reg_i32("quad");
  const Val at = lanes::cast(Ty::kI64, thread * 4) + lanes::cast(Ty::kI64, vector * (4 * threads));
  const Ty type = register_type(program_.node(result).dtype);
  lanes::Instr move;
  move.ins = load ? Ins::kLdGlobal : Ins::kStGlobal;
  move.dtype = type == Ty::kI32 ? DType::kI32 : DType::kF32;
  move.global = {workspace_of(sum), {sums_row(slot), at}, 4};
  if (!load) {
    move.regs = {{sum.reg, vector * 4, 4}};
    return loop_over("eight", image_vectors(), {lanes::instr(std::move(move))});
  }
  const std::string image = index_.unique("image");
  move.results = {{image, 0, 4}};
  move.cache = lanes::Cache::kNoL1;
  const Val added = lanes::elem(type, sum.reg, vector * 4 + q) + lanes::elem(type, image, q);
  return loop_over("eight", image_vectors(),
                   {lanes::decl_array(type, image, 4), lanes::instr(std::move(move)),
                    loop_over("quad", 4, {lanes::assign(sum.reg, vector * 4 + q, added)})});
}

void FragmentLowering::publish_sums(Body& out) {
  for (ValueId result : placed_.split.results)
    out.push_back(move_sums(result, reg_i32("slot_of_sums"), false));
  out.push_back(op(Ins::kNamedSync, {reg_i32("group") + 1}, 128));
  const std::string one = index_.unique("arrival");
  lanes::Instr arrive;
  arrive.ins = Ins::kRedGlobalRelease;
  arrive.dtype = DType::kI32;
  arrive.op = lanes::Fn::kAdd;
  arrive.global = {kTickets, {sums_row(reg_i32("owner")), reg_i32("group")}, 1};
  arrive.regs = {{one, {}, 1}};
  out.push_back(
      lanes::if_(leads_group(), {lanes::decl(Ty::kI32, one, 1), lanes::instr(std::move(arrive))}));
}

void FragmentLowering::gather_sums(Body& out) {
  const lanes::GlobalRef ticket = {kTickets, {sums_row(reg_i32("owner")), reg_i32("group")}, 1};
  lanes::Instr wait;
  wait.ins = Ins::kWaitGlobal;
  wait.dtype = DType::kI32;
  wait.global = ticket;
  wait.args = {reg_i32("others")};
  lanes::Instr clear;
  clear.ins = Ins::kStGlobal;
  clear.dtype = DType::kI32;
  clear.global = ticket;
  const std::string none = index_.unique("none");
  clear.regs = {{none, {}, 1}};
  out.push_back(
      lanes::if_(leads_group(), {lanes::instr(std::move(wait)), lanes::decl(Ty::kI32, none, 0),
                                 lanes::instr(std::move(clear))}));
  out.push_back(op(Ins::kNamedSync, {reg_i32("group") + 1}, 128));
  const std::string other = index_.unique("other");
  Body add;
  for (ValueId result : placed_.split.results)
    add.push_back(move_sums(result, reg_i32("owner") - reg_i32(other), true));
  // Unrolled, the images of several parts are on their way at once, where there are registers.
  const int ways = placed_.split.ways;
  const auto sums = static_cast<int>(placed_.split.results.size());
  if (ways > 0 && ways <= kUnrolledParts && image_vectors() * sums <= kUnrolledVectors)
    out.push_back(lanes::for_(other, 1, ways, 1, std::move(add), lanes::Unroll::kYes));
  else
    out.push_back(lanes::for_(other, 1, reg_i32("others") + 1, 1, std::move(add)));
}

}  // namespace rooftile::codegen
