// SPDX-License-Identifier: Apache-2.0
#include "rooftile/compile/schedule_change.h"

#include <charconv>
#include <functional>
#include <map>
#include <optional>
#include <sstream>
#include <string>

namespace rooftile {
namespace {

std::optional<int> number(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

// "name:3" -> name, 3.
std::optional<std::pair<std::string, int>> named_number(const std::string& text, char between) {
  const size_t at = text.find(between);
  if (at == std::string::npos) return std::nullopt;
  const std::optional<int> value = number(std::string_view(text).substr(at + 1));
  if (!value) return std::nullopt;
  return std::pair(text.substr(0, at), *value);
}

using Change = std::function<bool(Schedule&, const std::string&)>;

Change sets(std::function<void(gpu::Plan&, int)> set) {
  return [set = std::move(set)](Schedule& s, const std::string& text) {
    const std::optional<int> value = number(text);
    if (value) set(s.gpu, *value);
    return value.has_value();
  };
}

bool set_regs(Schedule& s, const std::string& text) {
  const size_t at = text.find('/');
  const std::optional<int> computing = number(std::string_view(text).substr(0, at));
  const std::optional<int> copying =
      at == std::string::npos ? 0 : number(std::string_view(text).substr(at + 1));
  if (!computing || !copying || s.gpu.roles.size() != 2) return false;
  s.gpu.roles[0].regs = *copying;
  s.gpu.roles[1].regs = *computing;
  return true;
}

bool set_cluster(Schedule& s, const std::string& text) {
  s.gpu.cluster.clear();
  for (auto& [label, copy] : s.gpu.copy) copy.multicast = copy.multicast && text != "none";
  if (text == "none") return true;
  const auto axis = named_number(text, ':');
  if (axis) s.gpu.cluster = {{axis->first, axis->second}};
  return axis.has_value();
}

bool set_multicast(Schedule& s, const std::string& text) {
  const auto copy = s.gpu.copy.find(text);
  if (copy == s.gpu.copy.end()) return false;
  copy->second.multicast = true;
  return true;
}

// As printed: "kk:2" over a cluster, "kk:grid:2" over the grid, "kk:stream:1" evenly over it.
bool set_split(Schedule& s, const std::string& text) {
  s.gpu.split.clear();
  if (text == "none") return true;
  const size_t at = text.find(':');
  if (at == std::string::npos) return false;
  gpu::LoopSplit split{.loop = text.substr(0, at)};
  std::string count = text.substr(at + 1);
  const bool stream = count.starts_with("stream:"), grid = count.starts_with("grid:");
  if (stream || grid) {
    split.across = gpu::Across::kGrid;
    count.erase(0, count.find(':') + 1);
  }
  const std::optional<int> value = number(count);
  if (!value || (grid && *value == 0)) return false;
  split.ways = stream ? 0 : *value;
  if (stream) split.stream_waves = *value;
  s.gpu.split = {split};
  return true;
}

bool set_turns(Schedule& s, const std::string& text) {
  s.gpu.turns.clear();
  if (text == "none") return true;
  const size_t at = text.find(':');
  s.gpu.turns = {{.loop = text.substr(0, at), .each_step = at != std::string::npos}};
  return at == std::string::npos || text.substr(at) == ":step";
}

bool set_unit(Schedule& s, const std::string& text) {
  const std::map<std::string, gpu::Unit> units = {
      {"wgmma", gpu::Unit::kWgmma}, {"mma_sync", gpu::Unit::kMmaSync}, {"fma", gpu::Unit::kFma}};
  const auto unit = units.find(text);
  if (unit == units.end()) return false;
  for (auto& [label, product] : s.gpu.product) product.unit = unit->second;
  return true;
}

bool set_order(Schedule& s, const std::string& text) {
  s.gpu.order.axes.clear();
  if (text == "none") return true;
  std::istringstream axes(text);
  for (std::string axis; std::getline(axes, axis, '+');) s.gpu.order.axes.push_back(axis);
  return !s.gpu.order.axes.empty();
}

bool set_staging(Schedule& s, const std::string& text) {
  const auto staging = text == "0" ? std::pair(std::string("0"), 1)
                                   : named_number(text, 'x').value_or(std::pair("", 0));
  const std::optional<int> columns = number(staging.first);
  if (!columns || staging.second < 1) return false;
  for (auto& [label, copy] : s.gpu.copy)
    if (copy.staging_columns != 0) {
      copy.staging_columns = *columns;
      copy.staging_buffers = staging.second;
      if (*columns == 0) copy.via = gpu::Via::kVector;
    }
  return true;
}

const std::map<std::string, Change, std::less<>>& changes() {
  static const std::map<std::string, Change, std::less<>> table = {
      {"depth", sets([](gpu::Plan& p, int n) {
         if (!p.rings.empty()) p.rings[0].depth = n;
       })},
      {"ctas", sets([](gpu::Plan& p, int n) { p.ctas_per_sm = n; })},
      {"dependent", sets([](gpu::Plan& p, int n) { p.dependent_launch = n != 0; })},
      {"band", sets([](gpu::Plan& p, int n) { p.order.band = n; })},
      {"groups", sets([](gpu::Plan& p, int n) {
         if (p.roles.size() == 2) p.roles[1].groups = n;
       })},
      {"swap", sets([](gpu::Plan& p, int n) {
         for (auto& [label, product] : p.product) product.swap = n != 0;
       })},
      {"evict_first", sets([](gpu::Plan& p, int n) {
         for (auto& [label, copy] : p.copy)
           if (copy.staging_columns == 0) copy.l2 = n != 0 ? gpu::L2::kEvictFirst : gpu::L2::kPlain;
       })},
      {"in_flight", sets([](gpu::Plan& p, int n) {
         for (auto& [label, product] : p.product) product.in_flight = n;
       })},
      {"grid",
       [](Schedule& s, const std::string& text) {
         s.gpu.grid = text == "persistent" ? gpu::Grid::kPersistent : gpu::Grid::kCover;
         return text == "persistent" || text == "cover";
       }},
      {"share",
       [](Schedule& s, const std::string& text) {
         s.gpu.share = text == "turns" ? gpu::Share::kTurns : gpu::Share::kRows;
         return text == "turns" || text == "rows";
       }},
      {"regs", set_regs},
      {"cluster", set_cluster},
      {"multicast", set_multicast},
      {"split", set_split},
      {"turns", set_turns},
      {"order", set_order},
      {"unit", set_unit},
      {"threads", sets([](gpu::Plan& p, int n) { p.strips.threads = n; })},
      {"held", sets([](gpu::Plan& p, int n) { p.strips.held_vectors = n; })},
      {"staging", set_staging},
  };
  return table;
}

bool set_field(Schedule& schedule, const std::string& word) {
  const size_t at = word.find('=');
  if (at == std::string::npos) return false;
  const std::string key = word.substr(0, at), value = word.substr(at + 1);
  if (const auto tile = schedule.tile.find(key); tile != schedule.tile.end()) {
    const std::optional<int> size = number(value);
    if (size) tile->second = *size;
    return size.has_value();
  }
  const auto change = changes().find(key);
  return change != changes().end() && change->second(schedule, value);
}

}  // namespace

Status change_schedule(Schedule& schedule, std::string_view words) {
  std::istringstream in{std::string(words)};
  for (std::string word; in >> word;) {
    if (!set_field(schedule, word)) {
      Diag diag;
      diag.code = ErrorCode::kSchedule;
      diag.subject = schedule.name;
      diag.message = "the schedule has no such field, or it takes no such value";
      diag.found = word;
      std::string keys;
      for (const auto& [key, change] : changes()) keys += (keys.empty() ? "" : ", ") + key;
      diag.expected = keys + ", or a tile parameter";
      return diag;
    }
    for (const char c : word)
      schedule.name += std::isalnum(static_cast<unsigned char>(c)) != 0 ? std::string(1, c)
                       : c == '='                                       ? "_"
                                                                        : "";
    schedule.name += "_";
  }
  return {};
}

}  // namespace rooftile
