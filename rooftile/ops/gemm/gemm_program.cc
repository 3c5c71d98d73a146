// SPDX-License-Identifier: Apache-2.0
#include "rooftile/ops/gemm/gemm_program.h"

#include <algorithm>

namespace rooftile::ops {

using dsl::DimArg;
using dsl::Index;
using dsl::Kernel;
using dsl::Range;
using dsl::Tile;

const std::vector<std::string>& activation_names() {
  static const std::vector<std::string> names = {"none", "relu", "silu", "gelu", "gelu_tanh"};
  return names;
}

Tile activate(const Tile& x, int64_t activation) {
  constexpr double kSqrtHalf = 0.70710678118654752440;       // 1 / sqrt(2)
  constexpr double kSqrtTwoOverPi = 0.79788456080286535588;  // sqrt(2 / pi)
  switch (activation) {
    case kActRelu:
      return max(x, 0.0);
    case kActSilu:
      return x * recip(1.0 + exp(-x));
    case kActGelu:
      return 0.5 * x * (1.0 + erf(x * kSqrtHalf));
    case kActGeluTanh: {
      Tile cubic = x + 0.044715 * (x * x * x);
      return 0.5 * x * (1.0 + tanh(kSqrtTwoOverPi * cubic));
    }
    default:
      return x;
  }
}

namespace {

dsl::Region region(std::string tensor, const std::vector<Expr>& lead, std::vector<DimArg> last) {
  std::vector<DimArg> dims(lead.begin(), lead.end());
  dims.insert(dims.end(), last.begin(), last.end());
  return {std::move(tensor), std::move(dims)};
}

// alpha * sum where alpha = 0 stands for "no product at all": a NaN in A or B must not come
// through.
Tile scaled(Kernel& k, const Tile& sum) {
  Tile alpha = k.scalar("alpha");
  return where_(eq(alpha, 0.0), k.zeros({}), sum.to(DType::kF32) * alpha);
}

// y + beta * C where beta = 0 stands for "no C": whatever C holds then must not come through.
Tile with_residual(Kernel& k, const Tile& y, const Tile& c) {
  Tile beta = k.scalar("beta");
  return where_(eq(beta, 0.0), y, y + beta * c.to(DType::kF32));
}

// The i32 epilogue. Exact while alpha is 1 and beta is 0 or 1; other factors go through f32.
Tile integer_epilogue(Kernel& k, const Config& config, const ResultBlock& at, const Tile& sum) {
  Tile y = where_(eq(k.scalar("alpha"), 1.0), sum, scaled(k, sum).to(DType::kI32));
  if (config.has("bias")) y = y + k.load(k["bias"](dsl::new_axis, at.columns), "bias");
  if (config.flag("activation") == kActRelu) y = max(y, 0.0);
  if (!config.has("c")) return y;
  Tile c = k.load(region("c", at.lead, {at.rows, at.columns}), "c");
  Tile beta = k.scalar("beta");
  Tile term = where_(eq(beta, 1.0), c, (beta * c.to(DType::kF32)).to(DType::kI32));
  return where_(eq(beta, 0.0), y, y + term);
}

Tile float_epilogue(Kernel& k, const Config& config, const ResultBlock& at, const Tile& sum) {
  Tile y = scaled(k, sum);
  if (config.has("bias")) y = y + k.load(k["bias"](dsl::new_axis, at.columns), "bias");
  y = activate(y, config.flag("activation"));
  if (config.has("c"))
    y = with_residual(k, y, k.load(region("c", at.lead, {at.rows, at.columns}), "c"));
  return y;
}

int64_t round_up(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

// Columns of B in one register panel of the CPU lowering; block widths are multiples of it.
constexpr int64_t kPanel = 32;

// Width of a column block such that every thread gets about `blocks_per_thread` of them.
int64_t shared_width(int64_t columns, int64_t blocks_per_thread, int threads, int64_t widest) {
  const int64_t blocks = blocks_per_thread * std::max(threads, 1);
  return std::clamp(round_up((columns + blocks - 1) / blocks, kPanel), kPanel, widest);
}

void set_weights(Schedule& s, bool packed, OperandForm otherwise,
                 const std::vector<std::string>& weights) {
  for (const std::string& label : weights)
    s.operand[label] = packed ? OperandForm::kPrepacked : otherwise;
}

}  // namespace

Tile blocked_product(Kernel& k, const Config& config, const ResultBlock& at, const Expr& depth) {
  const Index K = k.dim("K");
  const bool b_is_kn = config.flag("layout") == 1;
  const DType sum_dtype = is_float(config.dtype("a")) ? DType::kF32 : DType::kI32;
  Tile zero = k.full({at.rows.extent, at.columns.extent}, 0.0, sum_dtype);
  return k.loop("kk", 0, K, depth, {zero}, [&](Index kk, std::vector<Tile> sum) {
    const Range deep = dsl::range(kk, min(depth, K - kk));
    Tile a = k.load(region("a", at.lead, {at.rows, deep}), "a");  // [BM, BK]
    Tile b = b_is_kn ? k.load(region("b", at.lead, {deep, at.columns}), "b")
                     : k.load(region("b", at.lead, {at.columns, deep}), "b").t();  // [BK, BN]
    return std::vector<Tile>{mma(a, b, sum[0], "mm")};
  })[0];
}

void store_with_epilogue(Kernel& k, const Config& config, const ResultBlock& at, const Tile& sum) {
  Tile y = config.dtype("d") == DType::kI32 ? integer_epilogue(k, config, at, sum)
                                            : float_epilogue(k, config, at, sum);
  k.store(region("d", at.lead, {at.rows, at.columns}), y);
}

bool is_small_m(const Env& dims) { return dims.at("M") <= 16; }

// Up to 16 rows: bound by reading the weights. One row block, all of K in the registers' sums, and
// narrow column blocks so that every thread streams its own part of B.
Schedule small_m_schedule(const Env&, int64_t columns, DType, bool packed,
                          const std::vector<std::string>& weights, const TargetInfo& target) {
  Schedule s;
  s.name = "small_m";
  s.tile = {{"BM", 16}, {"BN", shared_width(columns, 4, target.threads, 256)}, {"BK", 4096}};
  set_weights(s, packed, OperandForm::kPack, weights);
  return s;
}

// Many rows: bound by arithmetic. A block of A (BM x BK) stays in L2 while panels of B pass by.
Schedule large_m_schedule(const Env& dims, int64_t columns, DType dtype, bool packed,
                          const std::vector<std::string>& weights, const TargetInfo& target) {
  const int64_t rows = dims.at("M");
  Schedule s;
  s.name = "large_m";
  // 512 32-bit words of K: measured on hand-written kernels (256 costs 2 to 4 % at M = 128).
  const int64_t depth = 512 * 4 / size_bytes(dtype);
  // Half of L2 for the block of A; the other half is for the panel of B and the sums.
  const int64_t fit = target.l2_bytes / 2 / (depth * size_bytes(dtype)) / 16 * 16;
  const int64_t tall = std::clamp<int64_t>(fit, 64, 256);
  // Too few rows to share among the threads: they share the columns instead.
  const bool split_columns = rows < 192;
  // All rows in one block: blocks are cut to what there is, so one kernel serves every such M.
  s.tile["BM"] = split_columns ? 192 : tall;
  // Few row blocks: the threads share the columns too. Two blocks a thread even out the last ones;
  // more would pack the block of A more often than that is worth.
  const int64_t row_blocks = std::max<int64_t>((rows + s.tile["BM"] - 1) / s.tile["BM"], 1);
  const int64_t blocks_per_thread = std::max<int64_t>(2 / row_blocks, 1);
  s.tile["BN"] = shared_width(columns, blocks_per_thread, target.threads, 512);
  s.tile["BK"] = depth;
  // Packing B where it is used would repeat it once a row block.
  set_weights(s, packed, rows > s.tile["BM"] ? OperandForm::kAhead : OperandForm::kPack, weights);
  return s;
}

}  // namespace rooftile::ops
