// SPDX-License-Identifier: Apache-2.0
// What ptxas says about a compilation, as data: resources of each kernel, and the remarks that mean
// a kernel is much slower than its text, although ptxas calls the compilation a success.
//
// The source is the log of `ptxas -v`, which NVRTC hands on. Remarks are told apart by their code
// (C7511), never by their wording. shipped_ok() is the bar for kernels that Rooftile ships.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rooftile/base/diag.h"

namespace rooftile {

struct PtxasKernel {
  std::string name;
  int registers = 0;  // of each thread
  int barriers = 0;   // named barriers (bar.sync), of 16
  int64_t static_smem_bytes = 0;
  int64_t stack_bytes = 0;  // of each thread, in local memory
  int64_t spill_store_bytes = 0, spill_load_bytes = 0;
  bool operator==(const PtxasKernel&) const = default;
};

enum class PtxasRemarkKind : uint8_t {
  kSerialisedWgmma,    // C7509 to C7516, C7518, C7520: each wgmma waits for the one before
  kInjectedWait,       // C7517, C7519: ptxas put in a wgmma fence or wait; worth a look
  kDroppedSetmaxnreg,  // C7504, C7507, C7508: registers are not moved between warpgroups
  kRegisterTarget,     // C7602: the register cap is too low for an instruction
  kOther,
};

struct PtxasRemark {
  PtxasRemarkKind kind = PtxasRemarkKind::kOther;
  std::string code;    // "C7511"; "" if ptxas gives none
  std::string kernel;  // "" if ptxas names none
  std::string text;    // without "ptxas info :" and without the code
  bool operator==(const PtxasRemark&) const = default;
};

struct PtxasReport {
  std::vector<PtxasKernel> kernels;
  std::vector<PtxasRemark> remarks;       // infos with a code, warnings and errors, in their order
  std::optional<int> registers_at_least;  // what a C7602 asks for

  const PtxasKernel* find(std::string_view kernel) const;  // null: no such kernel
  int count(PtxasRemarkKind kind) const;
  bool operator==(const PtxasReport&) const = default;
};

PtxasReport parse_ptxas_log(std::string_view log);

// RT-T006 if a kernel spills registers, if its wgmma instructions are serialised or if a setmaxnreg
// was dropped; also if the report names no kernel, which proves nothing. One error lists all that
// was found and says what to do about the first. `subject`: the operator or kernel, for people.
Status shipped_ok(const PtxasReport& report, std::string_view subject);

// One JSON object, and back; nullopt if it is not one that report_json wrote.
std::string report_json(const PtxasReport& report);
std::optional<PtxasReport> report_from_json(std::string_view json);

}  // namespace rooftile
