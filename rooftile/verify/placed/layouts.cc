// SPDX-License-Identifier: Apache-2.0
#include "rooftile/verify/placed/layouts.h"

#include <bit>
#include <optional>

#include "rooftile/codegen/gpu/place.h"
#include "rooftile/verify/placed/ring_facts.h"

namespace rooftile::verify {

using codegen::Home;
using codegen::Placed;
using codegen::PlacedCopy;
using codegen::PlacedRing;
using ir::Node;
using ir::Op;

int rank_f2(std::vector<uint64_t> images) {
  int rank = 0;
  for (size_t i = 0; i < images.size(); ++i) {
    if (images[i] == 0) continue;
    ++rank;
    const uint64_t pivot = std::bit_floor(images[i]);
    for (size_t j = i + 1; j < images.size(); ++j)
      if ((images[j] & pivot) != 0) images[j] ^= images[i];
  }
  return rank;
}

int64_t swizzled(int row, int byte) {
  return int64_t{row} * 128 + ((byte / 16) ^ (row % 8)) * 16 + byte % 16;
}

namespace {

constexpr int kSwizzlePeriod = 1024;  // eight rows of 128 bytes
constexpr int kRowBytes = 128;

// Element of the accumulator that register `i` of a thread holds, in a block of 64 rows (PTX ISA,
// wgmma.mma_async, fragment of D).
struct Element {
  int row, column;
  bool operator==(const Element&) const = default;
};
Element sum_element(int thread, int i) {
  const int warp = thread / 32, lane = thread % 32;
  return {16 * warp + lane / 4 + 8 * (i / 2 % 2), 8 * (i / 4) + 2 * (lane % 4) + i % 2};
}
// The same for the left operand in registers: two 16-bit elements a register, four registers a step
// of 16 columns (PTX ISA, wgmma.mma_async, fragment of A).
Element operand_element(int thread, int reg, int half) {
  const int warp = thread / 32, lane = thread % 32;
  return {16 * warp + lane / 4 + 8 * (reg % 2), 8 * (reg / 2) + 2 * (lane % 4) + half};
}

class Layouts {
 public:
  Layouts(const ir::Program& program, const Placed& placed) : program_(program), placed_(placed) {}

  PlacedProblems run() {
    for (const PlacedRing& ring : placed_.rings) check(ring);
    for (const auto& [id, value] : placed_.values) {
      const Node& node = program_.node(id);
      if (node.op == Op::kMma) product(node);
      if (value.home == Home::kOperand) operand(node);
    }
    images();
    return std::move(problems_);
  }

 private:
  void refuse(std::string subject, std::string what, SourceLoc loc) {
    problems_.push_back({.kind = Kind::kLayout,
                         .subject = std::move(subject),
                         .what = std::move(what),
                         .story = {},
                         .loc = std::move(loc)});
  }

  // ---- shared memory

  void check(const PlacedRing& ring) {
    for (const std::vector<PlacedCopy>& copies : ring.alternatives) {
      int end = 0;
      for (const PlacedCopy& copy : copies) {
        const SourceLoc& loc = program_.node(copy.load).loc;
        if (ring.offset_in_slot(copy.load) != end)
          refuse(copy.label, "does not lie right behind the copy before it", loc);
        end += copy.bytes();
        if (!distinct_places(copy.rows))
          refuse(copy.label, "two bytes of the tile share a place", loc);
        if (copy.chunk_bytes() % kSwizzlePeriod != 0)
          refuse(copy.label, "a chunk does not begin where its swizzle does", loc);
        if (copy.columns % copy.chunk_columns() != 0)
          refuse(copy.label, "rows do not divide into chunks of 128 bytes", loc);
        if (copy.by_threads() && !brought_once(copy))
          refuse(copy.label, "threads do not bring every piece exactly once", loc);
        if (!copy.shared_axis.empty() && copy.rows % (8 * cluster_ctas(placed_)) != 0)
          refuse(copy.label, "the slices of the CTAs are not whole groups of eight rows", loc);
        if (copy.run_rows > 0 && (copy.rows % copy.run_rows != 0 || copy.run_rows % 8 != 0))
          refuse(copy.label, "runs of rows are not whole groups of eight rows", loc);
      }
      if (end != ring.slot_bytes || ring.slot_bytes % kSwizzlePeriod != 0)
        refuse("ring " + ring.name, "copies do not fill the slot",
               program_.node(placed_.phase).loc);
    }
  }

  // The swizzle is linear in the bits of row and byte, so for a power of two of rows its rank
  // tells.
  static bool distinct_places(int rows) {
    if (std::has_single_bit(static_cast<unsigned>(rows))) {
      std::vector<uint64_t> images;
      for (int row = 1; row < rows; row *= 2)
        images.push_back(static_cast<uint64_t>(swizzled(row, 0)));
      for (int byte = 1; byte < kRowBytes; byte *= 2)
        images.push_back(static_cast<uint64_t>(swizzled(0, byte)));
      return rank_f2(images) == static_cast<int>(images.size());
    }
    std::vector<bool> taken(static_cast<size_t>(rows) * 8);
    for (int row = 0; row < rows; ++row)
      for (int piece = 0; piece < 8; ++piece) {
        const auto at = static_cast<size_t>(swizzled(row, 16 * piece) / 16);
        if (at >= taken.size() || taken[at]) return false;
        taken[at] = true;
      }
    return true;
  }

  static bool brought_once(const PlacedCopy& copy) {
    const int pieces = copy.pieces_a_row();
    std::vector<int> times(static_cast<size_t>(int64_t{copy.rows} * pieces));
    for (int n = 0; n < copy.lookups(); ++n)
      for (int thread = 0; thread < codegen::kCopyingThreads; ++thread) {
        const int row = n * copy.rows_at_once() + thread / pieces, piece = thread % pieces;
        if (row >= copy.rows) return false;
        ++times[static_cast<size_t>(int64_t{row} * pieces + piece)];
      }
    for (int t : times)
      if (t != 1) return false;
    return true;
  }

