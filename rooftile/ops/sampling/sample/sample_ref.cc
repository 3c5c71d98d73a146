// SPDX-License-Identifier: Apache-2.0
// Float64 reference of sample, by sorting: shares nothing with the kernel's threshold search but
// the definition and Philox4x32-10 (Salmon, Moraes, Dror and Shaw 2011, table 2).
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "rooftile/base/float_convert.h"
#include "rooftile/ops/sampling/sample/sample.h"

namespace rooftile::ops {
namespace {

uint32_t philox_first_word(uint64_t counter, uint64_t key, uint64_t offset) {
  std::array<uint32_t, 4> c = {static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32),
                               static_cast<uint32_t>(offset), static_cast<uint32_t>(offset >> 32)};
  uint32_t k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53} * c[0], b = uint64_t{0xCD9E8D57} * c[2];
    c = {static_cast<uint32_t>(b >> 32) ^ c[1] ^ k0, static_cast<uint32_t>(b),
         static_cast<uint32_t>(a >> 32) ^ c[3] ^ k1, static_cast<uint32_t>(a)};
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  return c[0];
}

// 60 bits, as a fraction in [0, 1); the 53 leading ones are enough here.
double uniform(double seed, double offset) {
  const auto key = static_cast<uint64_t>(static_cast<int64_t>(seed));
  const auto step = static_cast<uint64_t>(static_cast<int64_t>(offset));
  const uint64_t high = philox_first_word(0, key, step) >> 2,
                 low = philox_first_word(1, key, step) >> 2;
  return static_cast<double>(high << 30 | low) * 0x1p-60;
}

// One row after temperature: probabilities relative to the largest, and the tokens in order.
class Row {
 public:
  Row(const RefCall& call, int64_t row) : call_(call), row_(row) {
    const NdArray& logits = call["logits"];
    const int64_t count = logits.shape[1];
    z_.assign(logits.data.begin() + row * count, logits.data.begin() + (row + 1) * count);
    greedy_ = call["temperature"]({row}) < 1e-5;
    best_ = std::max_element(z_.begin(), z_.end()) - z_.begin();
    usable_ = std::isfinite(z_[static_cast<size_t>(best_)]) &&
              !std::isnan(call["temperature"]({row})) &&
              std::none_of(z_.begin(), z_.end(), [](double z) { return std::isnan(z); });
  }

  ReferenceDraw draw() {
    if (!usable_) return {};
    if (greedy_) return {best_, 1};
    sort_by_probability();
    apply_min_p();
    apply_top_k();
    apply_top_p();
    return {draw_by_index(), margin_};
  }

 private:
  double parameter(const char* name) const { return call_[name]({row_}); }
  double z(size_t rank) const { return z_[static_cast<size_t>(order_[rank])]; }
  double p(size_t rank) const { return p_[static_cast<size_t>(order_[rank])]; }
  void decide_within(double distance) { margin_ = std::min(margin_, std::fabs(distance)); }

  void sort_by_probability() {
    const double temperature = parameter("temperature");
    p_.resize(z_.size());
    for (size_t i = 0; i < z_.size(); ++i)
      p_[i] = std::exp((z_[i] - z_[static_cast<size_t>(best_)]) / temperature);
    order_.resize(z_.size());
    std::iota(order_.begin(), order_.end(), int64_t{0});
    std::stable_sort(order_.begin(), order_.end(), [&](int64_t a, int64_t b) {
      return z_[static_cast<size_t>(a)] > z_[static_cast<size_t>(b)];
    });
    kept_ = order_.size();
  }

  // The cut between the last kept and the first dropped token is clear if their logits are equal or
  // far apart.
  void cut_to(size_t count) {
    if (count < kept_ && z(count - 1) != z(count))
      decide_within((p(count - 1) - p(count)) / p(count - 1));
    kept_ = std::min(kept_, count);
  }

  void apply_min_p() {
    if (!call_.has("min_p")) return;
    const double least = std::min(parameter("min_p"), 1.0);
    size_t count = 0;
    while (count < kept_ && (count == 0 || p(count) >= least)) ++count;
    if (count < kept_) decide_within((p(count) - least) / least);
    if (z(count - 1) != z(0) && least > 0) decide_within((p(count - 1) - least) / least);
    kept_ = count;
  }

