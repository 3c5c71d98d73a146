// SPDX-License-Identifier: Apache-2.0
#include "rooftile/toolchain/ptxas_report.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <nlohmann/json.hpp>

namespace rooftile {

namespace {

// ---- reading lines ---------------------------------------------------------------------------

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front())))
    text.remove_prefix(1);
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back())))
    text.remove_suffix(1);
  return text;
}

// The number that stands before `unit`, as in "564 bytes spill stores"; 0 if the unit is not there.
int64_t number_before(std::string_view line, std::string_view unit) {
  const size_t at = line.find(unit);
  if (at == std::string_view::npos) return 0;
  size_t begin = at;
  while (begin > 0 && std::isdigit(static_cast<unsigned char>(line[begin - 1]))) --begin;
  int64_t value = 0;
  std::from_chars(line.data() + begin, line.data() + at, value);
  return value;
}

int leading_number(std::string_view text) {
  int value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

// What stands in quotes after `label`; nullopt without the label.
std::optional<std::string> quoted_after(std::string_view line, std::string_view label) {
  const size_t at = line.find(label);
  if (at == std::string_view::npos) return std::nullopt;
  const size_t begin = line.find('\'', at + label.size());
  if (begin == std::string_view::npos) return std::nullopt;
  const size_t end = line.find('\'', begin + 1);
  if (end == std::string_view::npos) return std::nullopt;
  return std::string(line.substr(begin + 1, end - begin - 1));
}

// "in function 'f'", "in the function 'f'", "for function 'f'", "in function f."
std::string kernel_in(std::string_view line) {
  if (auto name = quoted_after(line, "function")) return *name;
  constexpr std::string_view kBare = "in function ";
  const size_t at = line.find(kBare);
  if (at == std::string_view::npos) return "";
  const std::string_view rest = line.substr(at + kBare.size());
  size_t length = 0;
  while (length < rest.size() && (std::isalnum(static_cast<unsigned char>(rest[length])) ||
                                  rest[length] == '_' || rest[length] == '$'))
    ++length;
  return std::string(rest.substr(0, length));
}

PtxasRemarkKind kind_of(std::string_view code) {
  constexpr std::array<std::string_view, 10> kSerialised = {
      "C7509", "C7510", "C7511", "C7512", "C7513", "C7514", "C7515", "C7516", "C7518", "C7520"};
  const auto is = [code](std::initializer_list<std::string_view> codes) {
    return std::find(codes.begin(), codes.end(), code) != codes.end();
  };
  if (std::find(kSerialised.begin(), kSerialised.end(), code) != kSerialised.end())
    return PtxasRemarkKind::kSerialisedWgmma;
  if (is({"C7517", "C7519"})) return PtxasRemarkKind::kInjectedWait;
  if (is({"C7504", "C7507", "C7508"})) return PtxasRemarkKind::kDroppedSetmaxnreg;
  if (is({"C7602"})) return PtxasRemarkKind::kRegisterTarget;
  return PtxasRemarkKind::kOther;
}

// "ptxas info    : (C7511) Potential ..." in parts.
struct Line {
  std::string_view severity;  // "info", "warning", "error", "fatal", "." (a line that goes on)
  std::string_view code;      // "C7511"
  std::string_view text;
};

std::optional<Line> split(std::string_view raw) {
  constexpr std::string_view kPtxas = "ptxas ";
  std::string_view line = trimmed(raw);
  if (!line.starts_with(kPtxas)) return std::nullopt;
  line = trimmed(line.substr(kPtxas.size()));
  Line out;
  if (line.starts_with('.')) {
    out.severity = line.substr(0, 1);
    out.text = trimmed(line.substr(1));
    return out;
  }
  const size_t colon = line.find(':');
  if (colon == std::string_view::npos) return std::nullopt;
  out.severity = trimmed(line.substr(0, colon));
  out.text = trimmed(line.substr(colon + 1));
  if (out.text.starts_with("(C")) {
    const size_t close = out.text.find(')');
    if (close != std::string_view::npos) {
      out.code = out.text.substr(1, close - 1);
      out.text = trimmed(out.text.substr(close + 1));
    }
  }
  return out;
}

void read_resources(std::string_view text, PtxasKernel& kernel) {
  if (text.find("bytes stack frame") != std::string_view::npos) {
    kernel.stack_bytes = number_before(text, " bytes stack frame");
    kernel.spill_store_bytes = number_before(text, " bytes spill stores");
    kernel.spill_load_bytes = number_before(text, " bytes spill loads");
  }
  if (text.starts_with("Used ")) {
    kernel.registers = static_cast<int>(number_before(text, " registers"));
    kernel.barriers = static_cast<int>(number_before(text, " barriers"));
    kernel.static_smem_bytes = number_before(text, " bytes smem");
  }
}

// ---- shipped_ok ------------------------------------------------------------------------------

std::string_view fix_for(PtxasRemarkKind kind, std::string_view code) {
  if (kind == PtxasRemarkKind::kDroppedSetmaxnreg) {
    if (code == "C7508") return "declare __launch_bounds__(threads, 1), with the 1";
    if (code == "C7507") return "give that role more registers in the schedule";
    return "compile the kernel whole, without -rdc";
  }
  if (code == "C7509" || code == "C7510") return "inline every call between the wgmma instructions";
  if (code == "C7511" || code == "C7512")
    return "smaller tiles or fewer accumulators in flight, so that registers suffice";
  if (code == "C7513")
    return "do not rewrite an operand's registers before its wgmma has been waited for";
  if (code == "C7514" || code == "C7515")
    return "leave accumulators alone until the wait; begin a sum with scale-d = 0, not with zeros";
  if (code == "C7518" || code == "C7520") return "branch on a warp-uniform value around wgmma";
  return "straight-line wgmma stages: fence, products, commit, wait";
}

std::string spill_text(const PtxasKernel& kernel) {
  return kernel.name + " spills " + std::to_string(kernel.spill_store_bytes) + " bytes out and " +
         std::to_string(kernel.spill_load_bytes) + " in, at " + std::to_string(kernel.registers) +
         " registers";
}

}  // namespace

