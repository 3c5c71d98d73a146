// SPDX-License-Identifier: Apache-2.0
// Copies and rings: what the schedule sends through shared memory, and whether the mechanism that
// it names can.
#include <algorithm>
#include <optional>
#include <set>

#include "rooftile/codegen/gpu/placer.h"

namespace rooftile::codegen {

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
  for (size_t a = 1; a < placed.alternatives.size(); ++a)
    if (placed.engine_bytes(a) != placed.engine_bytes(0))
      return refuse(program_.node(placed.alternatives[a][0].load),
                    "alternatives of a ring are copied by the same mechanism");
  placed_.rings.push_back(std::move(placed));
  return {};
}

Result<PlacedCopy> Placer::place_copy(const Node& load) {
  PlacedCopy copy;
  if (load.op != Op::kLoad) return refuse(load, "only a load can be copied into a ring");
  copy.load = load.id;
  copy.label = load.label;
  if (auto it = plan_.copy.find(load.label); it != plan_.copy.end()) copy.how = it->second;
  copy.element_bytes = size_bytes(load.dtype);
  if (load.shape.size() != 2)
    return refuse(load, "a ring holds tiles of two axes",
                  std::to_string(load.shape.size()) + " axes", "2");
  RT_RETURN_IF_ERROR(place_extents(load, copy));
  switch (copy.how.via) {
    case gpu::Via::kVector:
      return refuse(load, "a copy into a ring needs a mechanism that goes on by itself", "vector",
                    "Via::kTma or Via::kCpAsync");
    case gpu::Via::kTma:
      RT_RETURN_IF_ERROR(check_engine_copy(load, copy));
      if (copy.how.multicast) RT_RETURN_IF_ERROR(find_sharing(load, copy));
      break;
    case gpu::Via::kCpAsync:
      RT_RETURN_IF_ERROR(check_thread_copy(load, copy));
      break;
  }
  return copy;
}

// Rows of 128 bytes, in eights: what swizzled shared memory and wgmma are made of.
Status Placer::place_extents(const Node& load, PlacedCopy& copy) {
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
  return {};
}

Status Placer::check_engine_copy(const Node& load, PlacedCopy& copy) const {
  if (load.region.size() > 5)
    return refuse(load, "a tensor map has at most five dimensions",
                  std::to_string(load.region.size()), "5 or fewer");
  bool looked_up = false;
  for (size_t d = 0; d < load.region.size(); ++d) {
    const ir::DimIndex& dim = load.region[d];
    const bool last = d + 1 == load.region.size();
    looked_up |= dim.kind == ir::DimIndex::kIndirect;
    if (dim.kind == ir::DimIndex::kRange && dim.step != 1)
      return refuse(load, "a tensor map walks with step 1", std::to_string(dim.step), "1");
    if (dim.kind == ir::DimIndex::kRange && (dim.tile_axis == 1) != last)
      return refuse(load, "the columns of a copied tile lie along the tensor's last dimension");
  }
  if (!looked_up) return {};
  if (copy.how.multicast) return refuse(load, "rows that are looked up are copied for one CTA");
  return find_runs(load, copy);
}

// Threads side by side bring the 16-byte pieces of a row; the rows of one instruction must be whole
// and as many for each thread.
Status Placer::check_thread_copy(const Node& load, const PlacedCopy& copy) const {
  const ir::DimIndex& last = load.region.back();
  if (last.kind != ir::DimIndex::kRange || last.tile_axis != 1 || last.step != 1)
    return refuse(load, "the columns of a copied tile lie along the tensor's last dimension");
  if (!load.shape[1].is_const())
    return refuse(load, "cp.async brings whole rows", load.shape[1].str() + " columns",
                  "a number of columns known when it is compiled");
  const int64_t piece = 16 / copy.element_bytes;
  if (!last.begin.is_const() || last.begin.value() % piece != 0)
    return refuse(load, "cp.async moves aligned pieces of 16 bytes",
                  "columns from " + last.begin.str(),
                  "a first column that is a multiple of " + std::to_string(piece));
  const int pieces = copy.pieces_a_row();
  if (kCopyingThreads % pieces != 0 || copy.rows % copy.rows_at_once() != 0)
    return refuse(load, "each thread of the copying role brings as many pieces as the others",
                  std::to_string(copy.rows) + " rows of " + std::to_string(pieces) + " pieces",
                  "a number of pieces that divides 128, rows in multiples of 128 / pieces");
  if (copy.how.multicast) return refuse(load, "cp.async reaches one CTA only, no multicast");
  for (const ir::DimIndex& dim : load.region)
    if (dim.kind == ir::DimIndex::kIndirect) RT_RETURN_IF_ERROR(check_index(dim.indirect));
  return {};
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