  void apply_top_k() {
    if (!call_.has("top_k")) return;
    const double k = parameter("top_k");
    if (k > 0 && k < static_cast<double>(kept_)) cut_to(static_cast<size_t>(k));
  }

  void apply_top_p() {
    if (!call_.has("top_p") || parameter("top_p") >= 1) return;
    double total = 0, running = 0;
    for (size_t rank = 0; rank < kept_; ++rank) total += p(rank);
    const double wanted = std::max(parameter("top_p"), 0.0) * total;
    size_t count = 0;
    do {
      running += p(count++);
      if (count < kept_) decide_within((running - wanted) / total);
    } while (count < kept_ && running < wanted);
    cut_to(count);
  }

  int64_t draw_by_index() {
    std::vector<int64_t> tokens(order_.begin(), order_.begin() + static_cast<int64_t>(kept_));
    std::sort(tokens.begin(), tokens.end());
    double total = 0, running = 0;
    for (int64_t token : tokens) total += p_[static_cast<size_t>(token)];
    const double target = uniform(parameter("seed"), parameter("offset")) * total;
    for (int64_t token : tokens) {
      const double before = running;
      running += p_[static_cast<size_t>(token)];
      if (running <= target) continue;
      if (before > 0) decide_within((target - before) / total);
      if (token != tokens.back()) decide_within((running - target) / total);
      return token;
    }
    return tokens.back();
  }

  const RefCall& call_;
  int64_t row_, best_ = 0;
  bool greedy_ = false, usable_ = false;
  std::vector<double> z_, p_;   // by token
  std::vector<int64_t> order_;  // tokens, most probable first
  size_t kept_ = 0;             // length of the prefix of order_ that the filters left
  double margin_ = 1;
};

// f32 exp of an exponent of at most 30 errs by 4 + 2 * 30 roundings; sums of such terms no more.
constexpr double kSafeMargin = 64 * 0x1p-24;

void fill_parameters(RefCall& call, std::mt19937_64& random) {
  auto pick = [&](const char* tensor, const std::vector<double>& choices) {
    if (!call.has(tensor)) return;
    for (double& value : call[tensor].data)
      value = round_to(static_cast<float>(choices[random() % choices.size()]), DType::kF32);
  };
  const double columns = static_cast<double>(call.dim("V"));
  pick("temperature", {0, 0.5, 0.7, 1, 1.5});
  pick("top_k", {-1, 0, 1, 2, 5, 50, columns, columns + 1});
  pick("top_p", {0, 0.05, 0.5, 0.9, 0.95, 1});
  pick("min_p", {0, 0.02, 0.1, 0.5});
}

}  // namespace

ReferenceDraw reference_draw(const RefCall& call, int64_t row) { return Row(call, row).draw(); }

void sample_ref(RefCall& call) {
  for (int64_t row = 0; row < call.dim("B"); ++row)
    call["out"]({row}) = static_cast<double>(reference_draw(call, row).token);
}

void sample_inputs(RefCall& call, uint64_t seed) {
  std::mt19937_64 random(seed);
  const DType dtype = call.config.dtype("logits");
  // Twice the default spread: a vocabulary of which some hundred tokens matter.
  for (double& z : call["logits"].data) z = round_to(static_cast<float>(2 * z), dtype);
  fill_parameters(call, random);
  for (int64_t row = 0; row < call.dim("B"); ++row) {
    double best_margin = -1;
    for (int attempt = 0; attempt < 16 && best_margin < kSafeMargin; ++attempt) {
      RefCall& c = call;
      const double old_seed = c["seed"]({row}), old_offset = c["offset"]({row});
      c["seed"]({row}) = static_cast<double>(random() >> 12);  // exact in double
      c["offset"]({row}) = static_cast<double>(random() >> 40);
      const double margin = reference_draw(c, row).margin;
      if (margin > best_margin) {
        best_margin = margin;
      } else {
        c["seed"]({row}) = old_seed;
        c["offset"]({row}) = old_offset;
      }
    }
    // A filter's boundary does not move with the seed: draw without it.
    if (best_margin < kSafeMargin && call.has("top_p")) call["top_p"]({row}) = 1;
    if (best_margin < kSafeMargin && call.has("min_p")) call["min_p"]({row}) = 0;
  }
}

}  // namespace rooftile::ops
