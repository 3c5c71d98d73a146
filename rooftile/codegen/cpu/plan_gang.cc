// SPDX-License-Identifier: Apache-2.0
// Plan, third part: gangs. A gang turns the order of two loops around,
//   for instance { before; for j { body }; after }
// into
//   for instance { before }; for j { for instance { body } }; for instance { after }
// Instances of a parallel dimension do not depend on one another, so this is right whenever the
// loop runs over the same values for all of them and nothing but buffers crosses the three parts.
#include <algorithm>

#include "rooftile/codegen/cpu/plan.h"

namespace rooftile::codegen {

using ir::Node;
using ir::Op;

namespace {

bool mentions(const Expr& e, const std::string& var) { return symbols_of(e).count(var) > 0; }

Diag gang_error(const ir::Program& program, ErrorCode code, const std::string& var,
                std::string message, std::string found, std::string expected) {
  Diag diag;
  diag.code = code;
  diag.subject = program.name;
  diag.message = std::move(message);
  diag.argument = "gang(" + var + ")";
  diag.found = std::move(found);
  diag.expected = std::move(expected);
  diag.fix = "take the gang out of the schedule, or gang another dimension";
  return diag;
}

}  // namespace

const Gang* Plan::gang(ValueId phase) const {
  auto it = gangs_.find(phase);
  return it == gangs_.end() ? nullptr : &it->second;
}

Status Plan::plan_gang(const std::string& var, int64_t width) {
  if (width < 1)
    return gang_error(*program_, ErrorCode::kPlacement, var, "a gang has no members",
                      std::to_string(width), "1 or more");
  bool found = false;
  for (ValueId id : program_->body.nodes) {
    const Node& phase = program_->node(id);
    if (std::find(phase.vars.begin(), phase.vars.end(), var) == phase.vars.end()) continue;
    found = true;
    if (gangs_.count(id))
      return gang_error(*program_, ErrorCode::kPlacement, var,
                        "two dimensions of one parallel space are ganged",
                        "also gang(" + gangs_.at(id).var + ")", "one");
    Gang gang{var, width, -1};
    for (ValueId inner : phase.block.nodes) {
      if (program_->node(inner).op != Op::kLoop) continue;
      if (gang.loop >= 0)
        return gang_error(
            *program_, ErrorCode::kPlacement, var,
            "a gang's instances have several loops one after the other",
            "`" + program_->node(gang.loop).name + "` and `" + program_->node(inner).name + "`",
            "one loop");
      gang.loop = inner;
    }
    if (gang.loop < 0)
      return gang_error(*program_, ErrorCode::kPlacement, var,
                        "a gang's instances have no serial loop to run in step", "none",
                        "one loop directly in the parallel space");
    RT_RETURN_IF_ERROR(check_gang(phase, gang));
    gangs_[id] = gang;
  }
  if (found) return {};
  return gang_error(
      *program_, ErrorCode::kSchedule, var,
      "the schedule `" + schedule_.name + "` gangs a dimension that the program does not have",
      "`" + var + "`", "a name in tiles()");
}

Status Plan::check_gang(const Node& phase, const Gang& gang) const {
  const Node& loop = program_->node(gang.loop);
  for (const Expr& bound : {loop.begin, loop.end, loop.step})
    if (mentions(bound, gang.var))
      return gang_error(*program_, ErrorCode::kPlacement, gang.var,
                        "the loop of a gang must run over the same values for every member",
                        "`" + loop.name + "` depends on " + bound.str(),
                        "bounds without `" + gang.var + "`");
  for (int buffer : loops_.at(gang.loop).buffers)
    if (buffer < 0)
      return gang_error(*program_, ErrorCode::kPlacement, gang.var,
                        "the loop of a gang carries a scalar", "`" + loop.name + "`",
                        "carried tiles of more than one element");
  // A scalar is written out anew in each part; the result of a reduction cannot be, nor what was
  // read before it was overwritten.
  enum Part : uint8_t { kBefore, kDuring, kAfter, kElsewhere };
  auto part_of = [&](ValueId id) {
    while (id >= 0 && region_[static_cast<size_t>(id)] != phase.id)
      id = region_[static_cast<size_t>(id)];
    if (id < 0) return kElsewhere;
    return id == gang.loop ? kDuring : id < gang.loop ? kBefore : kAfter;
  };
  for (ValueId id : phase.block.nodes) {
    const Node& node = program_->node(id);
    const bool taken = node.op == Op::kReduce ||
                       (node.op == Op::kLoad && is_scalar(id) && eager_tensors_.count(node.name));
    if (!taken || buffer_of(id) >= 0) continue;
    for (const Node& user : program_->nodes)
      if (part_of(user.id) != kElsewhere && part_of(user.id) != part_of(id) && reads(user.id, id))
        return gang_error(*program_, ErrorCode::kPlacement, gang.var,
                          "a number taken before the loop of a gang is needed after it began",
                          "`" + node.label + "`, value " + std::to_string(id),
                          "only buffers cross the loop: keep it as a row of a tile");
  }
  return {};
}

// Steps move ahead of the members only if they change nothing and read no scratch but that of other
// such steps (`done`).
GangBody Plan::gang_body(const Gang& gang) const {
  const Node& loop = program_->node(gang.loop);
  GangBody body;
  std::set<ValueId> done;
  for (const Step& step : steps(loop.block, loop.id)) {
    std::set<ValueId> with = done;
    bool common = step.kind == Step::kGroup;
    for (const Item& item : step.group.items) {
      common = common && item.kind != ItemKind::kStore && item.commit < 0 &&
               is_common(item.id, gang.var, with);
      with.insert(item.id);
    }
    if (common) done = std::move(with);
    (common ? body.common : body.own).push_back(step);
  }
  return body;
}

bool Plan::is_common(ValueId id, const std::string& var, const std::set<ValueId>& done) const {
  const Node& node = program_->node(id);
  const bool pure = node.op == Op::kFill || node.op == Op::kScalar || node.op == Op::kFromIndex ||
                    node.op == Op::kIota || node.op == Op::kElementwise || node.op == Op::kSelect ||
                    node.op == Op::kCast ||
                    (node.op == Op::kLoad && !eager_tensors_.count(node.name));
  if (!pure || mentions(node.expr, var)) return false;
  for (const ir::DimIndex& dim : node.region)
    if (mentions(dim.begin, var) || mentions(dim.extent, var)) return false;
  for (const Expr& extent : node.shape)
    if (mentions(extent, var)) return false;
  std::vector<ValueId> inputs;
  inputs_of(id, &inputs);
  return std::all_of(inputs.begin(), inputs.end(), [&](ValueId input) {
    return buffer_of(input) >= 0 ? done.count(input) > 0 : is_common(input, var, done);
  });
}

}  // namespace rooftile::codegen
