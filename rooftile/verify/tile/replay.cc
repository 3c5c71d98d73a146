// SPDX-License-Identifier: Apache-2.0
#include "rooftile/verify/tile/replay.h"

#include "rooftile/verify/tile/example_call.h"

namespace rooftile::verify {

namespace {

constexpr int64_t kMostElements = int64_t{1} << 21;

}  // namespace

std::optional<Status> replay(const ir::Program& program, const Env& call) {
  std::optional<ExampleCall> made = example_call(program, call);
  if (!made) return std::nullopt;
  ir::InterpTensors tensors = std::move(made->index);
  for (const ir::TensorParam& t : program.tensors) {
    int64_t count = 1;
    NdArray array;
    for (const Expr& extent : t.shape) {
      const std::optional<int64_t> n = evaluate(extent, made->ints);
      if (!n || *n < 0 || *n > kMostElements) return std::nullopt;
      array.shape.push_back(*n);
      count *= *n;
      if (count > kMostElements) return std::nullopt;
    }
    if (t.role == ir::Role::kWorkspace || tensors.count(t.name) > 0) continue;
    array.data.assign(static_cast<size_t>(count), 0.0);
    tensors[t.name] = std::move(array);
  }
  return ir::interpret(program, made->ints, made->floats, tensors);
}

}  // namespace rooftile::verify
