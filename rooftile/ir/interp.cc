// SPDX-License-Identifier: Apache-2.0
// Control flow of the interpreter; memory is in interp_memory.cc, arithmetic in tile_compute.cc.
#include "rooftile/ir/interp.h"

#include <algorithm>
#include <memory>

#include "rooftile/base/float_convert.h"
#include "rooftile/ir/interp_memory.h"
#include "rooftile/ir/tile_value.h"
#include "rooftile/ir/types.h"

namespace rooftile::ir {
namespace {

using ValuePtr = std::shared_ptr<const TileValue>;

class Interpreter {
 public:
  Interpreter(const Program& program, const Env& ints, const FloatAttrs& floats,
              InterpTensors& tensors, const InterpOptions& options)
      : program_(program),
        env_(ints),
        floats_(floats),
        options_(options),
        memory_(program, env_, tensors),
        values_(program.nodes.size()),
        loop_state_(program.nodes.size()) {}

  Status run() {
    RT_RETURN_IF_ERROR(memory_.bind());
    RT_RETURN_IF_ERROR(run_block(program_.body));
    if (options_.outputs_complete) RT_RETURN_IF_ERROR(memory_.check_outputs_complete());
    return {};
  }

 private:
  Status run_block(const Block& block) {
    for (ValueId id : block.nodes) RT_RETURN_IF_ERROR(run_node(program_.node(id)));
    return {};
  }

  Status run_node(const Node& n) {
    switch (n.op) {
      case Op::kTiles:
        return run_tiles(n);
      case Op::kLoop:
        return run_loop(n);
      case Op::kWhen:
        return run_when(n);
      case Op::kStore:
        return run_store(n);
      default:
        break;
    }
    Result<TileValue> value = evaluate_node(n);
    if (!value.ok()) {
      Diag diag = value.diag();
      if (diag.subject.empty()) diag.subject = program_.name;
      if (diag.when.empty()) diag.when = memory_.indices();
      return diag;
    }
    set(n.id, std::make_shared<TileValue>(std::move(*value)));
    return {};
  }

  void set(ValueId id, ValuePtr value) { values_[static_cast<size_t>(id)] = std::move(value); }
  const ValuePtr& get(ValueId id) const { return values_[static_cast<size_t>(id)]; }

  Result<TileValue> evaluate_node(const Node& n) {
    const auto axis = static_cast<size_t>(n.axis);
    switch (n.op) {
      case Op::kCarried:
      case Op::kResult:
        return *loop_state_[static_cast<size_t>(n.operands[0])][axis];
      case Op::kScalar: {
        auto it = floats_.find(n.name);
        if (it == floats_.end()) return unbound_attribute(n).diag();
        TileValue value(DType::kF32, {});
        const bool declared = options_.numerics == InterpOptions::kDeclared;
        value.floats[0] =
            declared ? static_cast<double>(static_cast<float>(it->second)) : it->second;
        return value;
      }
      case Op::kFromIndex: {
        Result<int64_t> index = memory_.value_of(n.expr, n);
        if (!index.ok()) return index.diag();
        TileValue value(DType::kI64, {});
        value.ints[0] = *index;
        return value;
      }
      default:
        break;
    }
    Result<std::vector<int64_t>> shape = memory_.shape_of(n.shape, n);
    if (!shape.ok()) return shape.diag();
    if (n.op == Op::kLoad) return load(n, std::move(*shape));
    Result<int64_t> begin = memory_.value_of(n.expr, n);
    if (!begin.ok()) return begin.diag();
    std::vector<const TileValue*> operands;
    for (ValueId id : n.operands) operands.push_back(get(id).get());
    return compute(n, std::move(*shape), *begin, operands, options_.numerics);
  }

  Status unbound_attribute(const Node& n) const {
    Diag diag;
    diag.code = ErrorCode::kIrStructure;
    diag.message = "the float attribute `" + n.name + "` has no value";
    diag.at = n.loc;
    return diag;
  }

  // ---- memory ----

  std::vector<const TileValue*> index_tiles(const Node& n) const {
    std::vector<const TileValue*> out;
    for (const DimIndex& dim : n.region)
      out.push_back(dim.kind == DimIndex::kIndirect ? get(dim.indirect).get() : nullptr);
    return out;
  }

  Result<TileValue> load(const Node& n, std::vector<int64_t> shape) {
    TileValue value(n.dtype, std::move(shape));
    RT_RETURN_IF_ERROR(memory_.load(n, index_tiles(n), value));
    return value;
  }

  Status run_store(const Node& n) {
    const bool declared = options_.numerics == InterpOptions::kDeclared;
    return memory_.store(n, index_tiles(n), *get(n.operands[0]), declared);
  }

  // ---- regions ----

  // All indices of the space, the last one fastest.
  Status run_tiles(const Node& n) {
    Result<std::vector<int64_t>> extents = memory_.shape_of(n.extents, n);
    if (!extents.ok()) return extents.diag();
    int64_t total = 1;
    for (int64_t extent : *extents) total *= extent;
    memory_.begin_phase();
    for (int64_t tile = 0; tile < total; ++tile) {
      int64_t rest = tile;
      for (size_t axis = n.vars.size(); axis-- > 0;) {
        env_[n.vars[axis]] = rest % (*extents)[axis];
        rest /= (*extents)[axis];
      }
      memory_.begin_tile(tile, n.vars);
      RT_RETURN_IF_ERROR(run_block(n.block));
    }
    for (const std::string& var : n.vars) env_.erase(var);
    memory_.end_phase();
    return {};
  }

  Status run_loop(const Node& n) {
    int64_t bounds[3];
    const Expr* const exprs[3] = {&n.begin, &n.end, &n.step};
    for (int i = 0; i < 3; ++i) {
      Result<int64_t> value = memory_.value_of(*exprs[i], n);
      if (!value.ok()) return value.diag();
      bounds[i] = *value;
    }
    if (bounds[2] < 1)
      return memory_.problem(n, ErrorCode::kIrStructure, "loop step is below 1", n.step.str(),
                             ">= 1");
    std::vector<ValuePtr> carried;
    for (ValueId id : n.operands) carried.push_back(get(id));
    const auto id = static_cast<size_t>(n.id);
    loop_state_[id] = std::move(carried);
    memory_.push_index(n.name);
    for (int64_t i = bounds[0]; i < bounds[1]; i += bounds[2]) {
      env_[n.name] = i;
      RT_RETURN_IF_ERROR(run_block(n.block));
      std::vector<ValuePtr> next;
      for (ValueId yielded : n.block.yields) next.push_back(get(yielded));
      loop_state_[id] = std::move(next);
    }
    memory_.pop_index();
    env_.erase(n.name);
    return {};
  }

  Status run_when(const Node& n) {
    Result<int64_t> condition = memory_.value_of(n.expr, n);
    if (!condition.ok()) return condition.diag();
    return *condition != 0 ? run_block(n.block) : Status();
  }

  const Program& program_;
  Env env_;
  const FloatAttrs& floats_;
  const InterpOptions options_;
  InterpMemory memory_;
  std::vector<ValuePtr> values_;
  std::vector<std::vector<ValuePtr>> loop_state_;  // of each loop, what its carried values hold now
};

}  // namespace

Status interpret(const Program& program, const Env& ints, const FloatAttrs& floats,
                 InterpTensors& tensors, const InterpOptions& options) {
  return Interpreter(program, ints, floats, tensors, options).run();
}

}  // namespace rooftile::ir
