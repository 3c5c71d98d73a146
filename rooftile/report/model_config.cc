// SPDX-License-Identifier: Apache-2.0
// Reads config.json field by field. Defaults are those of the family's public model code: what a
// file leaves out means the same here as there.
#include "rooftile/report/model_config.h"

#include <array>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <vector>

namespace rooftile::report {
namespace {

using Json = nlohmann::json;

struct Family {
  Architecture architecture;
  std::string_view name;        // in "architectures"
  std::string_view model_type;  // in "model_type"
};
constexpr std::array<Family, 4> kFamilies = {{
    {Architecture::kLlama, "LlamaForCausalLM", "llama"},
    {Architecture::kQwen2, "Qwen2ForCausalLM", "qwen2"},
    {Architecture::kQwen3, "Qwen3ForCausalLM", "qwen3"},
    {Architecture::kMistral, "MistralForCausalLM", "mistral"},
}};

// Reads fields of one JSON object and keeps the first refusal; later reads then return defaults, so
// that callers read all they need in a straight line and ask once at the end.
class Fields {
 public:
  // `prefix` qualifies the names of a nested object's fields: "rope_scaling.".
  Fields(const Json& object, std::string subject, std::string prefix = "")
      : object_(object), subject_(std::move(subject)), prefix_(std::move(prefix)) {}

  bool has(const char* field) const { return object_.contains(field) && !object_[field].is_null(); }

  int64_t integer(const char* field, std::optional<int64_t> fallback = std::nullopt,
                  int64_t at_least = 1) {
    const std::string expected = "an integer, at least " + std::to_string(at_least);
    if (!has(field)) return fallback ? *fallback : missing(field, expected);
    const Json& value = object_[field];
    // 2^31 - 1 bounds every size: products of two fit in 64 bits, index tensors hold any position.
    if (!value.is_number_integer() || value < at_least || value > INT32_MAX)
      return refuse(field, "is not a valid size", value.dump(), expected);
    return value.get<int64_t>();
  }

  double positive(const char* field, std::optional<double> fallback = std::nullopt) {
    if (!has(field)) return fallback ? *fallback : double(missing(field, "a positive number"));
    const Json& value = object_[field];
    if (!value.is_number() || !(value.get<double>() > 0))
      return double(refuse(field, "is not a positive number", value.dump(), "a positive number"));
    return value.get<double>();
  }

  bool boolean(const char* field, bool fallback) {
    if (!has(field)) return fallback;
    const Json& value = object_[field];
    if (!value.is_boolean())
      return refuse(field, "is not a boolean", value.dump(), "true or false") != 0;
    return value.get<bool>();
  }

  std::string text(const char* field, std::optional<std::string> fallback = std::nullopt) {
    if (!has(field)) {
      if (!fallback) missing(field, "a string");
      return fallback.value_or("");
    }
    const Json& value = object_[field];
    if (!value.is_string()) refuse(field, "is not a string", value.dump(), "a string");
    return value.is_string() ? value.get<std::string>() : "";
  }

  const Json& raw(const char* field) const { return object_[field]; }

  int64_t refuse(std::string_view field, std::string_view problem, std::string found,
                 std::string expected, std::string when = "") {
    if (status_.ok()) {
      Diag diag;
      diag.code = ErrorCode::kModelConfig;
      diag.subject = subject_;
      diag.argument = prefix_ + std::string(field);
      diag.message = "field `" + diag.argument + "` " + std::string(problem);
      diag.found = std::move(found);
      diag.expected = std::move(expected);
      diag.when = std::move(when);
      status_ = diag;
    }
    return 0;
  }

  void adopt(const Status& status) {
    if (status_.ok()) status_ = status;
  }
  const Status& status() const { return status_; }
  const std::string& subject() const { return subject_; }

 private:
  int64_t missing(const char* field, std::string expected) {
    return refuse(field, "is missing", object_.contains(field) ? "null" : "no such field",
                  std::move(expected));
  }

