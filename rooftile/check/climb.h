// SPDX-License-Identifier: Apache-2.0
// One kernel on one case, up the rungs of the ladder. Used by ladder.cc.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "rooftile/check/executor.h"
#include "rooftile/check/judge.h"
#include "rooftile/check/ladder.h"
#include "rooftile/compile/kernel.h"

namespace rooftile::check {

// The schedule of a rung: the kernel's own, or for rung 2 the plainest that computes the same. On a
// CPU that is the same without fusion. On a GPU it is the last of those for other alignments, the
// one that asks for nothing; a kernel that has no others reads memory again in every pass.
Schedule rung_schedule(const KernelDef& kernel, const RefCall& call, const TargetInfo& target,
                       Rung rung);

// What rung 2 or 3 of a kernel compiles. Rung 2 of a raw kernel is that of the tile kernel behind
// it.
Result<KernelSource> rung_source(const OpDef& op, const KernelDef& kernel, const RefCall& call,
                                 const TargetInfo& target, Rung rung);

class Climb {
 public:
  Climb(const OpDef& op, const KernelDef& kernel, const Case& test_case, const Config& config,
        const LadderOptions& options, const TargetInfo& target, Executor& executor,
        const std::function<void(const CheckLine&)>& sink);

  // Whether the options ask for any rung of this kernel on this case.
  bool wanted() const;
  // Reports every wanted rung as not run.
  void skip(const std::string& why) const;
  // `expected` is `inputs` after the reference.
  void run(const RefCall& inputs, const RefCall& expected, uint64_t seed);

 private:
  using Results = std::map<std::string, NdArray, std::less<>>;

  bool applies(Rung rung) const;
  std::string cannot_run(Rung rung) const;  // why not, or empty
  bool wanted(Rung rung) const;
  CheckLine line(Rung rung) const;
  std::string id(Rung rung) const;
  void interp();
  void compiled(Rung rung);
  bool skipped(Rung rung);
  void against_unfused();
  void fail(CheckLine line, const Diag& diag) const;
  void finish(CheckLine line, const Verdict& verdict);
  void compare_below(CheckLine& line, const Results& results);

  const OpDef& op_;
  const KernelDef& kernel_;
  const Case& case_;
  const Config& config_;
  const LadderOptions& options_;
  const TargetInfo& target_;
  Executor& executor_;
  const std::function<void(const CheckLine&)>& sink_;
  const RefCall* inputs_ = nullptr;
  const RefCall* expected_ = nullptr;
  uint64_t seed_ = 0;
  Tolerance tolerance_;
  Results below_;           // of the last rung that ran
  Results kernel_results_;  // of rung 3
};

}  // namespace rooftile::check
