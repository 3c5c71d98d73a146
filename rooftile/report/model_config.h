// SPDX-License-Identifier: Apache-2.0
// ModelConfig: what a transformer's public config.json says about its shapes, checked.
//
// The input is the file as published, in its own format. Fields that do not change shapes or
// arithmetic are ignored; those that do are read with the defaults of the model's family, and a
// value that is missing, of the wrong type, contradictory or not supported is refused (RT-M002)
// with the field's name, what was found and what is expected.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "rooftile/base/diag.h"
#include "rooftile/base/dtype.h"

namespace rooftile::report {

enum class Architecture : uint8_t { kLlama, kQwen2, kQwen3, kMistral };
std::string_view architecture_name(Architecture architecture);  // "LlamaForCausalLM"

// How positions beyond the training length are mapped; it changes the rotary tables, not the
// shapes.
struct RopeScaling {
  std::string type;  // "linear", "llama3" or "yarn"
  double factor = 1;
  double low_freq_factor = 0, high_freq_factor = 0;  // llama3
  int64_t original_max_positions = 0;                // llama3, yarn
};

struct ModelConfig {
  std::string name;  // the file's stem: "llama-3-8b"
  Architecture architecture = Architecture::kLlama;
  int64_t hidden_size = 0;
  int64_t num_layers = 0;
  int64_t num_heads = 0;
  int64_t num_kv_heads = 0;
  int64_t head_dim = 0;
  int64_t intermediate_size = 0;
  int64_t vocab_size = 0;
  int64_t max_positions = 0;
  double rms_norm_eps = 1e-6;
  double rope_theta = 10000;
  std::optional<RopeScaling> rope_scaling;
  bool tie_word_embeddings = false;
  bool qkv_bias = false;
  bool o_bias = false;
  bool mlp_bias = false;
  bool qk_norm = false;           // Qwen3: an RMSNorm over each head of q and k
  int64_t sliding_window = 0;     // tokens a query sees, itself included; 0: all
  int64_t num_window_layers = 0;  // layers that have the window; the others see everything
  DType dtype = DType::kBf16;

  int64_t q_size() const { return num_heads * head_dim; }
  int64_t kv_size() const { return num_kv_heads * head_dim; }
};

// RT-M002 unless the text is a supported and consistent config.json. `name` is used in messages.
Result<ModelConfig> parse_model_config(std::string_view json_text, std::string name);

// Reads `path`; when there is no such file, tries it relative to the source tree and then as the
// name of a shipped model ("qwen2.5-0.5b"). RT-M001 if nothing is found.
Result<ModelConfig> load_model_config(const std::string& path);

}  // namespace rooftile::report
