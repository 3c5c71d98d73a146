// SPDX-License-Identifier: Apache-2.0
// Schedule as one line of text: every field that differs from its default, in a fixed order, so
// that equal schedules print alike and a difference is visible at a glance.
#include "rooftile/compile/schedule.h"

#include <string_view>

namespace rooftile {
namespace {

std::string_view text_of(MmaMechanism m) {
  return m == MmaMechanism::kAuto ? "auto" : m == MmaMechanism::kAmx ? "amx" : "lanes";
}

std::string_view text_of(OperandForm form) {
  switch (form) {
    case OperandForm::kPack:
      return "pack";
    case OperandForm::kDirect:
      return "direct";
    case OperandForm::kPrepacked:
      return "prepacked";
    case OperandForm::kAhead:
      return "ahead";
  }
  return "";
}

std::string text_of(int64_t value) { return std::to_string(value); }

template <class Value>
std::string text_of(const std::map<std::string, Value>& values) {
  std::string out;
  for (const auto& [key, value] : values) {
    if (!out.empty()) out += ", ";
    out += key;
    out += "=";
    out += text_of(value);
  }
  return out;
}

std::string text_of(const std::vector<std::string>& values) {
  std::string out;
  for (const std::string& value : values) out += (out.empty() ? "" : ", ") + value;
  return out;
}

}  // namespace

std::string Schedule::str() const {
  const Schedule defaults;
  std::string out = name;
  auto field = [&out](std::string_view label, const std::string& value, bool differs) {
    if (!differs) return;
    if (!out.empty()) out += ' ';
    out += label;
    out += '(';
    out += value;
    out += ')';
  };
  auto number = [&](std::string_view label, int64_t value, int64_t standard) {
    field(label, std::to_string(value), value != standard);
  };
  field("tile", text_of(tile), !tile.empty());
  field("mma", text_of(mma), !mma.empty());
  field("operand", text_of(operand), !operand.empty());
  field("keep", text_of(keep), !keep.empty());
  field("recompute", text_of(recompute), !recompute.empty());
  number("fuse", fuse, defaults.fuse);
  number("nontemporal_bytes", nontemporal_bytes, defaults.nontemporal_bytes);
  field("gang", text_of(gang), !gang.empty());
  number("grain", grain, defaults.grain);
  number("dynamic", dynamic, defaults.dynamic);
  number("prefetch_rows", prefetch_rows, defaults.prefetch_rows);
  number("prefetch_bytes", prefetch_bytes, defaults.prefetch_bytes);
  number("threads", threads, defaults.threads);
  field("gpu", gpu.str(), gpu != gpu::Plan{});
  for (const Schedule& other : otherwise) field("otherwise", other.str(), true);
  return out;
}

}  // namespace rooftile
