// SPDX-License-Identifier: Apache-2.0
// oneDNN's matmul with post-operations, for the operators that multiply matrices. Weights are given
// in the format that the primitive asks for when the operator takes them packed as well, and as
// they lie otherwise.
#include "rooftile/bench/peers/onednn.h"
#include "rooftile/bench/peers/onednn_common.h"

namespace rooftile::bench {
namespace {

using namespace onednn;
using Dims = dnnl::memory::dims;

// One product and what follows it.
struct Product {
  std::string a, b, d;
  bool b_transposed = true;  // b is [N, K]
  bool pack_b = false;
  Dims batch;  // {} or {B}
  int64_t M = 0, N = 0, K = 0;
  std::string bias, c;     // "" for none
  std::string activation;  // "none", "relu", ...
  float alpha = 1, beta = 1;
  bool multiply_c = false;  // d *= c instead of d += c
};

// Tensors that are made here, not by the caller.
using Extra = std::map<std::string, std::vector<dnnl::memory>, std::less<>>;

const std::string& choice_of(const OpDef& op, const Config& config, std::string_view flag) {
  for (const FlagDef& def : op.flags)
    if (def.name == flag) return def.values[static_cast<size_t>(config.flag(flag))];
  static const std::string kNone = "none";
  return kNone;
}

Status add_activation(const PeerRequest& request, const std::string& activation,
                      dnnl::post_ops& post) {
  using dnnl::algorithm;
  if (activation == "relu")
    post.append_eltwise(1.f, algorithm::eltwise_relu, 0.f, 0.f);
  else if (activation == "silu")
    post.append_eltwise(1.f, algorithm::eltwise_swish, 1.f, 0.f);
  else if (activation == "gelu")
    post.append_eltwise(1.f, algorithm::eltwise_gelu_erf, 0.f, 0.f);
  else if (activation == "gelu_tanh")
    post.append_eltwise(1.f, algorithm::eltwise_gelu_tanh, 0.f, 0.f);
  else if (activation != "none")
    return refusal(request, "no activation " + activation);
  return {};
}

Dims with(Dims lead, int64_t rows, int64_t columns) {
  lead.push_back(rows);
  lead.push_back(columns);
  return lead;
}

// b as a [K, N] matrix, however it lies.
dnnl::memory::desc weights_desc(const Product& p, dnnl::memory::data_type type) {
  const Dims dims = with(p.batch, p.K, p.N);
  if (!p.b_transposed) return row_major(dims, type);
  Dims strides = p.batch.empty() ? Dims{} : Dims{p.K * p.N};
  strides.push_back(1);
  strides.push_back(p.K);
  return dnnl::memory::desc(dims, type, strides);
}

Result<Chain::Step> product_step(const PeerRequest& request, const Product& p, const Extra& extra,
                                 DType d_dtype) {
  const Config& config = request.call.config;
  auto a_type = data_type(request, config.dtype(p.a)),
       b_type = data_type(request, config.dtype(p.b));
  auto d_type = data_type(request, d_dtype);
  if (!a_type || !b_type || !d_type) return (!a_type ? a_type : !b_type ? b_type : d_type).status();
  if (p.alpha != 1 && !p.bias.empty())
    return refusal(request, "the scale would apply to the bias too");
  if (!p.c.empty() && p.beta != 1) return refusal(request, "a residual only with factor 1");

  const auto a_desc = row_major(with(p.batch, p.M, p.K), *a_type);
  const auto b_desc = weights_desc(p, *b_type);
  const auto d_desc = row_major(with(p.batch, p.M, p.N), *d_type);
  dnnl::primitive_attr attr;
  if (p.alpha != 1) attr.set_output_scales(0, {p.alpha});
  dnnl::post_ops post;
  RT_RETURN_IF_ERROR(add_activation(request, p.activation, post));
  dnnl::memory::desc c_desc;
  if (!p.c.empty()) {
    const auto own = extra.find(p.c);
    auto c_type = data_type(request, own == extra.end() ? config.dtype(p.c) : d_dtype);
    if (!c_type) return c_type.status();
    c_desc = row_major(with(p.batch, p.M, p.N), *c_type);
    post.append_binary(p.multiply_c ? dnnl::algorithm::binary_mul : dnnl::algorithm::binary_add,
                       c_desc);
  }
  attr.set_post_ops(post);
  dnnl::memory::desc bias_desc;
  if (!p.bias.empty()) {
    auto bias_type = data_type(request, config.dtype(p.bias));
    if (!bias_type) return bias_type.status();
    bias_desc = row_major(with(p.batch.empty() ? Dims{} : Dims{1}, 1, p.N), *bias_type);
  }

  const auto b_any = dnnl::memory::desc(b_desc.dims(), *b_type, dnnl::memory::format_tag::any);
  const auto& b_wanted = p.pack_b ? b_any : b_desc;
  const auto desc = p.bias.empty() ? dnnl::matmul::desc(a_desc, b_wanted, d_desc)
                                   : dnnl::matmul::desc(a_desc, b_wanted, bias_desc, d_desc);
  const dnnl::matmul::primitive_desc chosen(desc, attr, engine());

  Chain::Step step{dnnl::matmul(chosen), {}};
  for (size_t set = 0; set < request.sets.size(); ++set) {
    const TensorSet& tensors = request.sets[set];
    Args args;
    args[DNNL_ARG_SRC] = wrap(a_desc, tensors.at(p.a));
    args[DNNL_ARG_WEIGHTS] = in_format(wrap(b_desc, tensors.at(p.b)), chosen.weights_desc());
    if (!p.bias.empty()) args[DNNL_ARG_BIAS] = wrap(bias_desc, tensors.at(p.bias));
    if (!p.c.empty()) {
      const auto own = extra.find(p.c);
      args[DNNL_ARG_ATTR_MULTIPLE_POST_OP(post.len() - 1) | DNNL_ARG_SRC_1] =
          own == extra.end() ? wrap(c_desc, tensors.at(p.c)) : own->second[set];
    }
    args[DNNL_ARG_DST] = dnnl::memory(d_desc, engine());
    step.args.push_back(std::move(args));
  }
  return step;
}

std::string chosen_weights(const Product& p) {
  return p.pack_b ? p.b + " in the primitive's own format" : "";
}

}  // namespace

Result<std::unique_ptr<Peer>> onednn_gemm(const PeerRequest& request) try {
  const RefCall& call = request.call;
  Product p;
  p.a = "a", p.b = "b", p.d = "d";
  p.b_transposed = choice_of(request.op, call.config, "layout") != "nn";
  p.pack_b = call.config.flags.count("packed_b") > 0 && call.config.flag("packed_b") != 0;
  if (call.dims.count("B") > 0) p.batch = {call.dim("B")};
  p.M = call.dim("M"), p.N = call.dim("N"), p.K = call.dim("K");
  if (call.config.has("bias")) p.bias = "bias";
  p.alpha = static_cast<float>(call.attr("alpha")), p.beta = static_cast<float>(call.attr("beta"));
  if (call.config.has("c") && p.beta != 0) p.c = "c";
  p.activation = choice_of(request.op, call.config, "activation");

  const DType d_dtype = call.config.dtype("d");
  auto step = product_step(request, p, {}, d_dtype);
  if (!step) return step.status();
  auto peer = std::make_unique<Chain>("matmul", "d", d_dtype, with(p.batch, p.M, p.N));
  peer->set_prepacked(chosen_weights(p));
  peer->add(std::move(*step));
  return std::unique_ptr<Peer>(std::move(peer));
} catch (const dnnl::error& error) {
  return refusal(request, error.what());
}

Result<std::unique_ptr<Peer>> onednn_gated_mlp(const PeerRequest& request) try {
  const RefCall& call = request.call;
  Product gate;
  gate.a = "x", gate.b = "w_gate";
  gate.pack_b = call.config.flag("packed_b") != 0;
  gate.M = call.dim("M"), gate.N = call.dim("I"), gate.K = call.dim("K");
  gate.activation = choice_of(request.op, call.config, "activation");
  Product up = gate;
  up.b = "w_up", up.activation = "none", up.c = "gate", up.multiply_c = true;

  const DType dtype = call.config.dtype("out");
  auto first = product_step(request, gate, {}, dtype);
  if (!first) return first.status();
  Extra extra;
  for (const Args& args : first->args) extra["gate"].push_back(args.at(DNNL_ARG_DST));
  auto second = product_step(request, up, extra, dtype);
  if (!second) return second.status();
  auto peer =
      std::make_unique<Chain>("matmul x2", "out", dtype, std::vector<int64_t>{gate.M, gate.N});
  if (gate.pack_b) peer->set_prepacked("w_gate and w_up in the primitives' own format");
  peer->add(std::move(*first));
  peer->add(std::move(*second));
  return std::unique_ptr<Peer>(std::move(peer));
} catch (const dnnl::error& error) {
  return refusal(request, error.what());
}

}  // namespace rooftile::bench
