// SPDX-License-Identifier: Apache-2.0
// What a report holds: plain values, measured once and rendered as a table, JSON lines or a page.
//
// Times are microseconds of one execution. Quantities for a whole step are sums over executions, as
// if the operators ran one after the other with nothing between them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rooftile/bench/bench.h"
#include "rooftile/bench/roofline.h"
#include "rooftile/report/model_config.h"
#include "rooftile/report/step.h"

namespace rooftile::report {

// What the operator is made of; groups the colours of the pictures.
enum class Family : uint8_t { kProduct, kAttention, kRows, kMovement };
std::string_view family_name(Family family);

// Peak rates of the ceilings in GFLOP/s by dtype, highest first; one entry a dtype, its best
// mechanism.
std::vector<std::pair<std::string, double>> peaks_by_dtype(const bench::Ceilings& ceilings);

struct Row {
  std::string role;  // "qkv_proj"
  Family family = Family::kRows;
  int64_t count = 1;    // executions a step
  std::string failure;  // why there is no measurement; `line` then holds names and shape only
  bench::BenchLine line;

  bool measured() const { return failure.empty() && line.us.p50 > 0; }
  double step_us() const { return static_cast<double>(count) * line.us.p50; }
  double intensity() const { return line.bytes > 0 ? line.flops / line.bytes : 0; }
  // The library that most would use; null without one.
  const bench::PeerTime* library() const {
    return line.peers.empty() ? nullptr : &line.peers.front();
  }
  std::string shape_text() const;  // "M=16 N=6144 K=4096"
};

// One fusion, measured both ways.
struct FusionRow {
  std::string what;
  std::string fused, parts;  // operator names: "gated_mlp", "gemm + silu_and_mul"
  int64_t count = 1;         // executions a step
  double fused_us = 0, parts_us = 0;
  std::string failure;

  double saved_us() const { return static_cast<double>(count) * (parts_us - fused_us); }
};

struct StepReport {
  StepRequest request;
  int64_t tokens = 0;  // processed by the step
  std::vector<Row> rows;
  std::vector<FusionRow> fusions;

  double total_us() const;
  double tokens_per_s() const;
  bool complete() const;  // every row measured and within tolerance
  double share(const Row& row) const;
  // Amdahl: how many times faster the step would be with this operator at its roof, all else
  // unchanged.
  double gain_at_roof(const Row& row) const;
  double total_at_roof_us() const;  // every operator at its roof
};

struct Report {
  ModelConfig model;
  int64_t parameters = 0;
  bench::Ceilings ceilings;
  std::vector<StepReport> steps;
  std::vector<std::pair<std::string, std::string>> provenance;  // name, value
};

std::string step_title(const StepReport& step);  // "decode, batch 16, context 4096"

}  // namespace rooftile::report