const PtxasKernel* PtxasReport::find(std::string_view kernel) const {
  const auto it = std::find_if(kernels.begin(), kernels.end(),
                               [&](const PtxasKernel& k) { return k.name == kernel; });
  return it == kernels.end() ? nullptr : &*it;
}

int PtxasReport::count(PtxasRemarkKind kind) const {
  return static_cast<int>(std::count_if(remarks.begin(), remarks.end(),
                                        [&](const PtxasRemark& r) { return r.kind == kind; }));
}

PtxasReport parse_ptxas_log(std::string_view log) {
  PtxasReport report;
  bool in_kernel = false;  // the resource lines of device functions are not a kernel's
  while (!log.empty()) {
    const size_t end = std::min(log.find('\n'), log.size());
    const std::optional<Line> line = split(log.substr(0, end));
    log.remove_prefix(std::min(end + 1, log.size()));
    if (!line) continue;
    if (auto entry = quoted_after(line->text, "Compiling entry function")) {
      report.kernels.push_back({.name = *entry});
      in_kernel = true;
    } else if (line->text.starts_with("Function properties for ")) {
      in_kernel = !report.kernels.empty() && line->text.ends_with(" " + report.kernels.back().name);
    } else if (!line->code.empty() || line->severity == "warning" || line->severity == "error" ||
               line->severity == "fatal") {
      report.remarks.push_back({.kind = kind_of(line->code),
                                .code = std::string(line->code),
                                .kernel = kernel_in(line->text),
                                .text = std::string(line->text)});
      constexpr std::string_view kTarget = "register target of ";
      const size_t at = line->text.find(kTarget);
      if (report.remarks.back().kind == PtxasRemarkKind::kRegisterTarget &&
          at != std::string_view::npos)
        report.registers_at_least = leading_number(line->text.substr(at + kTarget.size()));
    } else if (in_kernel) {
      read_resources(line->text, report.kernels.back());
    }
  }
  return report;
}

