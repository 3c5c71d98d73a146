// SPDX-License-Identifier: Apache-2.0
// One function per operator below turns the model's sizes into that operator's dims; the blocks
// string them together in the order of a decoder layer.
#include "rooftile/report/step.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace rooftile::report {
namespace {

constexpr int64_t kPageSize = 16;  // tokens a page of the cache, as serving engines choose

// The shortest text that reads back as the same number.
std::string number(double value) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, value).ptr;
  return {text, end};
}

// Builds instances of one step; the model's sizes under the names used in the formulas.
class Deriver {
 public:
  Deriver(const ModelConfig& model, const StepRequest& request)
      : model_(model),
        request_(request),
        decode_(request.phase == Phase::kDecode),
        rows_(decode_ ? request.batch : request.batch * request.tokens),
        context_(decode_ ? request.context : request.tokens),
        pages_((context_ + kPageSize - 1) / kPageSize),
        layers_(model.num_layers) {}

  Step derive();

 private:
  OpInstance make(std::string role, std::string op, Env dims, int64_t count,
                  int64_t parameters) const;
  OpInstance gemm(std::string role, int64_t m, int64_t n, int64_t k, bool bias,
                  int64_t count) const;
  OpInstance rms_norm(std::string role, int64_t rows, int64_t width, int64_t count,
                      int64_t parameters) const;
  OpInstance add_rms_norm() const;
  OpInstance gated_mlp() const;
  OpInstance rope() const;
  OpInstance append() const;
  OpInstance attention(int64_t window, int64_t layers) const;
  void push(OpInstance instance) { step_.ops.push_back(std::move(instance)); }
  void push_fusion(std::string what, bool chained, std::vector<OpInstance> parts);
  void attention_block();
  void mlp_block();
  void head();

  const ModelConfig& model_;
  const StepRequest& request_;
  const bool decode_;
  const int64_t rows_;     // tokens processed
  const int64_t context_;  // tokens a request sees at most
  const int64_t pages_;    // of the cache, a request
  const int64_t layers_;
  Step step_;
};

OpInstance Deriver::make(std::string role, std::string op, Env dims, int64_t count,
                         int64_t parameters) const {
  OpInstance instance;
  instance.role = std::move(role);
  instance.call.op = std::move(op);
  instance.call.dims = std::move(dims);
  instance.call.options["dtype"] = name(model_.dtype);
  instance.count = count;
  instance.parameters = parameters;
  return instance;
}

// d[M,N] = a[M,K] b[N,K]^T (+ bias[N]): a linear layer. Weights are used in every step: packed
// once, beforehand.
OpInstance Deriver::gemm(std::string role, int64_t m, int64_t n, int64_t k, bool bias,
                         int64_t count) const {
  OpInstance instance =
      make(std::move(role), "gemm", {{"M", m}, {"N", n}, {"K", k}}, count, n * k + (bias ? n : 0));
  instance.call.options["packed_b"] = "1";
  if (bias) instance.call.options["bias"] = name(model_.dtype);
  return instance;
}

OpInstance Deriver::rms_norm(std::string role, int64_t rows, int64_t width, int64_t count,
                             int64_t parameters) const {
  OpInstance instance =
      make(std::move(role), "rms_norm", {{"T", rows}, {"H", width}}, count, parameters);
  instance.call.options["eps"] = number(model_.rms_norm_eps);
  return instance;
}

// The residual stream's norms: one after attention in each layer, one after the MLP (the next
// layer's first, and the final one after the last layer).
OpInstance Deriver::add_rms_norm() const {
  OpInstance instance =
      make("residual_norm", "add_rms_norm", {{"T", rows_}, {"H", model_.hidden_size}}, 2 * layers_,
           model_.hidden_size);
  instance.call.options["eps"] = number(model_.rms_norm_eps);
  return instance;
}

