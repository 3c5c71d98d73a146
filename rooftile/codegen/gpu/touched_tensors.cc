// SPDX-License-Identifier: Apache-2.0
#include "rooftile/codegen/gpu/touched_tensors.h"

namespace rooftile::codegen {

using ir::Node;
using ir::Op;

namespace {

void collect(const Expr& e, TouchedTensors& out) {
  if (e.kind() == ExprKind::kIndexLoad) out.read.insert(e.name());
  for (const Expr& sub : e.args()) collect(sub, out);
}

void collect(const Node& n, TouchedTensors& out) {
  if (n.op == Op::kLoad) out.read.insert(n.name);
  if (n.op == Op::kStore) out.written.insert(n.name);
  if (n.op == Op::kStore && n.mode == ir::StoreMode::kAdd) out.read.insert(n.name);
  for (const ir::DimIndex& dim : n.region) {
    collect(dim.begin, out);
    collect(dim.extent, out);
  }
  for (const Expr& e : n.shape) collect(e, out);
  for (const Expr* e : {&n.expr, &n.begin, &n.end, &n.step}) collect(*e, out);
}

void collect(const ir::Program& program, const ir::Block& block, TouchedTensors& out) {
  for (ir::ValueId id : block.nodes) {
    collect(program.node(id), out);
    collect(program, program.node(id).block, out);
  }
}

}  // namespace

TouchedTensors touched_tensors(const ir::Program& program, const Node& phase) {
  TouchedTensors out;
  collect(program, phase.block, out);
  for (ir::ValueId id : program.body.nodes)
    if (program.node(id).op != Op::kTiles) collect(program.node(id), out);
  return out;
}

}  // namespace rooftile::codegen
