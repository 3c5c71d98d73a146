// SPDX-License-Identifier: Apache-2.0
// A caller may demand proved kernels alone (CallOptions::proved, ROOFTILE_REQUIRE_PROVED). The
// pipeline asks here before it hands out a kernel; verify/, which lies above it, answers
// (verify/proof_gate.cc).
#pragma once

#include "rooftile/base/diag.h"
#include "rooftile/compile/kernel.h"

namespace rooftile {

// RT-V005 with the first obligation that is not proved: also for a hand-written kernel, which
// nobody proves, and for one that a waiver lets pass elsewhere. Proves in a child process the first
// time, then remembers, here and on disk. Thread-safe.
Status require_proved(const KernelSource& source);

}  // namespace rooftile