// out[M,I] = silu(x Wg^T) * (x Wu^T)
OpInstance Deriver::gated_mlp() const {
  const int64_t inner = model_.intermediate_size, hidden = model_.hidden_size;
  OpInstance instance =
      make("gate_up_proj", "gated_mlp", {{"M", rows_}, {"I", inner}, {"K", hidden}}, layers_,
           2 * inner * hidden);
  instance.call.options["packed_b"] = "1";
  return instance;
}

OpInstance Deriver::rope() const {
  OpInstance instance = make("rope", "rope",
                             {{"T", rows_},
                              {"Hq", model_.num_heads},
                              {"Hk", model_.num_kv_heads},
                              {"D", model_.head_dim},
                              {"R", model_.head_dim},
                              {"P", context_}},
                             layers_, 0);
  instance.call.options["k"] = name(model_.dtype);
  return instance;
}

OpInstance Deriver::append() const {
  return make("kv_append", "append_paged_kv",
              {{"T", rows_},
               {"Hkv", model_.num_kv_heads},
               {"D", model_.head_dim},
               {"P", request_.batch * pages_},
               {"S", kPageSize}},
              layers_, 0);
}

OpInstance Deriver::attention(int64_t window, int64_t layers) const {
  const std::string role = window > 0 && layers < layers_ ? "attention (window)" : "attention";
  OpInstance instance = make(
      role, decode_ ? "attention_decode" : "attention_prefill",
      {{"Hq", model_.num_heads}, {"Hkv", model_.num_kv_heads}, {"D", model_.head_dim}}, layers, 0);
  Env& dims = instance.call.dims;
  auto& options = instance.call.options;
  options["scale"] = number(1 / std::sqrt(static_cast<double>(model_.head_dim)));
  // The window counts the query's own token; the operators count the tokens to its left.
  if (window > 0) options["window_left"] = std::to_string(window - 1);
  if (decode_) {
    options["kv_layout"] = "paged";
    options["block_table"] = "1";
    dims["B"] = request_.batch;
    dims["MP"] = pages_;
    dims["P"] = request_.batch * pages_;
    dims["S"] = kPageSize;
    return instance;
  }
  options["causal"] = "1";
  dims["Tq"] = dims["Tk"] = rows_;
  if (request_.batch > 1) {
    dims["B1"] = request_.batch + 1;
    options["cu_q"] = options["cu_k"] = "1";
  }
  return instance;
}

void Deriver::push_fusion(std::string what, bool chained, std::vector<OpInstance> parts) {
  step_.fusions.push_back({std::move(what), step_.ops.size() - 1, std::move(parts), chained});
}

void Deriver::attention_block() {
  const int64_t hidden = model_.hidden_size, q = model_.q_size(), kv = model_.kv_size();
  push(gemm("qkv_proj", rows_, q + 2 * kv, hidden, model_.qkv_bias, layers_));
  push_fusion("Q, K and V projections in one product", false,
              {gemm("q_proj", rows_, q, hidden, model_.qkv_bias, 1),
               gemm("k_proj and v_proj", rows_, kv, hidden, model_.qkv_bias, 2)});
  if (model_.qk_norm) {
    push(rms_norm("q_norm", rows_ * model_.num_heads, model_.head_dim, layers_, model_.head_dim));
    push(
        rms_norm("k_norm", rows_ * model_.num_kv_heads, model_.head_dim, layers_, model_.head_dim));
  }
  push(rope());
  push(append());
  if (model_.num_window_layers > 0)
    push(attention(model_.sliding_window, model_.num_window_layers));
  if (model_.num_window_layers < layers_) push(attention(0, layers_ - model_.num_window_layers));
  push(gemm("o_proj", rows_, hidden, q, model_.o_bias, layers_));
}

