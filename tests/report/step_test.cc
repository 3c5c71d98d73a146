// SPDX-License-Identifier: Apache-2.0
// The operators of a step, by model and phase: golden lists, parameter counts against the published
// ones, work and traffic by hand, and that every call fits its operator's contract.
#include "rooftile/report/step.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "rooftile/check/case_inputs.h"
#include "rooftile/ops/op_def.h"

namespace rooftile::report {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

const std::vector<std::string>& shipped_models() {
  static const std::vector<std::string> names = {"llama-3-8b",   "llama-3.2-1b", "mistral-7b-v0.1",
                                                 "qwen2.5-0.5b", "qwen2.5-7b",   "qwen3-0.6b",
                                                 "qwen3-8b"};
  return names;
}

ModelConfig model(const std::string& name) {
  auto config = load_model_config(name);
  EXPECT_TRUE(config.ok()) << config.diag().str();
  return *config;
}

Step derive(const std::string& name, StepRequest request) {
  auto step = derive_step(model(name), request);
  EXPECT_TRUE(step.ok()) << step.diag().str();
  return *step;
}

StepRequest decode(int64_t batch, int64_t context) {
  return {.phase = Phase::kDecode, .batch = batch, .context = context};
}

StepRequest prefill(int64_t batch, int64_t tokens) {
  return {.phase = Phase::kPrefill, .batch = batch, .tokens = tokens};
}

// "qkv_proj: gemm K=896 M=1 N=1152 ... x 24"
std::string listing(const Step& step) {
  std::ostringstream out;
  for (const OpInstance& op : step.ops)
    out << op.role << ": " << op.call.op << " " << op.call.text() << " x " << op.count << "\n";
  return out.str();
}

const OpInstance& find(const Step& step, const std::string& role) {
  for (const OpInstance& op : step.ops)
    if (op.role == role) return op;
  ADD_FAILURE() << "no " << role << " in\n" << listing(step);
  return step.ops.front();
}

// The published totals; they hold only if every size, bias, norm and tie was read and used as the
// model's code does.
TEST(Step, ParametersAreThePublishedOnes) {
  const std::map<std::string, int64_t> published = {
      {"llama-3-8b", 8'030'261'248},      {"llama-3.2-1b", 1'235'814'400},
      {"mistral-7b-v0.1", 7'241'732'096}, {"qwen2.5-0.5b", 494'032'768},
      {"qwen2.5-7b", 7'615'616'512},      {"qwen3-0.6b", 596'049'920},
      {"qwen3-8b", 8'190'735'360}};
  for (const std::string& name : shipped_models()) {
    EXPECT_EQ(derive(name, decode(1, 1024)).parameters(), published.at(name)) << name;
    EXPECT_EQ(derive(name, prefill(2, 128)).parameters(), published.at(name)) << name;
  }
}

// Both phases of every shipped model against tests/report/golden/<model>.txt.
TEST(Step, GoldenLists) {
  for (const std::string& name : shipped_models()) {
    const std::string text =
        "decode, batch 16, context 4096\n" + listing(derive(name, decode(16, 4096))) +
        "prefill, batch 2, 512 tokens a prompt\n" + listing(derive(name, prefill(2, 512)));
    const std::string path =
        std::string(ROOFTILE_SOURCE_DIR) + "/tests/report/golden/" + name + ".txt";
    if (std::getenv("ROOFTILE_UPDATE_GOLDEN") != nullptr) {
      std::ofstream(path) << text;
      continue;
    }
    std::ifstream file(path);
    std::ostringstream golden;
    golden << file.rdbuf();
    EXPECT_EQ(text, golden.str()) << path << ": run with ROOFTILE_UPDATE_GOLDEN=1 if intended";
  }
}

TEST(Step, EveryCallFitsItsOperatorsContract) {
  for (const std::string& name : shipped_models())
    for (const StepRequest& request :
         {decode(1, 1), decode(16, 4096), prefill(1, 1), prefill(1, 512), prefill(3, 100)})
      for (bool sample : {false, true}) {
        StepRequest varied = request;
        varied.sample = sample;
        const Step step = derive(name, varied);
        std::vector<OpCall> calls;
        for (const OpInstance& op : step.ops) calls.push_back(op.call);
        for (const Fusion& fusion : step.fusions)
          for (const OpInstance& part : fusion.parts)
            if (part.call.op != "add") calls.push_back(part.call);  // belongs to the report alone
        for (const OpCall& call : calls) {
          const OpDef* op = find_op(call.op);
          ASSERT_NE(op, nullptr) << call.op;
          auto test_case = check::parse_case(call.text());
          ASSERT_TRUE(test_case.ok());
          auto resolved = check::resolve_case(*op, *test_case);
          EXPECT_TRUE(resolved.ok()) << name << ": " << resolved.diag().str();
        }
      }
}

TEST(Step, CountsFollowTheDecoder) {
  const Step step = derive("llama-3-8b", decode(16, 4096));
  EXPECT_EQ(find(step, "embedding").count, 1);
  EXPECT_EQ(find(step, "input_norm").count, 1);
  EXPECT_EQ(find(step, "residual_norm").count, 64);  // two a layer; the last one is the final norm
  EXPECT_EQ(find(step, "qkv_proj").count, 32);
  EXPECT_EQ(find(step, "lm_head").count, 1);
  EXPECT_EQ(step.tokens(), 16);
}

TEST(Step, ProjectionsHaveTheModelsSizes) {
  const Step step = derive("llama-3-8b", decode(16, 4096));
  const Env qkv = {{"M", 16}, {"N", 6144}, {"K", 4096}};  // (32 + 2 * 8) heads of 128
  EXPECT_EQ(find(step, "qkv_proj").call.dims, qkv);
  const Env down = {{"M", 16}, {"N", 4096}, {"K", 14336}};
  EXPECT_EQ(find(step, "down_proj").call.dims, down);
}

TEST(Step, HeadDimMayDifferFromHiddenOverHeads) {
  const Step step = derive("qwen3-0.6b", decode(1, 64));
  EXPECT_EQ(find(step, "qkv_proj").call.dims.at("N"), (16 + 2 * 8) * 128);
  EXPECT_EQ(find(step, "o_proj").call.dims.at("K"), 2048);  // not the hidden size, 1024
  EXPECT_EQ(find(step, "o_proj").call.dims.at("N"), 1024);
  const Env q_norm = {{"T", 16}, {"H", 128}};
  EXPECT_EQ(find(step, "q_norm").call.dims, q_norm);
}

TEST(Step, BiasOnlyWhereTheFamilyHasIt) {
  const Step qwen2 = derive("qwen2.5-0.5b", decode(1, 64));
  EXPECT_EQ(find(qwen2, "qkv_proj").call.options.count("bias"), 1u);
  EXPECT_EQ(find(qwen2, "o_proj").call.options.count("bias"), 0u);
  const Step llama = derive("llama-3-8b", decode(1, 64));
  EXPECT_EQ(find(llama, "qkv_proj").call.options.count("bias"), 0u);
}

TEST(Step, PrefillComputesLogitsOfLastTokensOnly) {
  const Step step = derive("qwen2.5-0.5b", prefill(2, 512));
  EXPECT_EQ(find(step, "lm_head").call.dims.at("M"), 2);
  EXPECT_EQ(find(step, "down_proj").call.dims.at("M"), 1024);
  EXPECT_EQ(step.tokens(), 1024);
}

TEST(Step, MistralsWindowReachesAttention) {
  // 4096 tokens with the query's own: 4095 to its left.
  const Step step = derive("mistral-7b-v0.1", decode(1, 16384));
  EXPECT_EQ(find(step, "attention").call.options.at("window_left"), "4095");
}

TEST(Step, WindowedAndFullLayersAreApart) {
  ModelConfig config = model("qwen2.5-7b");
  config.sliding_window = 1024;
  config.num_window_layers = 8;
  auto step = derive_step(config, decode(1, 4096));
  ASSERT_TRUE(step.ok());
  EXPECT_EQ(find(*step, "attention (window)").count, 8);
  EXPECT_EQ(find(*step, "attention (window)").call.options.at("window_left"), "1023");
  EXPECT_EQ(find(*step, "attention").count, 20);
  EXPECT_EQ(find(*step, "attention").call.options.count("window_left"), 0u);
}

TEST(Step, EpsilonIsTheModels) {
  EXPECT_EQ(find(derive("llama-3-8b", decode(1, 64)), "input_norm").call.options.at("eps"),
            "1e-05");
  EXPECT_EQ(find(derive("qwen3-8b", decode(1, 64)), "q_norm").call.options.at("eps"), "1e-06");
}

TEST(Step, SamplingReplacesArgmax) {
  StepRequest request = decode(4, 64);
  request.sample = true;
  const Step step = derive("qwen2.5-0.5b", request);
  EXPECT_EQ(step.ops.back().call.op, "sample");
}

TEST(Step, MlpBiasKeepsTheTwoOperatorsApart) {
  ModelConfig config = model("llama-3-8b");
  config.mlp_bias = true;
  auto step = derive_step(config, decode(1, 64));
  ASSERT_TRUE(step.ok());
  EXPECT_EQ(find(*step, "gate_up_proj").call.op, "gemm");
  EXPECT_EQ(find(*step, "silu_and_mul").count, 32);
}

TEST(Step, FusionsNameTheirParts) {
  const Step step = derive("llama-3-8b", decode(16, 4096));
  ASSERT_EQ(step.fusions.size(), 3u);
  for (const Fusion& fusion : step.fusions) ASSERT_LT(fusion.fused, step.ops.size());
  EXPECT_EQ(step.ops[step.fusions[0].fused].role, "qkv_proj");
  EXPECT_EQ(step.ops[step.fusions[1].fused].call.op, "add_rms_norm");
  EXPECT_EQ(step.ops[step.fusions[2].fused].call.op, "gated_mlp");
  // The parts do the fused operator's work: the same parameters.
  for (const Fusion& fusion : step.fusions) {
    int64_t parameters = 0;
    for (const OpInstance& part : fusion.parts) parameters += part.count * part.parameters;
    EXPECT_EQ(parameters, step.ops[fusion.fused].parameters) << fusion.what;
  }
}

// Products dominate: two operations a parameter and token, the embedding table aside.
TEST(Step, WorkOfProductsIsTwiceTheParameters) {
  const Step step = derive("llama-3-8b", decode(16, 4096));
  double flops = 0;
  for (const OpInstance& op : step.ops) {
    const Env& d = op.call.dims;
    if (op.call.op == "gemm") flops += 2.0 * op.count * d.at("M") * d.at("N") * d.at("K");
    if (op.call.op == "gated_mlp") flops += 4.0 * op.count * d.at("M") * d.at("I") * d.at("K");
  }
  const double norms = 65 * 4096.0, table = 128256.0 * 4096;
  EXPECT_EQ(flops, 2.0 * 16 * (static_cast<double>(step.parameters()) - norms - table));
}

TEST(Step, CacheHoldsTheContextInPages) {
  const Step step = derive("llama-3-8b", decode(16, 1000));
  EXPECT_EQ(find(step, "attention").call.dims.at("MP"), 63);  // pages of 16
  EXPECT_EQ(find(step, "attention").call.dims.at("P"), 16 * 63);
}

TEST(Step, RequestsOutOfRangeAreRefused) {
  const ModelConfig llama = model("llama-3-8b");
  struct {
    StepRequest request;
    const char* argument;
    const char* expected;
  } cases[] = {{decode(0, 64), "--batch", "4096"},  {decode(5000, 64), "--batch", "4096"},
               {decode(1, 0), "--context", "8192"}, {decode(1, 8193), "--context", "8192"},
               {prefill(1, 0), "--tokens", "8192"}, {prefill(1, 8193), "--tokens", "8192"}};
  for (const auto& one : cases) {
    auto step = derive_step(llama, one.request);
    ASSERT_FALSE(step.ok());
    EXPECT_EQ(step.diag().code, ErrorCode::kUsage);
    EXPECT_EQ(step.diag().argument, one.argument);
    EXPECT_THAT(step.diag().expected, HasSubstr(one.expected));
  }
}

}  // namespace
}  // namespace rooftile::report
