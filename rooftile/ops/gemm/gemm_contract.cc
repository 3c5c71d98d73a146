// SPDX-License-Identifier: Apache-2.0
#include "rooftile/ops/gemm/gemm_contract.h"

#include <algorithm>
#include <cmath>

#include "rooftile/ops/gemm/gemm_program.h"
#include "rooftile/ops/numerics.h"

namespace rooftile::ops {

double sum_error(double terms) {
  return std::min(terms, 8.0 * std::sqrt(std::max(terms, 1.0))) * 0x1p-24;
}

double largest_row_norm(const NdArray& x, bool along_last_axis) {
  if (x.data.empty()) return 0.0;
  const size_t rank = x.shape.size();
  const auto columns = static_cast<size_t>(x.shape[rank - 1]);
  const auto rows = static_cast<size_t>(rank > 1 ? x.shape[rank - 2] : 1);
  const size_t planes = x.data.size() / (rows * columns);
  std::vector<double> squares(planes * (along_last_axis ? rows : columns), 0.0);
  for (size_t plane = 0, at = 0; plane < planes; ++plane)
    for (size_t row = 0; row < rows; ++row)
      for (size_t column = 0; column < columns; ++column, ++at)
        squares[along_last_axis ? plane * rows + row : plane * columns + column] +=
            x.data[at] * x.data[at];
  double largest = 0.0;
  for (double square : squares) largest = std::max(largest, square);
  return std::sqrt(largest);
}

double euclidean_norm(const NdArray& x) {
  double square = 0.0;
  for (double value : x.data)
    if (std::isfinite(value)) square += value * value;
  return std::sqrt(square);
}

namespace {

Status refuse_gemm(const Config& config) {
  const DType a = config.dtype("a"), d = config.dtype("d");
  Diag diag;
  diag.code = ErrorCode::kUnsupported;
  const auto refuse = [&](std::string argument, DType found, std::string expected) {
    diag.message = "this combination of dtypes does not exist";
    diag.argument = std::move(argument);
    diag.found = std::string(name(found)) + " with a " + std::string(name(a));
    diag.expected = std::move(expected);
    return Status(diag);
  };
  const bool integers = d == DType::kI32;
  if (a == DType::kI8) {
    if (d == DType::kF16) return refuse("d", d, "i32, f32 or bf16 for an i8 product");
  } else if (d != a && d != DType::kF32) {
    return refuse("d", d, "the dtype of a, or f32");
  }
  if (config.has("bias") && (config.dtype("bias") == DType::kI32) != integers)
    return refuse("bias", config.dtype("bias"), "i32 exactly when d is i32");
  const int64_t activation = config.flag("activation");
  if (integers && activation != kActNone && activation != kActRelu) {
    diag.message = "an i32 result takes no such activation";
    diag.argument = "activation";
    diag.found = activation_names()[static_cast<size_t>(activation)];
    diag.expected = "none or relu";
    diag.fix = "ask for an f32 or bf16 result";
    return diag;
  }
  return {};
}

Cost gemm_cost(const RefCall& call) {
  const auto volume = [&](std::string_view tensor, double elements) {
    return elements * size_bytes(call.config.dtype(tensor));
  };
  const auto M = static_cast<double>(call.dim("M")), N = static_cast<double>(call.dim("N"));
  const auto K = static_cast<double>(call.dim("K"));
  const auto batch = call.dims.find("B");
  const double B = batch == call.dims.end() ? 1.0 : static_cast<double>(batch->second);
  Cost cost;
  cost.flops = 2 * B * M * N * K;
  cost.bytes = volume("d", B * M * N) + volume("a", B * M * K) + volume("b", B * N * K);
  if (call.config.has("bias")) cost.bytes += volume("bias", N);
  if (call.config.has("c") && call.attr("beta") != 0) cost.bytes += volume("c", B * M * N);
  return cost;
}

Tolerance gemm_tolerance(const RefCall& call) {
  Tolerance tol;
  const DType d = call.config.dtype("d");
  const double alpha = call.attr("alpha"), beta = call.attr("beta");
  const bool plain_factors = alpha == 1 && (beta == 0 || beta == 1 || !call.has("c"));
  if (d == DType::kI32) {
    if (!plain_factors) tol = {.abs = 1.0, .rel = 0x1p-22, .norm = 0x1p-22, .why = ""};
    tol.why = plain_factors ? "integer sums: exact"
                            : "factors other than 1 go through f32: two roundings and a half";
    if (!plain_factors) tol.norm += 1.0;  // small integers: the half may be all of the value
    return tol;
  }
  const bool exact_sums = call.config.dtype("a") == DType::kI8;
  const auto K = static_cast<double>(call.dim("K"));
  const bool b_is_kn = call.config.flag("layout") == 1;
  // |sum_k a b| and sum_k |a||b| are at most ||a|| ||b|| (Cauchy-Schwarz).
  const double product =
      std::abs(alpha) * largest_row_norm(call["a"]) * largest_row_norm(call["b"], !b_is_kn);
  double magnitude = product;
  if (call.has("bias")) magnitude += max_abs(call["bias"]);
  if (call.has("c")) magnitude += std::abs(beta) * max_abs(call["c"]);
  // 1.13 bounds the slope of every activation; 16 u covers the epilogue's f32 operations.
  const double sum = exact_sums ? 0.0 : 1.13 * sum_error(K) * product;
  tol.abs = sum + 16 * 0x1p-24 * magnitude;
  tol.rel = unit_roundoff(d) + 0x1p-22;
  const double result = euclidean_norm(call["d"]);
  const double whole = exact_sums ? 0.0
                                  : 1.13 * sum_error(K) * std::abs(alpha) *
                                        euclidean_norm(call["a"]) * euclidean_norm(call["b"]);
  const double slack = 16 * 0x1p-24 * magnitude * std::sqrt(static_cast<double>(call["d"].numel()));
  tol.norm = unit_roundoff(d) + (result > 0 ? (whole + slack) / result : 1.0);
  tol.why =
      "half an ulp of d; f32 sum of K products min(K, 8 sqrt K) 2^-24 ||a|| ||b||; 16 f32 "
      "roundings of the largest intermediate in the epilogue";
  return tol;
}

// The default generator leaves i32 tensors that index nothing at zero.
void fill_integer_terms(RefCall& call, uint64_t seed) {
  for (const char* tensor : {"bias", "c"}) {
    if (!call.has(tensor) || call.config.dtype(tensor) != DType::kI32) continue;
    uint64_t state = seed * 2 + 1;
    for (double& value : call[tensor].data) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      value = static_cast<double>(static_cast<int64_t>(state >> 48)) - 32768.0;
    }
  }
}

std::vector<Expr> with(std::vector<Expr> lead, const Expr& rows, const Expr& columns) {
  lead.push_back(rows);
  lead.push_back(columns);
  return lead;
}

}  // namespace