void Deriver::mlp_block() {
  const int64_t hidden = model_.hidden_size, inner = model_.intermediate_size;
  push(add_rms_norm());
  OpInstance add = make("add", "add", {{"T", rows_}, {"H", hidden}}, 1, 0);
  push_fusion("residual addition inside the norm", true,
              {add, rms_norm("norm", rows_, hidden, 1, hidden)});

  const OpInstance activation =
      make("silu_and_mul", "silu_and_mul", {{"T", rows_}, {"H", inner}}, 1, 0);
  if (model_.mlp_bias) {
    // The fused product has no bias; nothing falls back silently, the list simply shows the two
    // operators.
    push(gemm("gate_up_proj", rows_, 2 * inner, hidden, true, layers_));
    push(activation);
    step_.ops.back().count = layers_;
  } else {
    push(gated_mlp());
    push_fusion("silu(gate) * up inside the product", true,
                {gemm("gate_up_proj", rows_, 2 * inner, hidden, false, 1), activation});
  }
  push(gemm("down_proj", rows_, hidden, inner, model_.mlp_bias, layers_));
}

// Only the last token of each prompt needs logits.
void Deriver::head() {
  OpInstance logits =
      gemm("lm_head", request_.batch, model_.vocab_size, model_.hidden_size, false, 1);
  if (model_.tie_word_embeddings) logits.parameters = 0;  // the embedding's
  push(std::move(logits));
  const char* rows = request_.sample ? "B" : "T";
  const char* op = request_.sample ? "sample" : "argmax";
  OpInstance next = make(op, op, {{rows, request_.batch}, {"V", model_.vocab_size}}, 1, 0);
  if (request_.sample) next.call.options["top_k"] = next.call.options["top_p"] = "1";  // given
  push(std::move(next));
}

Step Deriver::derive() {
  const int64_t hidden = model_.hidden_size;
  push(make("embedding", "embedding", {{"T", rows_}, {"V", model_.vocab_size}, {"H", hidden}}, 1,
            model_.vocab_size * hidden));
  push(rms_norm("input_norm", rows_, hidden, 1, hidden));
  attention_block();
  mlp_block();
  head();
  step_.model = model_;
  step_.request = request_;
  return std::move(step_);
}

Diag out_of_range(const ModelConfig& model, std::string argument, int64_t found,
                  std::string expected) {
  Diag diag;
  diag.code = ErrorCode::kUsage;
  diag.subject = model.name;
  diag.message = "the step asked for is outside the model's range";
  diag.argument = std::move(argument);
  diag.found = std::to_string(found);
  diag.expected = std::move(expected);
  return diag;
}

}  // namespace

std::string_view phase_name(Phase phase) { return phase == Phase::kPrefill ? "prefill" : "decode"; }

int64_t Step::tokens() const {
  return request.phase == Phase::kPrefill ? request.batch * request.tokens : request.batch;
}

int64_t Step::parameters() const {
  int64_t total = 0;
  for (const OpInstance& instance : ops) total += instance.count * instance.parameters;
  return total;
}

Result<Step> derive_step(const ModelConfig& model, const StepRequest& request) {
  constexpr int64_t kMaxBatch = 4096;
  if (request.batch < 1 || request.batch > kMaxBatch)
    return out_of_range(model, "--batch", request.batch, "1 to " + std::to_string(kMaxBatch));
  const std::string positions =
      "1 to max_position_embeddings = " + std::to_string(model.max_positions);
  const bool prefill = request.phase == Phase::kPrefill;
  const int64_t length = prefill ? request.tokens : request.context;
  if (length < 1 || length > model.max_positions)
    return out_of_range(model, prefill ? "--tokens" : "--context", length, positions);
  return Deriver(model, request).derive();
}

std::string OpCall::text() const {
  std::string text;
  for (const auto& [dim, value] : dims)
    text += (text.empty() ? "" : " ") + dim + "=" + std::to_string(value);
  for (const auto& [option, value] : options) text += " " + option + "=" + value;
  return text;
}

}  // namespace rooftile::report
