// SPDX-License-Identifier: Apache-2.0
#include "rooftile/ops/attention/attention_contract.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include "rooftile/ops/numerics.h"

namespace rooftile::ops {
namespace {

// Largest Euclidean norm of the innermost vectors, of those that are finite.
double largest_vector(const NdArray& x) {
  if (x.data.empty()) return 0;
  const auto depth = static_cast<size_t>(x.shape.back());
  double largest = 0;
  for (size_t at = 0; at < x.data.size(); at += depth) {
    double square = 0;
    for (size_t d = 0; d < depth; ++d) square += x.data[at + d] * x.data[at + d];
    if (std::isfinite(square)) largest = std::max(largest, square);
  }
  return std::sqrt(largest);
}

std::vector<int64_t> lengths_from(const NdArray& offsets) {
  std::vector<int64_t> lengths;
  for (size_t i = 1; i < offsets.data.size(); ++i)
    lengths.push_back(static_cast<int64_t>(offsets.data[i] - offsets.data[i - 1]));
  return lengths;
}

// `total` in `count` parts; the last takes the remainder.
std::vector<int64_t> equal_parts(int64_t total, int64_t count) {
  std::vector<int64_t> parts(static_cast<size_t>(std::max<int64_t>(count, 0)));
  for (int64_t& part : parts) part = total / count;
  if (!parts.empty()) parts.back() += total - total / count * count;
  return parts;
}

bool filled(const RefCall& call, std::string_view tensor) {
  return call.has(tensor) && !call[tensor].data.empty();
}

bool is_causal(const RefCall& call) {
  const auto flag = call.config.flags.find("causal");
  return flag != call.config.flags.end() && flag->second != 0;
}

}  // namespace

double visible_pairs(const RefCall& call, int64_t q_len, int64_t k_len) {
  const auto left = static_cast<int64_t>(call.attr("window_left"));
  const auto window_right = call.attrs.find("window_right");
  int64_t right = is_causal(call) ? 0 : -1;
  if (!is_causal(call) && window_right != call.attrs.end())
    right = static_cast<int64_t>(window_right->second);
  double pairs = 0;
  for (int64_t i = 0; i < q_len; ++i) {
    const int64_t at = i + k_len - q_len;
    const int64_t first = left < 0 ? 0 : std::max<int64_t>(at - left, 0);
    const int64_t last = right < 0 ? k_len - 1 : std::min(at + right, k_len - 1);
    pairs += static_cast<double>(std::max<int64_t>(last - first + 1, 0));
  }
  return pairs;
}

Cost prefill_cost(const RefCall& call) {
  const auto rows = static_cast<double>(call.dim("Tq")), keys = static_cast<double>(call.dim("Tk"));
  const auto heads = static_cast<double>(call.dim("Hq")), D = static_cast<double>(call.dim("D"));
  const auto kv_heads = static_cast<double>(call.dim("Hkv"));
  std::vector<int64_t> q_len = {call.dim("Tq")}, k_len = {call.dim("Tk")};
  if (filled(call, "cu_q") && filled(call, "cu_k")) {
    q_len = lengths_from(call["cu_q"]);
    k_len = lengths_from(call["cu_k"]);
  } else if (call.config.has("cu_q")) {
    q_len = equal_parts(call.dim("Tq"), call.dim("B1") - 1);
    k_len = equal_parts(call.dim("Tk"), call.dim("B1") - 1);
  }
  Cost cost;
  for (size_t b = 0; b < q_len.size(); ++b)
    cost.flops += 4 * D * heads * visible_pairs(call, q_len[b], k_len[b]);
  cost.bytes = bytes_of(call, "q", 2 * D * (rows * heads + keys * kv_heads));
  if (call.config.has("lse")) cost.bytes += 4 * rows * heads;
  return cost;
}

Cost decode_cost(const RefCall& call) {
  const auto heads = static_cast<double>(call.dim("Hq")), D = static_cast<double>(call.dim("D"));
  const auto kv_heads = static_cast<double>(call.dim("Hkv"));
  const int64_t B = call.dim("B");
  const bool paged = call.config.flag("kv_layout") == 1;
  const int64_t capacity = call.dim("S") * (paged ? call.dim("MP") : 1);
  double pairs = 0;
  for (int64_t b = 0; b < B; ++b) {
    const bool known = filled(call, "lengths");
    pairs += visible_pairs(call, 1, known ? static_cast<int64_t>(call["lengths"]({b})) : capacity);
  }
  Cost cost;
  cost.flops = 4 * D * heads * pairs;
  cost.bytes = bytes_of(call, "q", 2 * D * (static_cast<double>(B) * heads + pairs * kv_heads));
  if (call.config.has("lse")) cost.bytes += 4 * static_cast<double>(B) * heads;
  return cost;
}

Tolerance attention_tolerance(const RefCall& call) {
  const DType dtype = call.config.dtype("q");
  const auto D = static_cast<double>(call.dim("D"));
  const double u = unit_roundoff(dtype);
  const double scale = std::abs(call.attr("scale"));
  const double cap = call.config.flag("softcap_on") != 0 ? call.attr("softcap")
                                                         : std::numeric_limits<double>::infinity();
  const double product = scale * largest_vector(call["q"]) * largest_vector(call["k"]);
  // A logit errs by its f32 sum of D products and by a few roundings of its own size.
  const double logit_error = (D * product + 8 * std::min(product, cap)) * kF32Roundoff;
  const double values = max_abs(call["v"]);
  // Probabilities: rounded to the storage type for the second product; relative error of a ratio of
  // exponentials is twice that of a logit; 32 f32 roundings for exp2, rescaling and the sums.
  const double p_error = (dtype == DType::kF32 ? 0 : u) + 2 * logit_error + 32 * kF32Roundoff;
  Tolerance tol;
  tol.abs = p_error * values;
  if (call.has("lse")) tol.abs = std::max(tol.abs, logit_error + 8 * kF32Roundoff);
  tol.rel = u + 32 * kF32Roundoff;
  // sum p v against sum p e v with independent |e| <= p_error: relative to the norm, p_error. The
  // factor 2 is for rows whose values nearly cancel.
  tol.norm = tol.rel + 2 * p_error;
  tol.why =
      "half an ulp of o; probabilities rounded to the storage type times max |v|; twice the f32 "
      "error of a logit (D 2^-24 scale ||q|| ||k||); 32 f32 roundings in the online softmax";
  return tol;
}

namespace {

// From this length on, sequences that divide evenly are of one length: a benchmark means something.
constexpr int64_t kBenchmarkLength = 512;

// NaN in the keys and values of sequences without a query: nobody may look at them.
void hide_keys_without_queries(RefCall& call) {
  const std::vector<int64_t> q_len = lengths_from(call["cu_q"]), k_len = lengths_from(call["cu_k"]);
  const auto row = static_cast<size_t>(call.dim("Hkv") * call.dim("D"));
  for (size_t b = 0; b < q_len.size(); ++b) {
    if (q_len[b] != 0) continue;
    const auto first = static_cast<std::ptrdiff_t>(row * static_cast<size_t>(call["cu_k"].data[b]));
    for (const char* tensor : {"k", "v"})
      std::fill_n(call[tensor].data.begin() + first, row * static_cast<size_t>(k_len[b]),
                  std::numeric_limits<double>::quiet_NaN());
  }
}

}  // namespace

void prefill_inputs(RefCall& call, uint64_t seed) {
  if (!call.has("cu_q") || call.dim("B1") < 1) return;
  std::mt19937_64 random(seed);
  const int64_t sequences = call.dim("B1") - 1;
  // Cut points drawn with repetition: equal neighbours are empty sequences. One pair of neighbours
  // is always equal, at the front, in the middle or at the end.
  const auto offsets = [&](int64_t total) {
    NdArray cu;
    cu.shape = {call.dim("B1")};
    if (sequences > 0 && total % sequences == 0 && total / sequences >= kBenchmarkLength) {
      const int64_t length = total / sequences;
      for (int64_t i = 0; i <= sequences; ++i) cu.data.push_back(static_cast<double>(i * length));
      return cu;
    }
    for (int64_t i = 0; i < call.dim("B1"); ++i)
      cu.data.push_back(static_cast<double>(random() % static_cast<uint64_t>(total + 1)));
    std::sort(cu.data.begin(), cu.data.end());
    cu.data.back() = static_cast<double>(total);
    cu.data.front() = 0;
    if (cu.data.size() > 3) {
      const size_t empty = 1 + random() % (cu.data.size() - 2);
      cu.data[empty] =
          empty + 2 == cu.data.size() ? static_cast<double>(total) : cu.data[empty - 1];
    }
    return cu;
  };
  call["cu_q"] = offsets(call.dim("Tq"));
  call["cu_k"] = call.dim("Tk") == call.dim("Tq") ? call["cu_q"] : offsets(call.dim("Tk"));
  hide_keys_without_queries(call);
}

void decode_inputs(RefCall& call, uint64_t seed) {
  std::mt19937_64 random(seed);
  const bool paged = call.config.flag("kv_layout") == 1;
  const int64_t B = call.dim("B"), S = call.dim("S");
  const int64_t per_row = paged ? call.dim("MP") : 1;
  const int64_t capacity = S * per_row;
  NdArray& lengths = call["lengths"];
  for (int64_t b = 0; b < B; ++b) {
    const int64_t edge = (1 + static_cast<int64_t>(random() % 3)) * S;
    const int64_t choices[] = {capacity, 0, 1, edge - 1, edge + 1, edge, capacity / 2 + 1};
    const int64_t length = capacity >= 2048 ? capacity : choices[(b + seed) % 7];
    lengths({b}) = static_cast<double>(std::clamp<int64_t>(length, 0, capacity));
  }
  std::vector<bool> used(static_cast<size_t>(call.dim("P") * S), false);
  if (paged) {
    // Pages in random order, each used once while they last; -1 after a sequence's last page.
    std::vector<int64_t> pages(static_cast<size_t>(call.dim("P")));
    std::iota(pages.begin(), pages.end(), 0);
    std::shuffle(pages.begin(), pages.end(), random);
    size_t next = 0;
    NdArray& table = call["block_table"];
    for (int64_t b = 0; b < B; ++b)
      for (int64_t page = 0; page < per_row; ++page) {
        const auto left = static_cast<int64_t>(lengths({b})) - page * S;
        table({b, page}) = -1;
        if (left <= 0) continue;
        const int64_t id = pages[next++ % pages.size()];
        table({b, page}) = static_cast<double>(id);
        for (int64_t s = 0; s < std::min(left, S); ++s)
          used[static_cast<size_t>(id * S + s)] = true;
      }
  } else {
    for (int64_t b = 0; b < B; ++b)
      for (int64_t s = 0; s < static_cast<int64_t>(lengths({b})); ++s)
        used[static_cast<size_t>(b * S + s)] = true;
  }
  const auto row = static_cast<size_t>(call.dim("Hkv") * call.dim("D"));
  for (const char* cache : {"k", "v"})
    for (size_t token = 0; token < used.size(); ++token)
      if (!used[token])
        std::fill_n(call[cache].data.begin() + static_cast<std::ptrdiff_t>(token * row), row,
                    std::numeric_limits<double>::quiet_NaN());
}

}  // namespace rooftile::ops
