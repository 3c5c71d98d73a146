// SPDX-License-Identifier: Apache-2.0
// Global memory: loads and stores of elements and vectors, and the barriers between those of
// different threads.
#include <algorithm>

#include "rooftile/codegen/gpu/strips.h"

namespace rooftile::codegen {

using ir::DimIndex;
using ir::Node;
using ir::Op;
using lanes::Ins;
using lanes::Ty;
using lanes::Val;

namespace {

Val shifted(Val begin, const Val& coordinate, int64_t step) {
  Val offset = step == 1 ? coordinate : coordinate * lanes::int_val(Ty::kI32, step);
  if (begin.type() != offset.type()) {
    begin = lanes::cast(Ty::kI64, begin);
    offset = lanes::cast(Ty::kI64, offset);
  }
  return begin + offset;
}

lanes::Cache cache_of(gpu::L2 l2) {
  switch (l2) {
    case gpu::L2::kEvictFirst:
      return lanes::Cache::kEvictFirst;
    case gpu::L2::kEvictLast:
      return lanes::Cache::kEvictLast;
    default:
      return lanes::Cache::kPlain;
  }
}

}  // namespace

// ---- one access --------------------------------------------------------------------------------

lanes::Instr Strips::access(const Node& n, Ins ins, const Point& at, int element, int width) {
  lanes::Instr instr;
  instr.ins = ins;
  instr.guard = at.guard;
  instr.dtype = program_.tensor(n.name)->dtype;
  instr.global.tensor = n.name;
  instr.global.width = width;
  for (const DimIndex& dim : n.region) {
    if (dim.kind == DimIndex::kPoint) {
      instr.global.index.push_back(number(dim.begin));
      continue;
    }
    const auto axis = static_cast<size_t>(dim.tile_axis);
    const bool along = axis + 1 == at.at.size();
    const Val coordinate = along && element != 0 ? at.at[axis] + Val(element) : at.at[axis];
    if (dim.kind == DimIndex::kIndirect) {
      Point point;
      point.at = {coordinate};
      point.guard = at.guard;
      instr.global.index.push_back(eval(dim.indirect, point)[0]);
    } else {
      instr.global.index.push_back(shifted(number(dim.begin), coordinate, dim.step));
    }
  }
  const auto copy = plan_.copy.find(n.op == Op::kLoad ? n.label : n.name);
  if (copy != plan_.copy.end()) instr.cache = cache_of(copy->second.l2);
  return instr;
}

// Raw registers of `width` elements from `element` on; wider runs than 16 bytes in pieces.
void Strips::load_run(const Node& n, const Point& at, int element, int width,
                      const std::string& raw, const Val& first) {
  const int bytes = size_bytes(program_.tensor(n.name)->dtype);
  const int piece = std::min(width, 16 / bytes);
  const int words = piece * bytes / 4;
  for (int e = 0; e < width; e += piece) {
    lanes::Instr load = access(n, Ins::kLdGlobal, at, element + e, piece);
    load.results = {{raw, first + Val(e / piece * words), words}};
    emit(lanes::instr(std::move(load)));
  }
}

Vec Strips::load(const Node& n, const Point& at) {
  const DType dtype = program_.tensor(n.name)->dtype;
  for (const auto& [shape, holding] : holdings_) {
    const auto held = holding.raw.find(n.id);
    if (held == holding.raw.end() || !at.held.present()) continue;
    const RawRegisters raw = raw_registers(dtype, holding.width);
    Vec out;
    for (int e = 0; e < at.width; ++e)
      out.push_back(
          unpack_element(dtype, held->second, holding.width, e, at.held * Val(raw.count)));
    return out;
  }
  check_fresh(n);
  const std::string hint = hint_of(n) + "_raw";
  Vec out;
  if (at.width > 1 && vector_accesses_.count({n.id, at.width}) != 0) {
    const RawRegisters raw = raw_registers(dtype, at.width);
    const std::string name = declare_array(raw.type, hint, raw.count);
    if (at.guard.present())
      for (int k = 0; k < raw.count; ++k)
        emit(lanes::assign(name, k,
                           raw.type == Ty::kF32 ? lanes::f32(0) : lanes::int_val(raw.type, 0)));
    load_run(n, at, 0, at.width, name, Val(0));
    for (int e = 0; e < at.width; ++e) out.push_back(unpack_element(dtype, name, at.width, e));
    return out;
  }
  const RawRegisters raw = raw_registers(dtype, 1);
  for (int e = 0; e < at.width; ++e) {
    lanes::Instr load = access(n, Ins::kLdGlobal, at, e, 1);
    Val initial;
    if (at.guard.present())
      initial = raw.type == Ty::kF32 ? lanes::f32(0) : lanes::int_val(raw.type, 0);
    const Val target = declare(raw.type, hint, initial);
    load.results = {{target->name, Val(), 1}};
    emit(lanes::instr(std::move(load)));
    out.push_back(unpack_element(dtype, target->name, 1, 0));
  }
  return out;
}

void Strips::store(const Node& n, const Point& at, const Vec& values) {
  const DType dtype = program_.tensor(n.name)->dtype;
  const DType from = node(n.operands[0]).dtype;
  // Packing rounds floats.
  const bool converts = from != dtype && !(is_float(from) && is_float(dtype));
  Vec elements;
  for (int e = 0; e < at.width; ++e) {
    const Val& value = values.size() == 1 ? values[0] : values[static_cast<size_t>(e)];
    elements.push_back(converts ? element_cast(from, dtype, value) : value);
  }
  const bool adds = n.mode == ir::StoreMode::kAdd;
  const int bytes = size_bytes(dtype);
  const bool vector = at.width > 1 && !adds && vector_accesses_.count({n.id, at.width}) != 0;
  const int piece = vector ? std::min(at.width, 16 / bytes) : 1;
  const RawRegisters raw = raw_registers(dtype, piece);
  for (int e = 0; e < at.width; e += piece) {
    lanes::Instr instr = access(n, adds ? Ins::kRedGlobal : Ins::kStGlobal, at, e, piece);
    const std::vector<Val> part(elements.begin() + e, elements.begin() + e + piece);
    if (raw.count == 0) {
      const Val value = declare(raw.type, n.name + "_new", pack_elements(dtype, part, 1, 0));
      instr.regs = {{value->name, Val(), 1}};
    } else {
      const std::string name = declare_array(raw.type, n.name + "_new", raw.count);
      for (int word = 0; word < raw.count; ++word)
        emit(lanes::assign(name, word, pack_elements(dtype, part, piece, word)));
      instr.regs = {{name, Val(0), raw.count}};
    }
    emit(lanes::instr(std::move(instr)));
  }
}

// ---- which accesses are vectors ----------------------------------------------------------------

bool Strips::vector_access(const Node& n, int width, std::vector<Expr>* conditions) const {
  if (width == 1 || n.region.empty() || n.mode == ir::StoreMode::kAdd) return false;
  const ir::TensorParam& tensor = *program_.tensor(n.name);
  const DimIndex& inner = n.region.back();
  const std::vector<Expr>& shape = n.op == Op::kStore ? node(n.operands[0]).shape : n.shape;
  return tensor.unit_inner_stride && inner.kind == DimIndex::kRange && inner.step == 1 &&
         inner.tile_axis + 1 == static_cast<int>(shape.size()) && !shape.back().is_const(1) &&
         width * size_bytes(tensor.dtype) >= 4 && multiples_.holds(inner.begin, width, conditions);
}

// Loads that an element of `id` is computed from, in the passes of the element's user.
void Strips::reach_loads(ValueId id, std::set<ValueId>* out) const {
  const Node& n = node(id);
  if (fragments_.count(id) != 0) return;
  if (n.op == Op::kLoad) {
    if (!out->insert(id).second) return;
    for (ValueId input : inputs_of(n)) reach_loads(input, out);
    return;
  }
  if (n.op == Op::kCarried || n.op == Op::kResult || n.op == Op::kMma) return;
  for (ValueId input : inputs_of(n))
    if (!is_scalar(node(input))) reach_loads(input, out);
}

void Strips::prepare(const Node& n) {
  for (const DimIndex& dim : n.region)
    if (dim.kind != DimIndex::kIndirect) number(dim.begin);
}

// ---- order -------------------------------------------------------------------------------------

void Strips::sync() {
  lanes::Instr barrier;
  barrier.ins = Ins::kSyncThreads;
  emit(lanes::instr(barrier));
  reads_.clear();
  writes_.clear();
  shared_touched_.clear();
}

// A load that stands before a store in the program must not be made after it.
void Strips::check_fresh(const Node& load) {
  for (ValueId id : stored_) {
    const Node& s = node(id);
    if (id < load.id || !may_alias(program_, s.name, load.name)) continue;
    if (meeting(s, load) == Meeting::kApart) continue;
    fail(load, "`" + load.name + "` is read after it was overwritten", "a store before this use",
         "every use of a load before the stores to its tensor",
         "use the value in the same tile as the store, or copy it to a workspace first");
  }
}

void Strips::order_memory(const std::set<ValueId>& loads, const std::vector<ValueId>& stores,
                          const std::string& mapping) {
  const auto conflict = [&](const Touched& before, ValueId now) {
    const Node &a = node(before.node), &b = node(now);
    if (!may_alias(program_, a.name, b.name)) return false;
    if (a.mode == ir::StoreMode::kAdd && b.mode == ir::StoreMode::kAdd) return false;
    const Meeting m = meeting(a, b);
    return m != Meeting::kApart && !(m == Meeting::kSameElement && before.mapping == mapping);
  };
  bool needed = false;
  for (const Touched& w : writes_) {
    for (ValueId id : loads) needed = needed || conflict(w, id);
    for (ValueId id : stores) needed = needed || conflict(w, id);
  }
  for (const Touched& r : reads_)
    for (ValueId id : stores) needed = needed || conflict(r, id);
  if (needed) sync();
  note_accesses(loads, stores, mapping);
}

void Strips::note_accesses(const std::set<ValueId>& loads, const std::vector<ValueId>& stores,
                           const std::string& mapping) {
  for (ValueId id : loads) reads_.push_back({id, mapping});
  for (ValueId id : stores) writes_.push_back({id, mapping});
}

}  // namespace rooftile::codegen
