// SPDX-License-Identifier: Apache-2.0
// A case of an operator through the GPU lowering and the emulator, compared with its float64
// reference: what a device would compute, on any machine.
#pragma once

#include <cstdint>
#include <string>

#include "rooftile/check/compare.h"
#include "rooftile/codegen/gpu/lower.h"
#include "rooftile/ops/op_def.h"

namespace rooftile::testing {

struct EmulatedResult {
  check::Comparison comparison;
  std::string variant;  // which one ran
};

// Lowers `kernel` under `schedule` by strips; every program is verified.
Result<std::vector<codegen::GpuVariant>> lower_case(const OpDef& op, const KernelDef& kernel,
                                                    const RefCall& call, const Schedule& schedule,
                                                    std::string* scheduled = nullptr);

// Inputs, reference and outputs of one case; runs may be repeated with other seeds and layouts.
class EmulatedCase {
 public:
  static Result<EmulatedCase> make(const OpDef& op, const std::string& text, uint64_t seed);

  const RefCall& call() const { return call_; }
  // Whether the conditions of a variant hold for this call.
  bool meets(const codegen::GpuNeeds& needs) const;
  // Runs the phases of `variant` one after the other. `padded`: rows apart and no better aligned
  // than the contract asks, else dense.
  Result<check::Comparison> run(const codegen::GpuVariant& variant, bool padded,
                                uint64_t seed) const;

 private:
  const OpDef* op_ = nullptr;
  RefCall call_;    // inputs
  RefCall wanted_;  // after the reference
};

}  // namespace rooftile::testing
