// SPDX-License-Identifier: Apache-2.0
// Float64 reference of add_rms_norm, and the two operators one after the other that it replaces.
#include <cmath>

#include "rooftile/base/float_convert.h"
#include "rooftile/ops/op_def.h"

namespace rooftile::ops {

// The sum of two stored values is exact in double or rounds to f32 and to the storage type as if it
// were: 53 bits are more than twice 24 plus two, and 24 are at least twice the 11 of f16 plus two.
static void add_to_residual(RefCall& call) {
  const NdArray& x = call["x"];
  NdArray& residual = call["residual"];
  const DType dtype = call.config.dtype("x");
  for (size_t i = 0; i < residual.data.size(); ++i)
    residual.data[i] = round_to(static_cast<float>(x.data[i] + residual.data[i]), dtype);
}

void add_rms_norm_ref(RefCall& call) {
  add_to_residual(call);
  const NdArray& residual = call["residual"];
  const NdArray& weight = call["weight"];
  NdArray& out = call["out"];
  const int64_t rows = call.dim("T"), columns = call.dim("H");
  const double offset = call.config.flag("weight_plus_one") ? 1.0 : 0.0;
  for (int64_t t = 0; t < rows; ++t) {
    double squares = 0;
    for (int64_t h = 0; h < columns; ++h) squares += residual({t, h}) * residual({t, h});
    const double root = std::sqrt(squares / static_cast<double>(columns) + call.attr("eps"));
    for (int64_t h = 0; h < columns; ++h)
      out({t, h}) = residual({t, h}) / root * (offset + weight({h}));
  }
}

// Add, store, then the reference of rms_norm on what was stored.
Status add_then_rms_norm(RefCall& call) {
  const OpDef* rms_norm = find_op("rms_norm");
  add_to_residual(call);
  RefCall norm;
  norm.dims = call.dims;
  norm.attrs = call.attrs;
  norm.config.flags = call.config.flags;
  for (const char* tensor : {"out", "x", "weight"})
    norm.config.dtypes[tensor] = call.config.dtype(tensor);
  norm.tensors["x"] = call["residual"];
  norm.tensors["weight"] = call["weight"];
  norm.tensors["out"] = call["out"];
  rms_norm->reference_fn(norm);
  call["out"] = norm["out"];
  return {};
}

}  // namespace rooftile::ops
