// SPDX-License-Identifier: Apache-2.0
// Copies and rings: what the schedule sends through shared memory, and whether the copy engine can.
#include <algorithm>
#include <optional>
#include <set>

#include "rooftile/codegen/gpu/placer.h"

namespace rooftile::codegen {

using ir::Node;
using ir::Op;

Status Placer::place_ring(const gpu::Ring& ring) {
  PlacedRing placed;
  placed.depth = ring.depth;
  std::map<ValueId, std::vector<PlacedCopy>> by_block;
  for (const std::string& entry : ring.copies) {
    size_t begin = 0;
    while (begin <= entry.size()) {
      const size_t end = std::min(entry.find('|', begin), entry.size());
      const std::string label = entry.substr(begin, end - begin);
      begin = end + 1;
      if (labels_.count(label) == 0) return unknown("load", label);
      Result<PlacedCopy> copy = place_copy(program_.node(labels_.at(label)));
      if (!copy.ok()) return copy.diag();
      if (placed.name.empty()) placed.name = label.substr(0, label.find('_'));
      by_block[block_of_.at(copy->load)].push_back(*copy);
    }
  }
  for (auto& [block, copies] : by_block) placed.alternatives.push_back(std::move(copies));
  for (const std::vector<PlacedCopy>& copies : placed.alternatives) {
    int bytes = 0;
    for (const PlacedCopy& copy : copies) bytes += copy.bytes();
    if (placed.slot_bytes != 0 && placed.slot_bytes != bytes)
      return refuse(program_.node(copies[0].load), "alternatives of a ring differ in size",
                    std::to_string(bytes) + " bytes", std::to_string(placed.slot_bytes));
    placed.slot_bytes = bytes;
  }
  placed_.rings.push_back(std::move(placed));
  return {};
}

Result<PlacedCopy> Placer::place_copy(const Node& load) {
  PlacedCopy copy;
  if (load.op != Op::kLoad) return refuse(load, "only a load can be copied into a ring");
  copy.load = load.id;
  copy.label = load.label;
  if (auto it = plan_.copy.find(load.label); it != plan_.copy.end()) copy.how = it->second;
  if (copy.how.via != gpu::Via::kTma)
    return refuse(load, "a copy into a ring goes through the copy engine", "vector", "Via::kTma");
  copy.element_bytes = size_bytes(load.dtype);
  if (load.shape.size() != 2)
    return refuse(load, "the copy engine fills tiles of two axes",
                  std::to_string(load.shape.size()) + " axes", "2");
  if (load.region.size() > 5)
    return refuse(load, "a tensor map has at most five dimensions",
                  std::to_string(load.region.size()), "5 or fewer");
  for (size_t d = 0; d < load.region.size(); ++d) {
    const ir::DimIndex& dim = load.region[d];
    const bool last = d + 1 == load.region.size();
    if (dim.kind == ir::DimIndex::kIndirect)
      return refuse(load, "an indirect dimension has no tensor map");
    if (dim.kind == ir::DimIndex::kRange && dim.step != 1)
      return refuse(load, "a tensor map walks with step 1", std::to_string(dim.step), "1");
    if (dim.kind == ir::DimIndex::kRange && (dim.tile_axis == 1) != last)
      return refuse(load, "the columns of a copied tile lie along the tensor's last dimension");
  }
  std::optional<int64_t> rows = static_bound(load.shape[0]), columns = static_bound(load.shape[1]);
  if (!rows || !columns)
    return refuse(load, "a copied tile needs a bound known when it is compiled",
                  "[" + load.shape[0].str() + ", " + load.shape[1].str() + "]",
                  "extents bounded by tile parameters or by dims that the schedule fixes");
  copy.rows = static_cast<int>(*rows);
  // Left operands fill whole instructions; rows that are too many are computed and dropped.
  if (is_left_operand(load.id)) copy.rows = (copy.rows + 63) / 64 * 64;
  copy.columns = static_cast<int>(*columns);
  if (copy.rows > 256 || copy.rows % 8 != 0)
    return refuse(load, "rows of a copied tile come in eights, 256 at most",
                  std::to_string(copy.rows), "a multiple of 8 up to 256");
  if (copy.columns % copy.chunk_columns() != 0)
    return refuse(load, "columns of a copied tile come in rows of 128 bytes",
                  std::to_string(copy.columns) + " columns",
                  "a multiple of " + std::to_string(copy.chunk_columns()));
  if (copy.how.multicast) RT_RETURN_IF_ERROR(find_sharing(load, copy));
  return copy;
}

Status Placer::find_sharing(const Node& load, PlacedCopy& copy) {
  for (const gpu::ClusterAxis& axis : plan_.cluster) {
    std::set<std::string> symbols;
    for (const ir::DimIndex& dim : load.region) collect_symbols(dim.begin, symbols);
    if (symbols.count(axis.axis) != 0) continue;
    if (copy.rows % (8 * axis.size) != 0)
      return refuse(load, "each CTA of a cluster copies whole groups of eight rows",
                    std::to_string(copy.rows) + " rows",
                    "a multiple of " + std::to_string(8 * axis.size));
    copy.shared_axis = axis.axis;
    return {};
  }
  return refuse(load, "multicast needs a cluster axis that the load does not depend on");
}

const PlacedRing* Placer::ring_of(ValueId load, int* index) const {
  for (size_t r = 0; r < placed_.rings.size(); ++r)
    if (placed_.rings[r].find(load) != nullptr) {
      if (index != nullptr) *index = static_cast<int>(r);
      return &placed_.rings[r];
    }
  return nullptr;
}

}  // namespace rooftile::codegen
