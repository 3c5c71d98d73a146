// SPDX-License-Identifier: Apache-2.0
// A measurement as one JSON line.
#include <cmath>
#include <nlohmann/json.hpp>

#include "rooftile/bench/bench.h"

namespace rooftile::bench {
namespace {

using nlohmann::ordered_json;

ordered_json number(double value) {
  return std::isfinite(value) ? ordered_json(value) : ordered_json(nullptr);
}

ordered_json text_or_null(const std::string& text) {
  return text.empty() ? ordered_json(nullptr) : ordered_json(text);
}

void add_peers(const BenchLine& from, ordered_json& line) {
  const bool any = !from.peers.empty();
  line["peer"] = any ? ordered_json(from.peers.front().name) : ordered_json(nullptr);
  line["peer_us_p50"] = any ? number(from.peers.front().us.p50) : ordered_json(nullptr);
  line["ratio"] = any ? number(from.peers.front().ratio) : ordered_json(nullptr);
  if (!any) line["no_peer"] = from.no_peer;
  ordered_json all = ordered_json::array();
  for (const PeerTime& peer : from.peers)
    all.push_back({{"peer", peer.name},
                   {"us_p20", number(peer.us.p20)},
                   {"us_p50", number(peer.us.p50)},
                   {"us_p80", number(peer.us.p80)},
                   {"ratio", number(peer.ratio)},
                   {"prepacked", text_or_null(peer.prepacked)}});
  line["peers"] = all;
}

void add_check(const BenchLine& from, ordered_json& line) {
  line["checked"] = from.checked;
  line["pass"] = from.pass;
  if (!from.checked) return;
  line["check_case"] = from.check_case.empty() ? from.case_text : from.check_case;
  line["max_abs"] = number(from.errors.max_abs);
  line["max_rel"] = number(from.errors.max_rel);
  line["norm_err"] = number(from.errors.norm_err);
  line["tol"] = {
      {"abs", from.tolerance.abs}, {"rel", from.tolerance.rel}, {"norm", from.tolerance.norm}};
  line["seed"] = from.seed;
  if (from.peer_norm_err >= 0) line["peer_norm_err"] = number(from.peer_norm_err);
  if (!from.peer_wrong.empty()) line["peer_wrong"] = from.peer_wrong;
  if (!from.pass) line["reason"] = from.errors.reason;
}

ordered_json conditions(const std::optional<GpuConditions>& at) {
  if (!at) return nullptr;
  return {{"sm_mhz", at->sm_mhz},
          {"memory_mhz", at->memory_mhz},
          {"power_w", at->power_w},
          {"power_limit_w", at->power_limit_w},
          {"temperature_c", at->temperature_c}};
}

void add_gpu(const DeviceProvenance& from, ordered_json& line) {
  line.update({{"gpu", from.name},
               {"driver", text_or_null(from.driver)},
               {"cuda", from.cuda},
               {"nvrtc", text_or_null(from.nvrtc)},
               {"cublaslt", text_or_null(from.cublaslt)},
               {"before", conditions(from.before)},
               {"after", conditions(from.after)}});
}

}  // namespace

std::string BenchLine::json_line() const {
  ordered_json dims = ordered_json::object();
  for (const auto& [dim, extent] : shape) dims[dim] = extent;
  ordered_json line = {{"op", op},
                       {"kernel", kernel},
                       {"target", target},
                       {"device", device},
                       {"dtype", dtype},
                       {"case", case_text},
                       {"shape", dims},
                       {"us_p20", number(us.p20)},
                       {"us_p50", number(us.p50)},
                       {"us_p80", number(us.p80)},
                       {"tflops", number(tflops)},
                       {"gb_per_s", number(gb_per_s)},
                       {"roofline_fraction", number(roofline_fraction)},
                       {"roof_us", number(roof_us)},
                       {"bound", bound}};
  add_peers(*this, line);
  add_check(*this, line);
  line.update({{"route", route},
               {"schedule", schedule},
               {"flops", flops},
               {"bytes", bytes},
               {"prepacked", text_or_null(prepacked)},
               {"residency", residency},
               {"warmup", warmup},
               {"rounds", rounds},
               {"busy", busy},
               {"compile_ms", compile_ms},
               {"first_call_us", first_call_us}});
  if (gpu)
    add_gpu(*gpu, line);
  else
    line.update({{"threads", threads},
                 {"isa", isa},
                 {"compiler", compiler},
                 {"onednn", onednn},
                 {"openblas", openblas}});
  line.update({{"commit", commit}, {"timestamp", timestamp}});
  return line.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

}  // namespace rooftile::bench
