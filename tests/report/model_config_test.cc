// SPDX-License-Identifier: Apache-2.0
// The shipped configurations read as published, and every refusal names its field.
#include "rooftile/report/model_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace rooftile::report {
namespace {

using Json = nlohmann::json;
using ::testing::HasSubstr;

Json small_llama() {
  return {{"architectures", {"LlamaForCausalLM"}},
          {"model_type", "llama"},
          {"hidden_size", 64},
          {"num_hidden_layers", 2},
          {"num_attention_heads", 4},
          {"intermediate_size", 128},
          {"vocab_size", 100},
          {"max_position_embeddings", 512}};
}

Json small(const char* architecture, const char* model_type) {
  Json config = small_llama();
  config["architectures"] = {architecture};
  config["model_type"] = model_type;
  return config;
}

Result<ModelConfig> parse(const Json& json) { return parse_model_config(json.dump(), "m"); }

TEST(ModelConfig, DefaultsAreTheFamilys) {
  auto llama = parse(small_llama());
  ASSERT_TRUE(llama.ok()) << llama.diag().str();
  EXPECT_EQ(llama->num_kv_heads, 4);  // as many as query heads
  EXPECT_EQ(llama->head_dim, 16);     // hidden / heads
  EXPECT_EQ(llama->rope_theta, 10000);
  EXPECT_FALSE(llama->qkv_bias);
  EXPECT_FALSE(llama->tie_word_embeddings);
  EXPECT_EQ(llama->sliding_window, 0);
  EXPECT_EQ(llama->dtype, DType::kBf16);

  auto qwen2 = parse(small("Qwen2ForCausalLM", "qwen2"));
  ASSERT_TRUE(qwen2.ok()) << qwen2.diag().str();
  EXPECT_TRUE(qwen2->qkv_bias);
  EXPECT_FALSE(qwen2->o_bias);

  auto qwen3 = parse(small("Qwen3ForCausalLM", "qwen3"));
  ASSERT_TRUE(qwen3.ok()) << qwen3.diag().str();
  EXPECT_EQ(qwen3->head_dim, 128);  // not hidden / heads
  EXPECT_TRUE(qwen3->qk_norm);
  EXPECT_FALSE(qwen3->qkv_bias);

  auto mistral = parse(small("MistralForCausalLM", "mistral"));
  ASSERT_TRUE(mistral.ok()) << mistral.diag().str();
  EXPECT_EQ(mistral->sliding_window, 4096);
  EXPECT_EQ(mistral->num_window_layers, 2);
}

TEST(ModelConfig, NullMeansNone) {
  Json mistral = small("MistralForCausalLM", "mistral");
  mistral["sliding_window"] = nullptr;
  mistral["head_dim"] = nullptr;
  auto config = parse(mistral);
  ASSERT_TRUE(config.ok()) << config.diag().str();
  EXPECT_EQ(config->sliding_window, 0);
  EXPECT_EQ(config->head_dim, 16);
}

TEST(ModelConfig, BiasesFollowTheFamilysFields) {
  Json llama = small_llama();
  llama["attention_bias"] = true;
  llama["mlp_bias"] = true;
  auto config = parse(llama);
  ASSERT_TRUE(config.ok()) << config.diag().str();
  EXPECT_TRUE(config->qkv_bias && config->o_bias && config->mlp_bias);
}

TEST(ModelConfig, QwenWindowStartsAboveMaxWindowLayers) {
  Json qwen = small("Qwen2ForCausalLM", "qwen2");
  qwen["sliding_window"] = 256;
  qwen["max_window_layers"] = 1;
  auto off = parse(qwen);
  ASSERT_TRUE(off.ok()) << off.diag().str();
  EXPECT_EQ(off->sliding_window, 0);
  qwen["use_sliding_window"] = true;
  auto on = parse(qwen);
  ASSERT_TRUE(on.ok()) << on.diag().str();
  EXPECT_EQ(on->sliding_window, 256);
  EXPECT_EQ(on->num_window_layers, 1);
  qwen["layer_types"] = {"full_attention", "sliding_attention"};
  EXPECT_TRUE(parse(qwen).ok());
}

TEST(ModelConfig, RopeScalingOfLlama3IsRead) {
  auto config = load_model_config("llama-3.2-1b");
  ASSERT_TRUE(config.ok()) << config.diag().str();
  ASSERT_TRUE(config->rope_scaling.has_value());
  EXPECT_EQ(config->rope_scaling->type, "llama3");
  EXPECT_EQ(config->rope_scaling->factor, 32);
  EXPECT_EQ(config->rope_scaling->original_max_positions, 8192);
}

TEST(ModelConfig, RopeParametersOfNewerFilesAreRead) {
  Json llama = small_llama();
  llama["rope_parameters"] = {{"rope_type", "linear"}, {"factor", 4.0}, {"rope_theta", 5e5}};
  auto config = parse(llama);
  ASSERT_TRUE(config.ok()) << config.diag().str();
  EXPECT_EQ(config->rope_theta, 5e5);
  EXPECT_EQ(config->rope_scaling->factor, 4);
}

TEST(ModelConfig, MissingFileIsAnIoError) {
  auto config = load_model_config("no-such-model");
  ASSERT_FALSE(config.ok());
  EXPECT_EQ(config.diag().code, ErrorCode::kIo);
}

TEST(ModelConfig, TextThatIsNoJsonIsRefused) {
  for (const char* text : {"", "{\"hidden_size\": 4", "[1, 2]", "42"}) {
    auto config = parse_model_config(text, "m");
    ASSERT_FALSE(config.ok()) << text;
    EXPECT_EQ(config.diag().code, ErrorCode::kModelConfig);
  }
}

// One wrong field each: the base file, the patch, the field that the message must name, and what it
// must say.
struct Refusal {
  const char* label;
  Json base;
  Json patch;  // merged over the base; a null removes the field (JSON merge patch)
  const char* argument;
  const char* message;
  const char* found;
  const char* expected;
};

class ModelConfigRefusal : public ::testing::TestWithParam<Refusal> {};

TEST_P(ModelConfigRefusal, NamesFieldFoundAndExpected) {
  const Refusal& refusal = GetParam();
  Json json = refusal.base;
  json.merge_patch(refusal.patch);
  auto config = parse(json);
  ASSERT_FALSE(config.ok());
  const Diag& diag = config.diag();
  EXPECT_EQ(code_text(diag.code), "RT-M002");
  EXPECT_EQ(diag.subject, "m");
  EXPECT_EQ(diag.argument, refusal.argument);
  EXPECT_THAT(diag.message, HasSubstr(refusal.message));
  EXPECT_THAT(diag.message, HasSubstr(std::string("`") + refusal.argument + "`"));
  EXPECT_THAT(diag.found, HasSubstr(refusal.found));
  EXPECT_THAT(diag.expected, HasSubstr(refusal.expected));
}

std::vector<Refusal> refusals() {
  const Json llama = small_llama();
  const Json qwen2 = small("Qwen2ForCausalLM", "qwen2");
  const Json mistral = small("MistralForCausalLM", "mistral");
  const Json two = {"LlamaForCausalLM", "Qwen2ForCausalLM"};
  const Json gpt = Json::array({"GPT2LMHeadModel"});
  const Json layers = Json::array({"sliding_attention", "sliding_attention"});
  const Json few = Json::array({"full_attention"});
  const Json odd = Json::array({"full_attention", "chunked_attention"});
  return {
      {"UnknownArchitecture",
       llama,
       {{"architectures", gpt}},
       "architectures",
       "not supported",
       "GPT2LMHeadModel",
       "MistralForCausalLM"},
      {"NoArchitecture",
       llama,
       {{"architectures", nullptr}},
       "architectures",
       "is missing",
       "no such field",
       "LlamaForCausalLM"},
      {"TwoArchitectures",
       llama,
       {{"architectures", two}},
       "architectures",
       "does not name one",
       "Qwen2ForCausalLM",
       "one of"},
      {"ModelTypeContradicts",
       llama,
       {{"model_type", "qwen2"}},
       "model_type",
       "contradicts",
       "qwen2",
       "llama"},
      {"NoHiddenSize",
       llama,
       {{"hidden_size", nullptr}},
       "hidden_size",
       "is missing",
       "no such field",
       "an integer"},
      {"NoLayers",
       llama,
       {{"num_hidden_layers", nullptr}},
       "num_hidden_layers",
       "is missing",
       "no such field",
       "an integer"},
      {"NoHeads",
       llama,
       {{"num_attention_heads", nullptr}},
       "num_attention_heads",
       "is missing",
       "no such field",
       "an integer"},
      {"NoIntermediate",
       llama,
       {{"intermediate_size", nullptr}},
       "intermediate_size",
       "is missing",
       "no such field",
       "an integer"},
      {"NoVocab",
       llama,
       {{"vocab_size", nullptr}},
       "vocab_size",
       "is missing",
       "no such field",
       "an integer"},
      {"NoMaxPositions",
       llama,
       {{"max_position_embeddings", nullptr}},
       "max_position_embeddings",
       "is missing",
       "no such field",
       "an integer"},
      {"TextForANumber",
       llama,
       {{"hidden_size", "4096"}},
       "hidden_size",
       "not a valid size",
       "\"4096\"",
       "an integer"},
      {"FractionForANumber",
       llama,
       {{"vocab_size", 99.5}},
       "vocab_size",
       "not a valid size",
       "99.5",
       "an integer"},
      {"ZeroLayers",
       llama,
       {{"num_hidden_layers", 0}},
       "num_hidden_layers",
       "not a valid size",
       "0",
       "at least 1"},
      {"NegativeVocab",
       llama,
       {{"vocab_size", -5}},
       "vocab_size",
       "not a valid size",
       "-5",
       "at least 1"},
      {"HugeHidden",
       llama,
       {{"hidden_size", int64_t{1} << 40}},
       "hidden_size",
       "not a valid size",
       "1099511627776",
       "an integer"},
      {"KvHeadsDoNotDivide",
       llama,
       {{"num_key_value_heads", 3}},
       "num_key_value_heads",
       "does not divide",
       "3",
       "num_attention_heads = 4"},
      {"MoreKvHeadsThanHeads",
       llama,
       {{"num_key_value_heads", 8}},
       "num_key_value_heads",
       "does not divide",
       "8",
       "divisor"},
      {"HiddenNotDivisible",
       llama,
       {{"hidden_size", 66}},
       "hidden_size",
       "not divisible",
       "66",
       "head_dim"},
      {"OddHeadDim", llama, {{"head_dim", 15}}, "head_dim", "is odd", "15", "even"},
      {"NegativeEps",
       llama,
       {{"rms_norm_eps", -1e-5}},
       "rms_norm_eps",
       "not a positive",
       "-1e-05",
       "positive"},
      {"ThetaIsText",
       llama,
       {{"rope_theta", "1e6"}},
       "rope_theta",
       "not a positive",
       "1e6",
       "positive"},
      {"TieIsANumber",
       llama,
       {{"tie_word_embeddings", 1}},
       "tie_word_embeddings",
       "not a boolean",
       "1",
       "true or false"},
      {"BiasIsText",
       llama,
       {{"attention_bias", "yes"}},
       "attention_bias",
       "not a boolean",
       "yes",
       "true or false"},
      {"Gelu", llama, {{"hidden_act", "gelu"}}, "hidden_act", "activation", "gelu", "silu"},
      {"ActIsANumber", llama, {{"hidden_act", 3}}, "hidden_act", "not a string", "3", "string"},
      {"Float64",
       llama,
       {{"torch_dtype", "float64"}},
       "torch_dtype",
       "not supported",
       "float64",
       "bfloat16"},
      {"Quantised",
       llama,
       {{"quantization_config", {{"bits", 4}}}},
       "quantization_config",
       "quantised",
       "1 fields",
       "no such field"},
      {"Experts",
       llama,
       {{"num_local_experts", 8}},
       "num_local_experts",
       "not a field",
       "8",
       "dense"},
      {"ScalingIsANumber",
       llama,
       {{"rope_scaling", 2}},
       "rope_scaling",
       "not an object",
       "2",
       "null"},
      {"ScalingUnknown",
       llama,
       {{"rope_scaling", {{"rope_type", "longrope"}}}},
       "rope_scaling.rope_type",
       "not supported",
       "longrope",
       "llama3"},
      {"ScalingNoFactor",
       llama,
       {{"rope_scaling", {{"rope_type", "llama3"}}}},
       "rope_scaling.factor",
       "is missing",
       "no such field",
       "positive"},
      {"ScalingBands",
       llama,
       {{"rope_scaling",
         {{"rope_type", "llama3"},
          {"factor", 8.0},
          {"low_freq_factor", 4.0},
          {"high_freq_factor", 1.0},
          {"original_max_position_embeddings", 8192}}}},
       "rope_scaling.high_freq_factor",
       "not above",
       "1.0",
       "4.0"},
      {"ThetaContradicts",
       llama,
       {{"rope_theta", 10000.0}, {"rope_parameters", {{"rope_theta", 5e5}}}},
       "rope_theta",
       "contradicts",
       "10000",
       "500000"},
      {"WindowOnLlama",
       llama,
       {{"sliding_window", 4096}},
       "sliding_window",
       "not a field of this family",
       "4096",
       "no such field"},
      {"WindowZero",
       mistral,
       {{"sliding_window", 0}},
       "sliding_window",
       "not a valid size",
       "0",
       "at least 1"},
      {"WindowMissing",
       qwen2,
       {{"use_sliding_window", true}},
       "sliding_window",
       "`use_sliding_window` is true",
       "no such field",
       "length"},
      {"WindowLayersIsText",
       qwen2,
       {{"max_window_layers", "all"}},
       "max_window_layers",
       "not a valid size",
       "all",
       "at least 0"},
      {"LayerTypesContradict",
       qwen2,
       {{"layer_types", layers}},
       "layer_types",
       "contradicts",
       "2 layers",
       "0 layers"},
      {"LayerTypesShort",
       qwen2,
       {{"layer_types", few}},
       "layer_types",
       "does not list every layer",
       "1 entries",
       "2 entries"},
      {"LayerTypesUnknown",
       qwen2,
       {{"layer_types", odd}},
       "layer_types",
       "not supported",
       "chunked_attention",
       "sliding_attention"},
  };
}

INSTANTIATE_TEST_SUITE_P(All, ModelConfigRefusal, ::testing::ValuesIn(refusals()),
                         [](const auto& test) { return std::string(test.param.label); });

}  // namespace
}  // namespace rooftile::report
