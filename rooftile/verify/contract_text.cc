// SPDX-License-Identifier: Apache-2.0
#include "rooftile/verify/contract_text.h"

#include <sstream>

namespace rooftile::verify {

using nlohmann::ordered_json;

namespace {

// The head of the printed program, up to its first operation: tensors, scalars, clauses, a line
// each.
std::vector<std::string> head_lines(const ir::Program& program) {
  ir::Program head = program;
  head.nodes.clear();
  head.body = {};
  std::vector<std::string> out;
  std::istringstream in(ir::print(head));
  for (std::string line; std::getline(in, line);)
    if (!line.empty()) out.push_back(line);
  return out;
}

ordered_json needs_json(const codegen::GpuNeeds& needs) {
  std::vector<std::string> conditions;
  for (const Expr& condition : needs.conditions) conditions.push_back(condition.str());
  ordered_json ranges = ordered_json::array();
  for (const AttrRange& range : needs.ranges)
    ranges.push_back({{"attribute", range.attr}, {"least", range.least}, {"most", range.most}});
  return {{"align_bytes", needs.align_bytes},
          {"aligned", needs.aligned},
          {"conditions", conditions},
          {"ranges", ranges}};
}

}  // namespace

ordered_json contract_json(const KernelSource& source) {
  ordered_json variants = ordered_json::array();
  for (const codegen::GpuVariant& variant : source.variants)
    variants.push_back(needs_json(variant.needs));
  return {{"program", head_lines(source.program)}, {"variants", variants}};
}

}  // namespace rooftile::verify
