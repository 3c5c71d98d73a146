// SPDX-License-Identifier: Apache-2.0
// oneDNN's softmax and layer normalisation over the last dimension.
#include "rooftile/base/float_convert.h"
#include "rooftile/bench/peers/onednn.h"
#include "rooftile/bench/peers/onednn_common.h"

namespace rooftile::bench {
namespace {

using namespace onednn;

// oneDNN takes scale and shift in f32 only: converted once, as a user of it would.
dnnl::memory as_f32(const TensorView& view) {
  const int64_t count = view.numel();
  dnnl::memory out(row_major({count}, dnnl::memory::data_type::f32), engine());
  auto* values = static_cast<float*>(out.get_data_handle());
  for (int64_t i = 0; i < count; ++i)
    values[i] = static_cast<float>(load_element(view.data, view.dtype, i));
  return out;
}

}  // namespace

Result<std::unique_ptr<Peer>> onednn_softmax(const PeerRequest& request) try {
  if (request.call.attr("scale") != 1) return refusal(request, "softmax has no scale");
  const DType dtype = request.call.config.dtype("x");
  auto type = data_type(request, dtype);
  if (!type) return type.status();
  const std::vector<int64_t> shape = {request.call.dim("T"), request.call.dim("V")};
  const auto desc = row_major(shape, *type);
  const dnnl::softmax_forward::primitive_desc chosen(
      dnnl::softmax_forward::desc(dnnl::prop_kind::forward_inference, desc, 1), engine());
  Chain::Step step{dnnl::softmax_forward(chosen), {}};
  for (const TensorSet& set : request.sets)
    step.args.push_back(
        {{DNNL_ARG_SRC, wrap(desc, set.at("x"))}, {DNNL_ARG_DST, dnnl::memory(desc, engine())}});
  auto peer = std::make_unique<Chain>("softmax", "out", dtype, shape);
  peer->add(std::move(step));
  return std::unique_ptr<Peer>(std::move(peer));
} catch (const dnnl::error& error) {
  return refusal(request, error.what());
}

Result<std::unique_ptr<Peer>> onednn_layer_norm(const PeerRequest& request) try {
  const DType dtype = request.call.config.dtype("x");
  auto type = data_type(request, dtype);
  if (!type) return type.status();
  const std::vector<int64_t> shape = {request.call.dim("T"), request.call.dim("H")};
  const auto desc = row_major(shape, *type);
  const bool bias = request.call.config.has("bias");
  auto flags = dnnl::normalization_flags::use_scale;
  if (bias) flags = flags | dnnl::normalization_flags::use_shift;
  const dnnl::layer_normalization_forward::primitive_desc chosen(
      dnnl::layer_normalization_forward::desc(dnnl::prop_kind::forward_inference, desc,
                                              static_cast<float>(request.call.attr("eps")), flags),
      engine());
  Chain::Step step{dnnl::layer_normalization_forward(chosen), {}};
  for (const TensorSet& set : request.sets) {
    Args args = {{DNNL_ARG_SRC, wrap(desc, set.at("x"))},
                 {DNNL_ARG_DST, dnnl::memory(desc, engine())},
                 {DNNL_ARG_SCALE, as_f32(set.at("weight"))}};
    if (bias) args[DNNL_ARG_SHIFT] = as_f32(set.at("bias"));
    step.args.push_back(std::move(args));
  }
  auto peer = std::make_unique<Chain>("layer_normalization", "out", dtype, shape);
  peer->set_prepacked(bias ? "weight and bias as f32" : "weight as f32");
  peer->add(std::move(step));
  return std::unique_ptr<Peer>(std::move(peer));
} catch (const dnnl::error& error) {
  return refusal(request, error.what());
}

}  // namespace rooftile::bench