  const Json& object_;
  std::string subject_, prefix_;
  Status status_;
};

std::string number(int64_t value) { return std::to_string(value); }

// Which family the file belongs to: "architectures" decides, "model_type" must not contradict it.
const Family* read_family(Fields& fields) {
  std::string known;
  for (const Family& family : kFamilies)
    known += (known.empty() ? "one of " : ", ") + std::string(family.name);
  if (!fields.has("architectures")) {
    fields.refuse("architectures", "is missing", "no such field", known);
    return nullptr;
  }
  const Json& list = fields.raw("architectures");
  if (!list.is_array() || list.size() != 1 || !list[0].is_string()) {
    fields.refuse("architectures", "does not name one architecture", list.dump(), known);
    return nullptr;
  }
  const std::string name = list[0].get<std::string>();
  for (const Family& family : kFamilies) {
    if (family.name != name) continue;
    const std::string model_type = fields.text("model_type", std::string(family.model_type));
    if (model_type != family.model_type)
      fields.refuse("model_type", "contradicts `architectures`", model_type,
                    std::string(family.model_type), "architectures = [" + name + "]");
    return &family;
  }
  fields.refuse("architectures", "names an architecture that is not supported", name, known);
  return nullptr;
}

void read_sizes(Fields& fields, ModelConfig& config) {
  config.hidden_size = fields.integer("hidden_size");
  config.num_layers = fields.integer("num_hidden_layers");
  config.num_heads = fields.integer("num_attention_heads");
  config.num_kv_heads = fields.integer("num_key_value_heads", config.num_heads);
  config.intermediate_size = fields.integer("intermediate_size");
  config.vocab_size = fields.integer("vocab_size");
  config.max_positions = fields.integer("max_position_embeddings");
  config.rms_norm_eps = fields.positive("rms_norm_eps", 1e-6);
  if (!fields.status().ok()) return;

  if (config.num_kv_heads > config.num_heads || config.num_heads % config.num_kv_heads != 0)
    fields.refuse("num_key_value_heads", "does not divide the query heads",
                  number(config.num_kv_heads),
                  "a divisor of num_attention_heads = " + number(config.num_heads));
  if (fields.has("head_dim")) {
    config.head_dim = fields.integer("head_dim");
  } else if (config.architecture == Architecture::kQwen3) {
    config.head_dim = 128;  // the family's default; not hidden_size / num_attention_heads
  } else {
    if (config.hidden_size % config.num_heads != 0)
      fields.refuse("hidden_size", "is not divisible by `num_attention_heads`",
                    number(config.hidden_size),
                    "a multiple of " + number(config.num_heads) + ", or a field `head_dim`");
    config.head_dim = config.hidden_size / config.num_heads;
  }
  if (config.head_dim % 2 != 0)
    fields.refuse("head_dim", "is odd; rotary embedding turns pairs", number(config.head_dim),
                  "an even number");
}

void read_flags(Fields& fields, ModelConfig& config) {
  const bool attention_bias = fields.boolean("attention_bias", false);
  switch (config.architecture) {
    case Architecture::kLlama:
      config.qkv_bias = config.o_bias = attention_bias;
      config.mlp_bias = fields.boolean("mlp_bias", false);
      break;
    case Architecture::kQwen3:
      config.qkv_bias = config.o_bias = attention_bias;
      config.qk_norm = true;
      break;
    case Architecture::kQwen2:
      config.qkv_bias = true;  // always, and never on the output projection
      break;
    case Architecture::kMistral:
      break;
  }
  config.tie_word_embeddings = fields.boolean("tie_word_embeddings", false);

  const std::string activation = fields.text("hidden_act", "silu");
  if (activation != "silu" && fields.status().ok())
    fields.refuse("hidden_act", "names an activation that these families do not use", activation,
                  "silu");
  for (const char* field : {"quantization_config", "compression_config"})
    if (fields.has(field))
      fields.refuse(field, "asks for quantised weights, which are not supported",
                    "an object with " + number(int64_t(fields.raw(field).size())) + " fields",
                    "no such field: bf16, fp16 or fp32 weights");
}

void read_dtype(Fields& fields, ModelConfig& config) {
  // Newer files write "dtype".
  const char* field = fields.has("dtype") && !fields.has("torch_dtype") ? "dtype" : "torch_dtype";
  const std::string text = fields.text(field, "bfloat16");
  if (text == "bfloat16")
    config.dtype = DType::kBf16;
  else if (text == "float16")
    config.dtype = DType::kF16;
  else if (text == "float32")
    config.dtype = DType::kF32;
  else if (fields.status().ok())
    fields.refuse(field, "names a dtype that is not supported", text,
                  "bfloat16, float16 or float32");
}

void read_scaling(Fields& fields, const char* field, ModelConfig& config) {
  const Json& object = fields.raw(field);
  if (!object.is_object()) {
    fields.refuse(field, "is not an object", object.dump(), "an object with `rope_type`, or null");
    return;
  }
  Fields inner(object, fields.subject(), std::string(field) + ".");
  RopeScaling scaling;
  scaling.type =
      inner.text(inner.has("type") && !inner.has("rope_type") ? "type" : "rope_type", "default");
  if (scaling.type == "default") {
    // A plain rotary embedding, spelled out.
  } else if (scaling.type == "linear") {
    scaling.factor = inner.positive("factor");
  } else if (scaling.type == "llama3") {
    scaling.factor = inner.positive("factor");
    scaling.low_freq_factor = inner.positive("low_freq_factor");
    scaling.high_freq_factor = inner.positive("high_freq_factor");
    scaling.original_max_positions = inner.integer("original_max_position_embeddings");
    if (inner.status().ok() && scaling.high_freq_factor <= scaling.low_freq_factor)
      inner.refuse("high_freq_factor", "is not above `low_freq_factor`",
                   object["high_freq_factor"].dump(),
                   "more than " + object["low_freq_factor"].dump());
  } else if (scaling.type == "yarn") {
    scaling.factor = inner.positive("factor");
    scaling.original_max_positions =
        inner.integer("original_max_position_embeddings", config.max_positions);
  } else if (inner.status().ok()) {
    inner.refuse("rope_type", "names a scaling that is not supported", scaling.type,
                 "default, linear, llama3 or yarn");
  }
  fields.adopt(inner.status());
  if (inner.status().ok() && scaling.type != "default") config.rope_scaling = scaling;
}

void read_rope(Fields& fields, ModelConfig& config) {
  config.rope_theta = fields.positive("rope_theta", 10000.0);
  if (fields.has("rope_scaling")) read_scaling(fields, "rope_scaling", config);
  // Newer files gather both in one object.
  if (!fields.has("rope_parameters")) return;
  const Json& parameters = fields.raw("rope_parameters");
  if (parameters.is_object() && parameters.contains("rope_theta")) {
    Fields inner(parameters, fields.subject(), "rope_parameters.");
    const double theta = inner.positive("rope_theta");
    fields.adopt(inner.status());
    if (fields.has("rope_theta") && theta != config.rope_theta)
      fields.refuse("rope_theta", "contradicts `rope_parameters.rope_theta`",
                    fields.raw("rope_theta").dump(), parameters["rope_theta"].dump());
    config.rope_theta = theta;
  }
  if (!fields.has("rope_scaling")) read_scaling(fields, "rope_parameters", config);
}

// Sliding window: Mistral has it in every layer (4096 unless the file says null); Qwen has it above
// `max_window_layers`, and only when `use_sliding_window` says so.
void read_window(Fields& fields, ModelConfig& config, const Json& object) {
  const bool qwen =
      config.architecture == Architecture::kQwen2 || config.architecture == Architecture::kQwen3;
  if (config.architecture == Architecture::kMistral) {
    const bool absent = !object.contains("sliding_window");
    if (absent || fields.has("sliding_window"))
      config.sliding_window = fields.integer("sliding_window", 4096);
    config.num_window_layers = config.sliding_window > 0 ? config.num_layers : 0;
  } else if (qwen) {
    const bool use_window = fields.boolean("use_sliding_window", false);
    const int64_t first = fields.integer("max_window_layers", 28, 0);
    if (use_window && !fields.has("sliding_window"))
      fields.refuse("sliding_window", "is missing although `use_sliding_window` is true",
                    object.contains("sliding_window") ? "null" : "no such field",
                    "the window's length in tokens");
    const int64_t window = fields.integer("sliding_window", 0);
    if (use_window) {
      config.num_window_layers = std::max<int64_t>(0, config.num_layers - first);
      config.sliding_window = config.num_window_layers > 0 ? window : 0;
    }
  } else if (fields.has("sliding_window")) {
    fields.refuse("sliding_window", "is not a field of this family",
                  fields.raw("sliding_window").dump(), "no such field",
                  "architectures = [LlamaForCausalLM]");
  }
}

// Newer files list the kind of attention of each layer; it must say the same as the fields above.
void check_layer_types(Fields& fields, const ModelConfig& config) {
  if (!fields.has("layer_types")) return;
  const Json& list = fields.raw("layer_types");
  if (!list.is_array() || int64_t(list.size()) != config.num_layers) {
    fields.refuse("layer_types", "does not list every layer",
                  list.is_array() ? number(int64_t(list.size())) + " entries" : list.dump(),
                  number(config.num_layers) + " entries (num_hidden_layers)");
    return;
  }
  int64_t windowed = 0;
  for (const Json& entry : list) {
    if (entry != "full_attention" && entry != "sliding_attention") {
      fields.refuse("layer_types", "names a kind of layer that is not supported", entry.dump(),
                    "full_attention or sliding_attention");
      return;
    }
    windowed += entry == "sliding_attention";
  }
  if (windowed != config.num_window_layers)
    fields.refuse("layer_types", "contradicts the sliding-window fields",
                  number(windowed) + " layers with sliding_attention",
                  number(config.num_window_layers) + " layers");
}

// Nothing that would make the model something else than its family's dense decoder may stand in the
// file.
void refuse_variants(Fields& fields) {
  for (const char* field : {"num_experts", "num_local_experts", "vision_config", "q_lora_rank"})
    if (fields.has(field))
      fields.refuse(field, "is not a field of this family", fields.raw(field).dump(),
                    "no such field: a dense text decoder");
}

// Where a path may lead: as given, then from the source tree, found as the folder above the build
// folder that holds this program and as the place of this file when it was compiled; last, a name
// of a shipped model.
std::vector<std::filesystem::path> candidates(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  std::vector<fs::path> trees = {fs::path()};  // the working directory
  const fs::path program = fs::read_symlink("/proc/self/exe", ignored);
  if (!program.empty()) trees.push_back(program.parent_path().parent_path());
  const fs::path here = __FILE__;  // <tree>/rooftile/report/model_config.cc
  if (here.is_absolute()) trees.push_back(here.parent_path().parent_path().parent_path());
  std::vector<fs::path> out;
  for (const fs::path& tree : trees) out.push_back(tree / path);
  for (const fs::path& tree : trees) out.push_back(tree / "models" / (path + ".json"));
  return out;
}

}  // namespace

std::string_view architecture_name(Architecture architecture) {
  for (const Family& family : kFamilies)
    if (family.architecture == architecture) return family.name;
  return "";
}

Result<ModelConfig> parse_model_config(std::string_view json_text, std::string name) {
  const Json object = Json::parse(json_text, nullptr, /*allow_exceptions=*/false);
  Diag diag;
  diag.code = ErrorCode::kModelConfig;
  diag.subject = name;
  if (object.is_discarded()) {
    diag.message = "the model configuration is not valid JSON";
    diag.expected = "the public config.json of a model";
    return diag;
  }
  if (!object.is_object()) {
    diag.message = "the model configuration is not a JSON object";
    diag.found = object.type_name();
    diag.expected = "the public config.json of a model";
    return diag;
  }

  ModelConfig config;
  config.name = name;
  Fields fields(object, std::move(name));
  const Family* family = read_family(fields);
  if (family == nullptr) return fields.status();
  config.architecture = family->architecture;
  refuse_variants(fields);
  read_sizes(fields, config);
  if (!fields.status().ok()) return fields.status();  // what follows divides by sizes
  read_flags(fields, config);
  read_dtype(fields, config);
  read_rope(fields, config);
  read_window(fields, config, object);
  check_layer_types(fields, config);
  if (!fields.status().ok()) return fields.status();
  return config;
}

Result<ModelConfig> load_model_config(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  for (const fs::path& candidate : candidates(path)) {
    if (!fs::is_regular_file(candidate, ignored)) continue;
    std::ifstream file(candidate, std::ios::binary);
    std::ostringstream text;
    text << file.rdbuf();
    if (!file) continue;
    // A checkpoint's own folder names the model better than "config" does.
    std::string name = candidate.stem().string();
    if (name == "config") name = fs::absolute(candidate, ignored).parent_path().filename().string();
    return parse_model_config(text.str(), name);
  }
  Diag diag;
  diag.code = ErrorCode::kIo;
  diag.subject = path;
  diag.message = "no such model configuration";
  diag.expected = "a config.json, or the name of a file under models/";
  return diag;
}

}  // namespace rooftile::report
