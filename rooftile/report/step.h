// SPDX-License-Identifier: Apache-2.0
// From a model's configuration to the operators of one step: which ones, with which sizes, how many
// times.
//
// A step is either the prefill of `batch` prompts of `tokens` tokens each, packed one after the
// other, or the decode of one token for each of `batch` requests whose `context` tokens lie in a
// paged cache. The list is in the order of execution, each distinct instance once with its count.
// It names operators as their OpDefs do and is otherwise plain data: deriving a step compiles and
// allocates nothing.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "rooftile/base/diag.h"
#include "rooftile/base/expr.h"
#include "rooftile/report/model_config.h"

namespace rooftile::report {

enum class Phase : uint8_t { kPrefill, kDecode };
std::string_view phase_name(Phase phase);

struct StepRequest {
  Phase phase = Phase::kDecode;
  int64_t batch = 1;
  int64_t tokens = 512;    // prefill: tokens a prompt
  int64_t context = 1024;  // decode: tokens in the cache a request, the new one included
  bool sample = false;     // draw the next token instead of taking the most probable one
};

// Values that pick out a call of an operator, by the names of its OpDef: sizes, and what a case
// list would say beside them ("dtype=bf16", "bias=1", "eps=1e-05"). Everything else has the
// operator's default.
struct OpCall {
  std::string op;
  Env dims;
  std::map<std::string, std::string, std::less<>> options;

  std::string text() const;  // a line of a case list: "K=4096 M=16 N=6144 dtype=bf16"
};

struct OpInstance {
  std::string role;  // what the model calls it: "qkv_proj"
  OpCall call;
  int64_t count = 1;  // executions a step
  int64_t parameters =
      0;           // of the model, held by one execution; 0 when shared with another instance
  Env check_dims;  // sizes for the comparison with the float64 reference: call.dims where that is
                   // quick

  // The sizes in which the comparison differs from what is timed, "M=32 N=512"; empty when it is
  // the same.
  std::string reduced_text() const;
};

// A fused instance and what one would run without it.
struct Fusion {
  std::string what;               // "silu(gate) * up into the GEMM's epilogue"
  size_t fused = 0;               // index into Step::ops
  std::vector<OpInstance> parts;  // counts are per execution of the fused instance
  bool chained = true;  // each part reads what the one before wrote; else all read the same input
};

struct Step {
  ModelConfig model;
  StepRequest request;
  std::vector<OpInstance> ops;
  std::vector<Fusion> fusions;

  int64_t tokens() const;      // that the step processes: batch * tokens, or batch
  int64_t parameters() const;  // of the whole model
};

// RT-M003 when the request is out of the model's range.
Result<Step> derive_step(const ModelConfig& model, const StepRequest& request);

// "M=16 N=6144 K=4096": dims in the order in which the operator's contract names them is the
// printer's business; here they come by name.
std::string dims_text(const Env& dims);

}  // namespace rooftile::report
