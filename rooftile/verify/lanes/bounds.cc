// SPDX-License-Identifier: Apache-2.0
#include "rooftile/verify/lanes/bounds.h"

namespace rooftile::verify {

using lanes::Ins;
using lanes::Instr;
using lanes::Val;

void Bounds::instruction(Walk& walk, const lanes::Stmt& stmt) {
  const Instr& instr = stmt.instr;
  if (instr.ins == Ins::kPrefetchL2) return;  // touches nothing: a hint, dropped where it is wrong
  if (instr.ins == Ins::kCpAsync) {
    // Zeros alone are written where there is nothing to read.
    shared(walk, instr);
    walk.questions().push();
    walk.questions().assume(Expr(1) <= walk.value(instr.args[1]));
    if (walk.symbols().dead())
      walk.report().proved(Kind::kGlobalBounds, walk.statement(), Prover::kInterval);
    else
      global(walk, instr);
    walk.questions().pop();
    return;
  }
  if (!instr.global.tensor.empty()) global(walk, instr);
  shared(walk, instr);
}

// ---- tensors -----------------------------------------------------------------------------------

void Bounds::global(Walk& walk, const Instr& instr) {
  const lanes::GlobalRef& ref = instr.global;
  const lanes::TensorUse* tensor = tensor_named(walk.program(), ref.tensor);
  if (tensor == nullptr || tensor->shape.size() != ref.index.size())
    return walk.report().broken(Kind::kGlobalBounds, walk.statement(), Prover::kConstant,
                                "no tensor of this name and rank");
  const int size = size_bytes(instr.dtype);
  const int64_t width = instr.ins == Ins::kBulkLoad ? instr.bytes / size : ref.width;
  std::vector<Expr> index;
  for (size_t d = 0; d < ref.index.size(); ++d) {
    index.push_back(walk.value(ref.index[d]));
    const int64_t run = d + 1 == ref.index.size() ? width : 1;
    const std::string where =
        ref.tensor + (ref.index.size() > 1 ? ", dimension " + std::to_string(d) : "");
    walk.require(Kind::kGlobalBounds, Expr(0) <= index[d], where + ": 0 <= " + index[d].str());
    walk.require(Kind::kGlobalBounds, index[d] + Expr(run) <= tensor->shape[d],
                 where + ": " + (index[d] + Expr(run)).str() + " <= " + tensor->shape[d].str());
  }
  const int64_t bytes = instr.ins == Ins::kBulkLoad ? 16 : width * size;
  const int align = align_of(walk.program(), walk.contract(), ref.tensor);
  if (index.empty() || (width == 1 && align % bytes == 0))
    return walk.report().proved(Kind::kLaneAlignment, walk.statement(), Prover::kConstant);
  if (align % bytes != 0)
    return walk.report().broken(Kind::kLaneAlignment, walk.statement(), Prover::kConstant,
                                ref.tensor + " is aligned to " + std::to_string(align) +
                                    " bytes, the access takes " + std::to_string(bytes));
  const Expr& column = index.back();
  const int64_t unit = bytes / size;
  if (walk.questions().divides().multiple(column, unit))
    return walk.report().proved(Kind::kLaneAlignment, walk.statement(), Prover::kInterval);
  walk.require(Kind::kLaneAlignment, column % Expr(unit) == Expr(0),
               column.str() + " % " + std::to_string(unit) + " == 0");
}

// ---- shared memory -----------------------------------------------------------------------------

void Bounds::shared(Walk& walk, const Instr& instr) {
  switch (instr.ins) {
    case Ins::kLdShared:
    case Ins::kStShared:
      return range(walk, instr.args[0], instr.bytes, instr.bytes);
    case Ins::kAtomShared:
      return range(walk, instr.args[0], size_bytes(instr.dtype), size_bytes(instr.dtype));
    case Ins::kLdMatrix:
    case Ins::kStMatrix: {
      // Lane l names row l % 8 of matrix l / 8; the addresses of the others are not looked at.
      walk.questions().push();
      walk.questions().assume(Expr::sym("tid") % 32 < Expr(8 * instr.n));
      range(walk, instr.args[0], 16, 16);
      walk.questions().pop();
      return;
    }
    case Ins::kStAsync:
      range(walk, instr.args[0], 16, 16);
      return barrier(walk, instr.args[1]);
    case Ins::kCpAsync: {
      const int64_t bytes = int64_t{instr.global.width} * size_bytes(instr.dtype);
      return range(walk, instr.args[0], bytes, bytes);
    }
    case Ins::kBulkLoad:
      range(walk, instr.args[0], instr.bytes, 16);
      return barrier(walk, instr.args[1]);
    case Ins::kTmaLoad:
    case Ins::kTmaLoadMulticast:
    case Ins::kTmaStore: {
      const lanes::TensorMapUse* map = map_named(walk.program(), instr.map);
      if (map == nullptr)
        return walk.report().broken(Kind::kSharedBounds, walk.statement(), Prover::kConstant,
                                    "no tensor map of this name");
      // A swizzle's pattern repeats every eight rows, and starts where the box does.
      const int64_t align =
          map->swizzle == lanes::Swizzle::kNone ? 128 : 8 * span_bytes(map->swizzle);
      range(walk, instr.args[0], box_bytes(walk.program(), *map), align);
      // A map is made from the tensor's own extents: what of a box lies outside is not touched.
      walk.report().proved(Kind::kGlobalBounds, walk.statement(), Prover::kConstant);
      if (instr.ins != Ins::kTmaStore) barrier(walk, instr.args[1]);
      return;
    }
    case Ins::kCpArrive:
    case Ins::kBarInit:
    case Ins::kBarExpect:
    case Ins::kBarArrive:
    case Ins::kBarWait:
    case Ins::kBarWaitCluster:
      return barrier(walk, instr.args[0]);
    case Ins::kBarArriveRemote:
    case Ins::kBarArriveRemoteRelease:
    case Ins::kMapa: {
      if (instr.ins != Ins::kMapa) barrier(walk, instr.args[0]);
      const Expr rank = walk.value(instr.args[1]);
      walk.require(Kind::kSharedBounds, Expr(0) <= rank && rank < Expr(walk.program().cluster),
                   "0 <= " + rank.str() + " < " + std::to_string(walk.program().cluster) +
                       ", a CTA of the cluster");
      return;
    }
    default:
      return;
  }
}

void Bounds::barrier(Walk& walk, const Val& address) {
  for_places(walk, walk.value(address), [&](const SharedPlace& place) {
    if (place.alloc == nullptr || !place.alloc->barriers)
      return walk.report().broken(Kind::kSharedBounds, walk.statement(), Prover::kConstant,
                                  "the address is not one of an allocation of barriers");
    walk.require(Kind::kSharedBounds,
                 Expr(0) <= place.offset && place.offset + Expr(8) <= Expr(place.alloc->bytes),
                 place.alloc->name + ": 0 <= " + place.offset.str() +
                     " <= " + std::to_string(place.alloc->bytes - 8));
    if (place.alloc->offset % 8 == 0 && walk.questions().divides().multiple(place.offset, 8))
      return walk.report().proved(Kind::kLaneAlignment, walk.statement(), Prover::kInterval);
    walk.require(Kind::kLaneAlignment, (place.offset + Expr(place.alloc->offset)) % 8 == Expr(0),
                 place.offset.str() + " % 8 == 0");
  });
}

void Bounds::range(Walk& walk, const Val& address, int64_t bytes, int64_t align) {
  for_places(walk, walk.value(address), [&](const SharedPlace& place) {
    if (place.alloc == nullptr || place.alloc->barriers)
      return walk.report().unknown(Kind::kSharedBounds, walk.statement(),
                                   "the address is not one of an allocation for data");
    walk.require(Kind::kSharedBounds,
                 Expr(0) <= place.offset && place.offset + Expr(bytes) <= Expr(place.alloc->bytes),
                 place.alloc->name + ": 0 <= " + place.offset.str() +
                     " <= " + std::to_string(place.alloc->bytes - bytes));
    // The window of a CTA is aligned to 1024 bytes.
    if (place.alloc->offset % align == 0 &&
        walk.questions().divides().multiple(place.offset, align))
      return walk.report().proved(Kind::kLaneAlignment, walk.statement(), Prover::kInterval);
    walk.require(
        Kind::kLaneAlignment, (place.offset + Expr(place.alloc->offset)) % Expr(align) == Expr(0),
        (place.offset + Expr(place.alloc->offset)).str() + " % " + std::to_string(align) + " == 0");
  });
}

}  // namespace rooftile::verify
