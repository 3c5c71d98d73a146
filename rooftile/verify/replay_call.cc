// SPDX-License-Identifier: Apache-2.0
#include "rooftile/verify/replay_call.h"

#include <algorithm>

#include "rooftile/check/case_inputs.h"
#include "rooftile/check/executor.h"
#include "rooftile/check/judge.h"

namespace rooftile::verify {
namespace {

// The sizes of the counterexample, where they are a call of this operator that can be run.
Env sizes_of(const OpDef& op, const Config& config, const Env& dims,
             const Counterexample& example) {
  constexpr int64_t kLargest = 4096;
  Env out = dims;
  for (auto& [name, size] : out) {
    const auto it = example.call.find(name);
    if (it != example.call.end() && it->second >= 0 && it->second <= kLargest) size = it->second;
  }
  RefCall call{.dims = out, .config = config};
  for (const AttrDef& attr : op.attrs) call.attrs[attr.name] = attr.default_value;
  return check::check_conditions(op, call).ok() ? out : dims;
}

}  // namespace

Replay replay_in_emulator(const OpDef& op, const KernelSource& source, const Config& config,
                          const Env& dims, const Counterexample& example, int seeds) {
  RefCall call{.dims = sizes_of(op, config, dims, example), .config = config};
  for (const AttrDef& attr : op.attrs) call.attrs[attr.name] = attr.default_value;
  if (const Status status = check::make_inputs(op, call, 1); !status.ok())
    return {false, false, status.str()};
  RefCall expected = call;
  op.reference_fn(expected);
  const Tolerance tolerance = op.tolerance_fn(expected);
  for (int seed = 1; seed <= seeds; ++seed) {
    const auto executor = check::emulator_executor(static_cast<uint64_t>(seed));
    if (executor->max_flops() > 0 && op.cost_fn(call).flops > executor->max_flops())
      return {false, false, "the call is too large for the emulator"};
    Result<check::Implementation> kernel = executor->prepare(source);
    if (!kernel.ok()) return {false, false, kernel.diag().str()};
    const check::Verdict verdict = check::judge({op, call, expected, tolerance, 2, 0}, *kernel);
    if (!verdict.pass())
      return {true, true,
              verdict.comparison.reason + (verdict.output.empty() ? "" : " in " + verdict.output)};
  }
  return {true, false, "nothing went wrong"};
}

}  // namespace rooftile::verify
