// SPDX-License-Identifier: Apache-2.0
// The correctness ladder: one driver that takes any operator from its float64 reference to the
// kernel that is shipped.
//
//   1 interp   the tile program in the interpreter, in double precision: is the algorithm right?
//   2 vec      compiled with the plainest schedule (climb.h): is the vectorised code right?
//   3 kernel   compiled with its own schedule: is what we ship right?
//   4 fused    the same kernel against the composition of the operators that it replaces
//
// A hand-written kernel has no tile program: its rung 2 is the tile kernel that stands behind it,
// with the plainest schedule, and the emulator cannot run it.
//
// The target says where rungs 2 to 4 run (targets.h); the checks are the same everywhere.
// Each rung is compared with the reference and with the rung below it. See judge.h for what fails
// beside a wrong value.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "rooftile/base/diag.h"
#include "rooftile/check/compare.h"
#include "rooftile/check/targets.h"
#include "rooftile/compile/kernel.h"
#include "rooftile/ops/op_def.h"

namespace rooftile::check {

enum class Rung : uint8_t { kInterp = 1, kVec = 2, kKernel = 3, kFused = 4 };
std::string_view rung_name(Rung rung);

struct LadderOptions {
  std::string set = "smoke";     // smoke, ci (smoke too), llm, full (all of these), large
  std::string target = "cpu";    // see targets.h
  std::string route = "all";     // tile, raw, or all
  std::optional<Rung> rung;      // default: all
  std::optional<uint64_t> seed;  // default: fresh
  std::string only;              // "": all; else the readable id of one result
  int runs = 2;  // equal runs of a kernel, whose results must be equal to the bit; 2 or more
  double max_reference_flops =
      4e9;  // larger cases are skipped: the scalar reference would take too long
};

// One rung of one kernel on one case.
struct CheckLine {
  std::string
      id;  // "rms_norm/kernel/cpu/bf16/T8_H4096"; with the kernel's name if there are several
  std::string op, kernel, route, target, dtype, case_text;
  Rung rung = Rung::kInterp;
  Comparison errors;
  Tolerance tolerance;
  double below_norm_err = -1;  // against the rung below; -1: not compared
  uint64_t seed = 0;
  std::string output;     // the tensor that failed
  std::string first_bad;  // its first bad coordinate
  std::string layout;     // compact, padded, in place
  std::string skipped;    // why the rung was not run; then neither passed nor failed
  bool pass() const { return skipped.empty() && errors.pass; }

  std::string json_line() const;
  std::string text() const;  // one line for people; more when it failed
};

struct Tally {
  int passed = 0, failed = 0, skipped = 0;
  void add(const CheckLine& line);
};

// Runs every rung that applies of every kernel that applies to every case of the set. A Diag only
// for what is wrong with the request or the case list; failures are lines.
Result<Tally> run_ladder(const OpDef& op, const LadderOptions& options,
                         const std::function<void(const CheckLine&)>& sink);

// The kernels that run_ladder compiles for these options. Those that cannot be generated are left
// out; the reasons go to `refused`.
Result<std::vector<KernelSource>> ladder_sources(const OpDef& op, const LadderOptions& options,
                                                 std::vector<Diag>& refused);

bool in_set(const Case& test_case, std::string_view set);

// The call with its largest sizes halved until the reference costs at most `max_flops`, within the
// contract and as long as `admits` agrees. The same call if it is small already.
RefCall reduced_call(const OpDef& op, const RefCall& call, double max_flops,
                     const std::function<bool(const RefCall&)>& admits);
std::string dims_text(const RefCall& call);  // "M=16 N=512"

}  // namespace rooftile::check
