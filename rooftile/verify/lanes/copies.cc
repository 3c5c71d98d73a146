// SPDX-License-Identifier: Apache-2.0
#include "rooftile/verify/lanes/copies.h"

#include <algorithm>

#include "rooftile/lanes/operands.h"

namespace rooftile::verify {
namespace {

using lanes::Body;
using lanes::Fn;
using lanes::Ins;
using lanes::Instr;
using lanes::Stmt;
using lanes::Val;
using lanes::ValKind;

constexpr int kMostBox = 256, kMostRank = 5;
constexpr int kRowsOfA = 64;  // of one wgmma

// The allocation that an address starts from, by its text alone.
std::string base_of(const Val& v) {
  if (v->kind == ValKind::kShared) return v->name;
  for (const Val& arg : v->args)
    if (std::string found = base_of(arg); !found.empty()) return found;
  return {};
}

template <class Visit>
void each_instruction(const Body& body, const Visit& visit) {
  for (const Stmt& stmt : body) {
    if (stmt.kind == lanes::StmtKind::kInstr) visit(stmt.instr);
    each_instruction(stmt.body, visit);
    each_instruction(stmt.orelse, visit);
  }
}

}  // namespace

Copies::Copies(const lanes::Program& program) {
  each_instruction(program.body, [&](const Instr& instr) {
    if (instr.ins == Ins::kTmaStore) stores_.insert(instr.map);
    if (instr.ins == Ins::kTmaLoad || instr.ins == Ins::kTmaLoadMulticast)
      fills_[base_of(instr.args[0])].insert(map_named(program, instr.map));
  });
}

void Copies::instruction(Walk& walk, const Stmt& stmt) {
  switch (stmt.instr.ins) {
    case Ins::kTmaLoad:
    case Ins::kTmaLoadMulticast:
    case Ins::kTmaStore:
      return copy(walk, stmt);
    case Ins::kWgmma:
      return product(walk, stmt);
    default:
      return;
  }
}

// ---- the copy engine ---------------------------------------------------------------------------

void Copies::copy(Walk& walk, const Stmt& stmt) {
  const Instr& instr = stmt.instr;
  const lanes::TensorMapUse* use = map_named(walk.program(), instr.map);
  if (use == nullptr) return;  // lanes.shared has said so
  const bool store = instr.ins == Ins::kTmaStore;
  const size_t first = store ? 1 : instr.ins == Ins::kTmaLoad ? 2 : 3;
  const int64_t box = box_bytes(walk.program(), *use);
  if (instr.args.size() != first + use->box.size())
    return walk.report().broken(Kind::kTensorMap, stmt, Prover::kConstant,
                                "the map has " + std::to_string(use->box.size()) + " dimensions");
  // A box that is clipped counts in full.
  if (!store && instr.bytes != box)
    return walk.report().broken(Kind::kTensorMap, stmt, Prover::kConstant,
                                "a box of " + std::to_string(box) + " bytes completes with " +
                                    std::to_string(box) + ", not " + std::to_string(instr.bytes));
  walk.report().proved(Kind::kTensorMap, stmt, Prover::kConstant);
  for (size_t d = first; d < instr.args.size(); ++d) walk.value(instr.args[d]);  // wraps nowhere
  if (instr.ins != Ins::kTmaLoadMulticast) return;
  const Expr mask = walk.value(instr.args[2]);
  const int64_t all = (int64_t{1} << walk.program().cluster) - 1;
  walk.require(Kind::kTensorMap, Expr(1) <= mask && mask <= Expr(all),
               "1 <= " + mask.str() + " <= " + std::to_string(all) + ", CTAs of the cluster");
}

void Copies::map(Walk& walk, const lanes::TensorMapUse& use) {
  const lanes::TensorUse* tensor = tensor_named(walk.program(), use.tensor);
  std::string wrong;
  Prover prover = Prover::kConstant;
  const auto check = [&](bool holds, const std::string& what) {
    if (!holds && wrong.empty()) wrong = what;
  };
  check(tensor != nullptr, "no tensor of this name");
  if (tensor != nullptr) {
    const int size = size_bytes(tensor->dtype);
    const size_t rank = tensor->shape.size();
    check(use.box.size() == rank && rank >= 1 && rank <= kMostRank,
          "a box has one extent a dimension, of 1 to 5");
    for (int extent : use.box)
      check(extent >= 1 && extent <= kMostBox, "1 <= extent of box <= 256");
    const int inner = use.box.empty() ? 0 : use.box[0] * size;
    check(inner % 16 == 0, "a row of the box is no multiple of 16 bytes");
    check(use.swizzle == lanes::Swizzle::kNone || inner <= span_bytes(use.swizzle),
          "a row of the box is wider than the swizzle");
    check(align_of(walk.program(), walk.contract(), use.tensor) % 16 == 0,
          "data and strides are not known to be multiples of 16 bytes");
    for (const Expr& extent : tensor->shape) {
      const Answer positive = walk.questions().prove(Expr(1) <= extent);
      prover = std::max(prover, positive.prover);
      check(positive.verdict == Verdict::kProved, "1 <= " + extent.str() + " does not show");
    }
    // Measured: at the end of a row, whole chunks of 16 bytes are written.
    if (stores_.count(use.name) != 0 && !tensor->shape.empty())
      check(walk.questions().divides().multiple(tensor->shape.back() * Expr(size), 16),
            "rows are stored in chunks of 16 bytes, and are not known to end with one");
  }
  walk.report().kernel(Kind::kTensorMap, "map " + use.name + " of " + use.tensor, wrong.empty(),
                       prover, wrong);
}

void Copies::finish(Walk& walk) {
  for (const lanes::TensorMapUse& use : walk.program().maps) map(walk, use);
}

// ---- operands of products ----------------------------------------------------------------------

void Copies::product(Walk& walk, const Stmt& stmt) {
  const Instr& instr = stmt.instr;
  if (const std::string wrong = lanes::wgmma_error(instr); !wrong.empty())
    return walk.report().broken(Kind::kFragments, stmt, Prover::kConstant, wrong);
  const bool fragments = instr.regs.size() > 1;
  if (!fragments) operand(walk, stmt, instr.args[1], kRowsOfA, instr.trans_a);
  operand(walk, stmt, instr.args.back(), instr.n, instr.trans_b);
  if (fragments && instr.regs[1].count != 4)
    walk.report().broken(Kind::kFragments, stmt, Prover::kConstant,
                         "fragments of A are four registers");
}

// What the instruction reads through a descriptor (PTX, "Shared Memory Matrix Layout"), against the
// allocation that it points into and the boxes that fill it.
void Copies::operand(Walk& walk, const Stmt& stmt, const Val& descriptor, int rows, bool mn_major) {
  Report& report = walk.report();
  if (descriptor->kind != ValKind::kFn || descriptor->fn != Fn::kMatrixDesc)
    return report.unknown(Kind::kFragments, stmt, "a descriptor that is not made in place");
  const Expr leading = walk.value(descriptor->args[1]), stride = walk.value(descriptor->args[2]),
             mode = walk.value(descriptor->args[3]);
  if (!leading.is_const() || !stride.is_const() || !mode.is_const() || mode.value() < 0 ||
      mode.value() > 3)
    return report.unknown(Kind::kFragments, stmt, "a descriptor whose offsets are not constants");
  const auto swizzle = static_cast<lanes::Swizzle>(mode.value());
  const bool plain = swizzle == lanes::Swizzle::kNone;
  const int64_t span = span_bytes(swizzle), atom = 8 * span;
  for_places(walk, walk.value(descriptor->args[0]), [&](const SharedPlace& place) {
    if (place.alloc == nullptr)
      return report.broken(Kind::kSharedBounds, stmt, Prover::kConstant,
                           "the descriptor's start is not in an allocation");
    const Expr start = place.offset;
    int64_t bytes = 0;  // from the start of the first row's pattern
    if (plain) {
      bytes = (rows / 8 - 1) * stride.value() + 128 + leading.value();
    } else if (mn_major) {
      const int64_t across = span / 16;
      bytes = (rows / 8 - 1) / across * leading.value() + stride.value() + atom;
    } else {
      bytes = (rows / 8 - 1) * stride.value() + atom;
    }
    // K-major: a step along K moves the start within the row of the pattern.
    const bool moves = !plain && !mn_major;
    const Expr within = moves ? start % Expr(span) : Expr(0), row = start - within;
    if (moves)
      walk.require(Kind::kFragments, within + Expr(32) <= Expr(span),
                   "32 bytes of K within the swizzle's " + std::to_string(span));
    const int64_t align = plain ? 16 : atom;
    if (place.alloc->offset % align != 0)
      report.broken(Kind::kLaneAlignment, stmt, Prover::kConstant,
                    place.alloc->name + " is not aligned to the swizzle's pattern");
    const bool aligned = walk.questions().divides().multiple(start, moves ? 16 : align);
    walk.require(Kind::kLaneAlignment,
                 (moves ? start % Expr(align) < Expr(span) : start % Expr(align) == Expr(0)) &&
                     (aligned ? Expr(1) : start % Expr(16) == Expr(0)),
                 start.str() + " is the start of a pattern of " + std::to_string(align) + " bytes");
    walk.require(Kind::kSharedBounds,
                 Expr(0) <= row && row + Expr(bytes) <= Expr(place.alloc->bytes),
                 place.alloc->name + ": " + row.str() + " + " + std::to_string(bytes) +
                     " <= " + std::to_string(place.alloc->bytes));
    // The layout that fills it.
    if (!plain && stride.value() % atom != 0)
      report.broken(Kind::kFragments, stmt, Prover::kConstant,
                    "rows eight apart are not a whole number of patterns apart");
    const auto fills = fills_.find(place.alloc->name);
    if (fills == fills_.end()) return report.proved(Kind::kFragments, stmt, Prover::kConstant);
    for (const lanes::TensorMapUse* use : fills->second)
      if (use != nullptr && use->swizzle != swizzle)
        return report.broken(Kind::kFragments, stmt, Prover::kConstant,
                             "the product reads swizzle " + std::to_string(span) + " bytes, and " +
                                 use->name + " fills it with " +
                                 std::to_string(span_bytes(use->swizzle)));
    report.proved(Kind::kFragments, stmt, Prover::kConstant);
  });
}

}  // namespace rooftile::verify