void declare_gemm(OpDef& op, const std::vector<Expr>& lead) {
  const Expr M = Expr::sym("M"), N = Expr::sym("N"), K = Expr::sym("K");
  const Expr is_nt = Expr::sym("layout") == Expr(0);
  op.out({.name = "d",
          .shape = with(lead, M, N),
          .dtypes = {DType::kBf16, DType::kF16, DType::kF32, DType::kI32},
          .may_alias = {"c"},
          .doc = "result: the dtype of a or f32; for i8 operands i32 (exact), f32 or bf16"})
      .in({.name = "a",
           .shape = with(lead, M, K),
           .dtypes = {DType::kBf16, DType::kF16, DType::kF32, DType::kI8},
           .doc = "left operand"})
      .in({.name = "b",
           .shape = with(lead, select(is_nt, N, K), select(is_nt, K, N)),
           .same_dtype_as = "a",
           .doc = "right operand, usually weights: [N, K], or [K, N] with layout nn. A stride of 0 "
                  "shares it over a batch"})
      .in({.name = "bias",
           .shape = {N},
           .dtypes = {DType::kBf16, DType::kF16, DType::kF32, DType::kI32},
           .optional = true,
           .doc = "added to every row before the activation; i32 exactly when d is"})
      .in({.name = "c",
           .shape = with(lead, M, N),
           .same_dtype_as = "d",
           .optional = true,
           .doc = "residual; may be d itself"})
      .attr({.name = "alpha",
             .default_value = 1,
             .doc = "factor of the product: the dequantisation scale of i8 operands. 0: the "
                    "product counts as zero whatever A and B hold"})
      .attr({.name = "beta",
             .default_value = 1,
             .doc = "factor of c, added after the activation. 0: c is ignored whatever it holds. "
                    "Without c there is no such term"})
      .choice("layout", {"nt", "nn"}, "how b lies in memory: [N, K] (nt) or [K, N] (nn)")
      .choice("activation", activation_names(), "applied to alpha * A B + bias")
      .refuse(refuse_gemm)
      .inputs(fill_integer_terms)
      .cost(gemm_cost)
      .tolerance(gemm_tolerance);
}

}  // namespace rooftile::ops
