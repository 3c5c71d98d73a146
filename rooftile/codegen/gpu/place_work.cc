// SPDX-License-Identifier: Apache-2.0
// How the work of a tile is divided: loops split over the CTAs of a cluster or of the grid, groups
// that take turns.
#include <algorithm>
#include <optional>

#include "rooftile/codegen/gpu/placer.h"

namespace rooftile::codegen {

using ir::Node;
using ir::Op;

namespace {

constexpr int kMostCtas = 8;    // of a cluster that every device takes
constexpr int kMostParts = 64;  // of a tile: beyond, adding them up is all that its owner does

bool has(const ir::Program& program, const ir::Block& block, Op op, ValueId except) {
  return std::any_of(block.nodes.begin(), block.nodes.end(), [&](ValueId id) {
    const Node& node = program.node(id);
    return id != except && (node.op == op || has(program, node.block, op, except));
  });
}

}  // namespace

Status Placer::place_split(const gpu::LoopSplit& split) {
  const ir::Block& body = program_.node(placed_.phase).block;
  const auto found = std::find_if(body.nodes.begin(), body.nodes.end(), [&](ValueId id) {
    return program_.node(id).op == Op::kLoop && program_.node(id).name == split.loop;
  });
  const Node& phase = program_.node(placed_.phase);
  if (found == body.nodes.end())
    return refuse(phase, "a split loop stands in the phase itself", split.loop,
                  "a loop that no other region surrounds");
  const Node& loop = program_.node(*found);
  if (placed_.split.loop >= 0)
    return refuse(loop, "a phase splits one loop", split.loop,
                  program_.node(placed_.split.loop).name);
  RT_RETURN_IF_ERROR(check_split_ways(loop, split));
  if (plan_.share == gpu::Share::kTurns)
    return refuse(loop, "groups that take turns do not split loops", "share(turns)", "share(rows)");
  RT_RETURN_IF_ERROR(check_split_loop(loop));
  if (split.across == gpu::Across::kGrid) RT_RETURN_IF_ERROR(check_grid_split(loop));
  int columns = 0;
  for (ValueId init : loop.operands) {
    const int wide = static_cast<int>(static_bound(program_.node(init).shape[1]).value_or(0));
    if (columns != 0 && wide != columns)
      return refuse(loop, "sums of a split loop have one number of columns", std::to_string(wide),
                    std::to_string(columns));
    columns = wide;
  }
  placed_.split.loop = loop.id;
  placed_.split.across = split.across;
  placed_.split.ways = split.ways;
  placed_.split.stream_waves = split.stream_waves;
  placed_.split.owners = owners(loop, split, columns);
  placed_.split.columns = columns / placed_.split.owners;
  for (ValueId id : body.nodes)
    if (program_.node(id).op == Op::kResult && program_.node(id).operands[0] == loop.id)
      placed_.split.results.push_back(id);
  return {};
}

Status Placer::check_split_ways(const Node& loop, const gpu::LoopSplit& split) const {
  const bool grid = split.across == gpu::Across::kGrid;
  const bool stream = grid && split.ways == 0;
  const int most = grid ? kMostParts : kMostCtas;
  if (!stream && (split.ways < 2 || split.ways > most))
    return refuse(loop,
                  grid ? "a loop is split into parts that CTAs of the grid take"
                       : "a loop is split over the CTAs of a cluster",
                  std::to_string(split.ways), "2 to " + std::to_string(most));
  if (stream && split.stream_waves < 1)
    return refuse(loop, "stream-K divides the last waves of tiles", "0 waves", "1 or more");
  if (!grid && !plan_.cluster.empty())
    return refuse(loop, "the CTAs of a cluster share a loop or run neighbouring tiles, not both",
                  "cluster along " + plan_.cluster[0].axis, "no cluster axis");
  return {};
}

// An owner waits for the parts of others, so all CTAs must run at once; and a CTA computes from its
// number which steps of which tiles are its own.
Status Placer::check_grid_split(const Node& loop) const {
  if (plan_.grid != gpu::Grid::kPersistent)
    return refuse(loop, "CTAs of the grid wait for each other's parts: all must run at once",
                  "one tile a CTA", "Grid::kPersistent");
  if (varies_with_tile(loop))
    return refuse(loop, "a loop split over the grid has one number of steps in every tile",
                  loop.name, "a loop whose bounds are the same in every tile");
  for (ValueId id : program_.node(placed_.phase).block.nodes) {
    if (id == loop.id) break;
    if (program_.node(id).op == Op::kStore || !program_.node(id).block.nodes.empty())
      return refuse(program_.node(id),
                    "what stands before a loop split over the grid would be "
                    "done once a part",
                    "", "stores and regions behind it");
  }
  return {};
}

bool Placer::varies_with_tile(const Node& loop) const {
  const Node& phase = program_.node(placed_.phase);
  std::set<std::string> symbols;
  for (const Expr* e : {&loop.begin, &loop.end, &loop.step}) collect_symbols(*e, symbols);
  return std::any_of(phase.vars.begin(), phase.vars.end(),
                     [&](const std::string& var) { return symbols.count(var) != 0; });
}

// Parts of a sum that starts from zero add up to the sum; nothing else may happen on the way.
Status Placer::check_split_loop(const Node& loop) const {
  for (size_t i = 0; i < loop.operands.size(); ++i)
    if (!starts_from_zero_product(program_, loop, i))
      return refuse(loop, "a split loop carries sums of products that start from zero",
                    "carried value " + std::to_string(i), "mma(a, b, sum), sum from zeros");
  for (ValueId id : loop.block.nodes) {
    const Node& node = program_.node(id);
    if (node.op == Op::kStore || !node.block.nodes.empty())
      return refuse(node, "a split loop holds no stores and no regions");
  }
  for (const PlacedRing& ring : placed_.rings)
    for (const std::vector<PlacedCopy>& copies : ring.alternatives)
      for (const PlacedCopy& copy : copies)
        if (block_of_.at(copy.load) != loop.id)
          return refuse(program_.node(copy.load),
                        "beside a split loop nothing is copied into rings", copy.label,
                        "loads of loop " + loop.name + " only");
  if (has(program_, program_.node(placed_.phase).block, Op::kMma, loop.id))
    return refuse(loop, "beside a split loop there are no products");
  return {};
}

// As many CTAs as there are finish the tile, each some columns of it, where the columns divide into
// whole registers (and chunks of staged stores) and nothing behind the loop looks along a row.
int Placer::owners(const Node& loop, const gpu::LoopSplit& split, int columns) const {
  const ir::Block& body = program_.node(placed_.phase).block;
  if (split.across == gpu::Across::kGrid) return 1;
  if (columns % (8 * split.ways) != 0 || has(program_, body, Op::kReduce, loop.id)) return 1;
  for (const auto& [label, copy] : plan_.copy)
    if (copy.staging_columns != 0 && columns / split.ways % copy.staging_columns != 0) return 1;
  return split.ways;
}

// What follows the sums happens where they are.
void Placer::keep_to_owner(std::vector<Event>& events) const {
  if (placed_.split.loop < 0 || placed_.split.owners > 1) return;
  const auto combine = std::find_if(events.begin(), events.end(),
                                    [](const Event& e) { return e.kind == Event::kCombine; });
  Event owner{.kind = Event::kOwner};
  owner.body.assign(std::make_move_iterator(combine + 1), std::make_move_iterator(events.end()));
  events.erase(combine + 1, events.end());
  events.push_back(std::move(owner));
}

const gpu::Turns* Placer::turns_of(const Node& loop) const {
  for (const gpu::Turns& turns : plan_.turns)
    if (turns.loop == loop.name) return &turns;
  return nullptr;
}

// A group skips the slots of the tiles that are not its own, so it must know how many there are.
// And it may not look at a slot before those of the tile before are taken: the phase of a barrier
// is known by its parity alone, and the ring may go round several times in a tile.
Status Placer::check_turns() const {
  const Node& phase = program_.node(placed_.phase);
  if (plan_.turns.size() > 1)
    return refuse(phase, "there is one token", std::to_string(plan_.turns.size()) + " loops",
                  "turns of one loop");
  const bool in_turns = plan_.share == gpu::Share::kTurns;
  if ((in_turns || !plan_.turns.empty()) && placed_.groups < 2)
    return refuse(phase, "turns want at least two computing groups", "1", "2 or more");
  if (!in_turns) return {};
  if (plan_.grid != gpu::Grid::kPersistent)
    return refuse(phase, "groups take whole tiles in turn on a persistent grid", "one tile a CTA",
                  "Grid::kPersistent");
  if (plan_.turns.empty() || plan_.turns[0].each_step)
    return refuse(phase, "groups that take whole tiles in turn pass a token behind each",
                  plan_.turns.empty() ? "no turns" : "turns of each step",
                  "turns of the loop with the products");
  for (const Event& event : placed_.copying) {
    const Node& node = program_.node(event.id);
    if (event.kind != Event::kLoop || node.name != plan_.turns[0].loop)
      return refuse(node, "groups that take turns copy in the loop that they take turns in",
                    node.label + node.name, plan_.turns[0].loop);
    const bool inner = std::any_of(event.body.begin(), event.body.end(),
                                   [](const Event& e) { return e.kind != Event::kFill; });
    if (inner || varies_with_tile(node))
      return refuse(node, "groups that take turns want tiles of one number of steps", node.name,
                    "a loop whose bounds are the same in every tile");
  }
  for (const PlacedRing& ring : placed_.rings)
    for (const std::vector<PlacedCopy>& copies : ring.alternatives)
      for (const PlacedCopy& copy : copies)
        if (copy.clear_rows)
          return refuse(program_.node(copy.load),
                        "short rows are cleared by all groups together, not in turns", copy.label,
                        "rows of the contraction that end where the tensor ends");
  return {};
}

}  // namespace rooftile::codegen
