// SPDX-License-Identifier: Apache-2.0
// A fault, on its way from where it was found to run(), which returns it.
//
// Thrown inside the emulator only. Who found it says what is wrong and what would be right; the
// machine adds the kernel, instruction, CTA, warp and loop variables.
#pragma once

#include <string>

#include "rooftile/base/diag.h"

namespace rooftile::emulate {

struct Fault {
  ErrorCode code = ErrorCode::kInternal;
  std::string message;
  std::string found, expected, fix;
  int lane = -1;  // the lane to blame, if it is one
};

}  // namespace rooftile::emulate
