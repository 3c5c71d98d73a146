// SPDX-License-Identifier: Apache-2.0
// The fragment way of a whole program: each phase with a product is placed and lowered, the others
// go by strips; and what the kernels need of a call.
#include <algorithm>
#include <set>

#include "rooftile/codegen/gpu/fragment_lowering.h"
#include "rooftile/codegen/gpu/lower.h"
#include "rooftile/codegen/gpu/place.h"
#include "rooftile/codegen/gpu/size_limits.h"
#include "rooftile/codegen/gpu/strips.h"
#include "rooftile/codegen/gpu/swap_products.h"

namespace rooftile::codegen {

using ir::Node;
using ir::Op;

namespace {

bool has_product(const ir::Program& program, const ir::Block& block) {
  return std::any_of(block.nodes.begin(), block.nodes.end(), [&](ValueId id) {
    const Node& node = program.node(id);
    return node.op == Op::kMma || has_product(program, node.block);
  });
}

// Copies by threads, and stores by warps, need aligned data and rows.
void need_aligned(const std::string& name, GpuNeeds& needs) {
  if (std::find(needs.aligned.begin(), needs.aligned.end(), name) == needs.aligned.end())
    needs.aligned.push_back(name);
}

// A tensor map needs aligned data and rows, and no extent of 0. What the copy engine stores at the
// end of a row is whole 16-byte chunks: measured on an H200, a row of one bf16 took more than its
// two bytes.
void need_map(const ir::Program& program, const std::string& name, GpuNeeds& needs) {
  const ir::TensorParam& tensor = *program.tensor(name);
  need_aligned(name, needs);
  for (const Expr& extent : tensor.shape)
    if (!extent.is_const()) needs.conditions.push_back(extent >= Expr(1));
  if (tensor.role == ir::Role::kIn) return;
  const int64_t elements = 16 / size_bytes(tensor.dtype);
  const Expr& row = tensor.shape.back();
  if (!row.is_const() || row.value() % elements != 0)
    needs.conditions.push_back(row % Expr(elements) == Expr(0));
}

// A step for every part: sums start with a product. Parts, or steps, of all tiles are numbered.
void need_whole_parts(const ir::Program& program, const PlacedSplit& split, const Expr& work,
                      GpuNeeds& needs) {
  if (!split.over_grid()) return;
  add_condition(work <= Expr(kLargestGrid), &needs);
  const Node& loop = program.node(split.loop);
  const Expr steps = ceil_div(loop.end - loop.begin, loop.step);
  if (!steps.is_const() || steps.value() < std::max(split.ways, 1))
    needs.conditions.push_back(steps >= Expr(std::max(split.ways, 1)));
}

}  // namespace

Result<std::vector<GpuVariant>> lower_fragments(const ir::Program& program, const std::string& name,
                                                const Schedule& schedule, std::string& scheduled) {
  GpuVariant variant;
  std::set<std::string> mapped;
  int count = 0;
  for (ValueId id : program.body.nodes) {
    const Node& phase_node = program.node(id);
    if (phase_node.op != Op::kTiles) continue;
    const std::string phase = name + (count == 0 ? "" : "_" + std::to_string(count));
    ++count;
    // Phases without a product (plans, joins of splits) are small; strips run them.
    if (!has_product(program, phase_node.block)) {
      Strips strips(program, phase_node, schedule.gpu, false);
      Result<lanes::Program> lanes = strips.lower(phase);
      if (!lanes.ok()) return lanes.diag();
      scheduled += strips.listing();
      for (const Expr& condition : strips.needs().conditions)
        add_condition(condition, &variant.needs);
      add_size_conditions(program, phase_node, &variant.needs);
      variant.phases.push_back(std::move(*lanes));
      variant.placed.push_back(nullptr);
      continue;
    }
    Result<ir::Program> turned = swaps_products(program, schedule.gpu, id)
                                     ? swap_products(program, schedule.gpu, id)
                                     : Result<ir::Program>(program);
    if (!turned.ok()) return turned.diag();
    Result<Placed> placed = place(*turned, schedule.gpu, id);
    if (!placed.ok()) return placed.diag();
    scheduled += placed->str(*turned);
    FragmentLowering lowering(*turned, *placed, phase);
    Result<lanes::Program> lanes = lowering.run();
    if (!lanes.ok()) return lanes.diag();
    need_whole_parts(*turned, placed->split, lowering.work_count(), variant.needs);
    for (const PlacedRing& ring : placed->rings)
      for (const std::vector<PlacedCopy>& copies : ring.alternatives)
        for (const PlacedCopy& copy : copies)
          if (copy.by_threads()) need_aligned(turned->node(copy.load).name, variant.needs);
    for (const ir::TensorParam& tensor : program.tensors)
      if (stores_by_warps(schedule.gpu, tensor.name)) need_aligned(tensor.name, variant.needs);
    for (const lanes::TensorMapUse& map : lanes->maps)
      if (mapped.insert(map.tensor).second) need_map(program, map.tensor, variant.needs);
    add_size_conditions(*turned, turned->node(id), &variant.needs);
    variant.phases.push_back(std::move(*lanes));
    variant.placed.push_back(
        std::make_shared<const PlacedPhase>(PlacedPhase{std::move(*turned), std::move(*placed)}));
  }
  variant.needs.align_bytes = 16;
  return std::vector<GpuVariant>{std::move(variant)};
}

}  // namespace rooftile::codegen