  // ---- registers

  // Groups that share a tile's rows; all have the same ones in turns.
  int groups() const { return takes_turns(placed_) ? 1 : placed_.groups; }

  void product(const Node& node) {
    const std::string name = node_name(program_, node.id);
    const int columns = static_cast<int>(codegen::static_bound(node.shape[1]).value_or(0));
    if (columns <= 0 || columns % 8 != 0 || columns > 256)
      return refuse(name, "the instruction has no such number of columns", node.loc);
    if (!holds_all(columns)) refuse(name, "registers do not hold every sum exactly once", node.loc);
    const std::optional<Side> left = side(node, 0), right = side(node, 1);
    if (!left || !right)
      return refuse(name, "an operand lies in no ring and no registers", node.loc);
    if (left->depth != right->depth)
      refuse(name,
             "operands differ in depth: " + std::to_string(left->depth) + " and " +
                 std::to_string(right->depth),
             node.loc);
    if (left->depth * left->element_bytes % 32 != 0 || left->element_bytes != right->element_bytes)
      refuse(name, "the depth is not whole steps of the instruction", node.loc);
    if (left->across < placed_.tile_rows || right->across < columns)
      refuse(name, "an operand is smaller than what the product reads", node.loc);
  }

  bool holds_all(int columns) const {
    std::vector<int> times(static_cast<size_t>(placed_.tile_rows) * static_cast<size_t>(columns));
    for (int group = 0; group < groups(); ++group)
      for (int block = 0; block < placed_.row_blocks; ++block)
        for (int thread = 0; thread < 128; ++thread)
          for (int i = 0; i < columns / 2; ++i) {
            const Element e = sum_element(thread, i);
            const int row = (group * placed_.row_blocks + block) * 64 + e.row;
            if (row >= placed_.tile_rows || e.column >= columns) return false;
            ++times[static_cast<size_t>(int64_t{row} * columns + e.column)];
          }
    for (int t : times)
      if (t != 1) return false;
    return true;
  }

  // Extent along the contraction, and across it.
  struct Side {
    int depth, across, element_bytes;
  };
  std::optional<Side> side(const Node& node, int which) const {
    const ir::ValueId id = node.operands[static_cast<size_t>(which)];
    const auto it = placed_.values.find(id);
    if (it != placed_.values.end() && it->second.home == Home::kOperand) {
      const Node& value = program_.node(id);
      return Side{static_cast<int>(codegen::static_bound(value.shape[1]).value_or(0)),
                  placed_.tile_rows, size_bytes(value.dtype)};
    }
    const ir::ValueId load = codegen::operand_source(program_, id);
    const bool transposed = codegen::is_transposed(program_, id);
    for (const PlacedRing& ring : placed_.rings)
      if (const PlacedCopy* copy = ring.find(load)) {
        const bool along_rows = (which == 0) != transposed;  // contraction along memory's rows
        return along_rows ? Side{copy->columns, copy->rows, copy->element_bytes}
                          : Side{copy->rows, copy->columns, copy->element_bytes};
      }
    return std::nullopt;
  }

  // Sums packed in pairs, in the order of their registers, are a left operand: registers 0 to 3 of
  // step s come from sums 8 s to 8 s + 7.
  void operand(const Node& node) {
    const int columns = static_cast<int>(codegen::static_bound(node.shape[1]).value_or(0));
    if (columns % 16 != 0 || size_bytes(node.dtype) != 2)
      return refuse(node_name(program_, node.id), "is not whole steps of 16-bit columns", node.loc);
    for (int step = 0; step < columns / 16; ++step)
      for (int thread = 0; thread < 128; ++thread)
        for (int reg = 0; reg < 4; ++reg)
          for (int half = 0; half < 2; ++half) {
            Element wanted = operand_element(thread, reg, half);
            wanted.column += 16 * step;
            if (sum_element(thread, 8 * step + 2 * reg + half) != wanted)
              return refuse(node_name(program_, node.id),
                            "sums do not lie as the left operand is read", node.loc);
          }
  }

  // A part's registers travel as vectors of four to the place of rank, vector and thread.
  void images() {
    const codegen::PlacedSplit& split = placed_.split;
    if (split.ways == 1) return;
    if (split.loop < 0)
      return refuse("split sums", "no loop is split", program_.node(placed_.phase).loc);
    const int threads = 128 * placed_.groups, vectors = placed_.row_blocks * split.columns / 8;
    std::vector<bool> taken(static_cast<size_t>(split.ways * vectors * threads));
    for (int rank = 0; rank < split.ways; ++rank)
      for (int vector = 0; vector < vectors; ++vector)
        for (int thread = 0; thread < threads; ++thread) {
          const auto at =
              static_cast<size_t>((int64_t{rank} * vectors + vector) * threads + thread);
          if (at >= taken.size() || taken[at])
            return refuse("split sums", "two registers share a place in the image",
                          program_.node(split.loop).loc);
          taken[at] = true;
        }
    const Node& loop = program_.node(split.loop);
    for (ir::ValueId init : loop.operands)
      if (codegen::static_bound(program_.node(init).shape[1]).value_or(0) !=
          int64_t{split.columns} * split.owners)
        refuse("split sums", "the owners' parts are not the whole of the columns", loop.loc);
  }

  const ir::Program& program_;
  const Placed& placed_;
  PlacedProblems problems_;
};

}  // namespace

PlacedProblems check_layouts(const ir::Program& program, const Placed& placed) {
  return Layouts(program, placed).run();
}

}  // namespace rooftile::verify