Status shipped_ok(const PtxasReport& report, std::string_view subject) {
  std::vector<std::string> found;
  std::string_view fix;
  const auto add = [&](std::string text, std::string_view its_fix) {
    if (std::find(found.begin(), found.end(), text) != found.end()) return;
    found.push_back(std::move(text));
    if (fix.empty()) fix = its_fix;
  };
  for (const PtxasRemark& remark : report.remarks)
    if (remark.kind == PtxasRemarkKind::kSerialisedWgmma ||
        remark.kind == PtxasRemarkKind::kDroppedSetmaxnreg)
      add(remark.code + " " + remark.text, fix_for(remark.kind, remark.code));
  for (const PtxasKernel& kernel : report.kernels)
    if (kernel.spill_store_bytes > 0 || kernel.spill_load_bytes > 0)
      add(spill_text(kernel),
          "fewer values alive at once: smaller tiles, or more registers a thread");
  if (report.kernels.empty())
    add("no kernel in the report", "compile with --ptxas-options=-v, to a cubin");
  if (found.empty()) return {};

  constexpr size_t kShown = 4;
  std::string text;
  for (size_t i = 0; i < std::min(found.size(), kShown); ++i) text += (i ? "; " : "") + found[i];
  if (found.size() > kShown) text += "; and " + std::to_string(found.size() - kShown) + " more";
  return Diag{.code = ErrorCode::kCudaReport,
              .subject = std::string(subject),
              .message = "ptxas compiled the kernel into something that must not be shipped",
              .found = std::move(text),
              .expected = "no spills, no serialised wgmma, no dropped setmaxnreg",
              .fix = std::string(fix)};
}

// ---- JSON ------------------------------------------------------------------------------------

std::string report_json(const PtxasReport& report) {
  nlohmann::ordered_json kernels = nlohmann::ordered_json::array();
  for (const PtxasKernel& k : report.kernels)
    kernels.push_back({{"name", k.name},
                       {"registers", k.registers},
                       {"barriers", k.barriers},
                       {"static_smem_bytes", k.static_smem_bytes},
                       {"stack_bytes", k.stack_bytes},
                       {"spill_store_bytes", k.spill_store_bytes},
                       {"spill_load_bytes", k.spill_load_bytes}});
  nlohmann::ordered_json remarks = nlohmann::ordered_json::array();
  for (const PtxasRemark& r : report.remarks)
    remarks.push_back({{"code", r.code}, {"kernel", r.kernel}, {"text", r.text}});
  nlohmann::ordered_json out = {{"kernels", kernels}, {"remarks", remarks}};
  if (report.registers_at_least) out["registers_at_least"] = *report.registers_at_least;
  return out.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

std::optional<PtxasReport> report_from_json(std::string_view text) {
  const nlohmann::json in = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!in.is_object()) return std::nullopt;
  PtxasReport out;
  try {
    for (const auto& k : in.at("kernels"))
      out.kernels.push_back({.name = k.at("name"),
                             .registers = k.at("registers"),
                             .barriers = k.at("barriers"),
                             .static_smem_bytes = k.at("static_smem_bytes"),
                             .stack_bytes = k.at("stack_bytes"),
                             .spill_store_bytes = k.at("spill_store_bytes"),
                             .spill_load_bytes = k.at("spill_load_bytes")});
    for (const auto& r : in.at("remarks")) {
      const std::string code = r.at("code");
      out.remarks.push_back({kind_of(code), code, r.at("kernel"), r.at("text")});
    }
    if (in.contains("registers_at_least"))
      out.registers_at_least = in["registers_at_least"].get<int>();
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
  return out;
}

}  // namespace rooftile
