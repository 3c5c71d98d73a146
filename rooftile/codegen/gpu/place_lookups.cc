// SPDX-License-Identifier: Apache-2.0
// Rows that are looked up: what the copying role can evaluate to find one, and which runs of rows
// the copy engine can take as one box because they lie side by side (a page).
#include <algorithm>
#include <optional>

#include "rooftile/codegen/gpu/placer.h"

namespace rooftile::codegen {

using ir::Ew;
using ir::Node;
using ir::Op;

// What the copying role can evaluate for one row: positions, arithmetic, and loads of integers.
Status Placer::check_index(ValueId id) const {
  const Node& node = program_.node(id);
  switch (node.op) {
    case Op::kFill:
    case Op::kFromIndex:
    case Op::kIota:
      return {};
    case Op::kLoad:
      if (node.dtype != DType::kI32 && node.dtype != DType::kI64)
        return refuse(node, "an index is loaded as it is", std::string(name(node.dtype)),
                      "i32 or i64");
      for (const ir::DimIndex& dim : node.region)
        if (dim.kind == ir::DimIndex::kIndirect) RT_RETURN_IF_ERROR(check_index(dim.indirect));
      return {};
    case Op::kElementwise:
    case Op::kSelect:
    case Op::kCast:
      for (ValueId operand : node.operands) RT_RETURN_IF_ERROR(check_index(operand));
      return {};
    default:
      return refuse(node, "a row's index is made of positions, arithmetic and loads");
  }
}

namespace {

// The least run of rows worth a box: a group of eight is what swizzled shared memory is made of.
constexpr int kLeastRun = 8;

// How the elements of an index tile follow each other in runs of so many rows, each of which begins
// at a multiple of that number.
struct Run {
  enum Kind : uint8_t { kSame, kNext, kOther } kind = kOther;
  bool aligned = false;  // kNext: the first element of a run is a multiple of its length
};

class Runs {
 public:
  Runs(const ir::Program& program, const Multiples& multiples, int64_t length)
      : program_(program), multiples_(multiples), length_(length) {}

  Run of(ValueId id) const {
    const Node& node = program_.node(id);
    if (node.shape.empty()) return {Run::kSame};
    switch (node.op) {
      case Op::kFill:
      case Op::kFromIndex:
        return {Run::kSame};
      case Op::kIota:
        return {Run::kNext, multiples_.unit_of(node.expr, length_) == length_};
      case Op::kCast:
        return of(node.operands[0]);
      case Op::kLoad:
        return all_same(node) ? Run{Run::kSame} : Run{};
      case Op::kElementwise:
        return node.operands.size() == 2 ? of_two(node) : Run{};
      default:
        return {};
    }
  }

 private:
  bool all_same(const Node& load) const {
    return std::all_of(load.region.begin(), load.region.end(), [&](const ir::DimIndex& dim) {
      return dim.kind == ir::DimIndex::kPoint ||
             (dim.kind == ir::DimIndex::kIndirect && of(dim.indirect).kind == Run::kSame);
    });
  }

  // The remainder and the quotient of an aligned run by a multiple of its length.
  Run of_two(const Node& node) const {
    const Run a = of(node.operands[0]), b = of(node.operands[1]);
    if (a.kind == Run::kSame && b.kind == Run::kSame) return {Run::kSame};
    const std::optional<int64_t> by = constant(node.operands[1]);
    if (a.kind != Run::kNext || !a.aligned || !by || *by <= 0 || *by % length_ != 0) return {};
    if (node.ew == Ew::kFloorDiv) return {Run::kSame};
    if (node.ew == Ew::kMod) return {Run::kNext, true};
    return {};
  }

  std::optional<int64_t> constant(ValueId id) const {
    const Node& node = program_.node(id);
    if (node.op == Op::kCast) return constant(node.operands[0]);
    if (node.op == Op::kFill) return static_cast<int64_t>(node.number);
    if (node.op == Op::kFromIndex && node.expr.is_const()) return node.expr.value();
    return std::nullopt;
  }

  const ir::Program& program_;
  const Multiples& multiples_;
  const int64_t length_;
};

}  // namespace

// The longest run of rows that is a box: one indirect dimension walks, the others stand still.
Status Placer::find_runs(const Node& load, PlacedCopy& copy) const {
  for (int length = copy.rows; length >= kLeastRun; --length) {
    if (copy.rows % length != 0) continue;
    const Runs runs(program_, multiples_, length);
    int walking = -1, unfit = 0;
    for (size_t d = 0; d < load.region.size(); ++d) {
      if (load.region[d].kind != ir::DimIndex::kIndirect) continue;
      const Run run = runs.of(load.region[d].indirect);
      if (run.kind == Run::kNext && walking < 0)
        walking = static_cast<int>(d);
      else if (run.kind != Run::kSame)
        ++unfit;
    }
    if (walking < 0 || unfit > 0) continue;
    copy.run_rows = length;
    copy.run_dim = walking;
    for (const ir::DimIndex& dim : load.region)
      if (dim.kind == ir::DimIndex::kIndirect) RT_RETURN_IF_ERROR(check_index(dim.indirect));
    return {};
  }
  return refuse(load, "rows that are looked up do not lie side by side in runs of eight or more",
                "Via::kTma",
                "positions divided by a constant multiple of 8, from a first one that is a "
                "multiple of it; or Via::kCpAsync, which takes any rows");
}

}  // namespace rooftile::codegen
