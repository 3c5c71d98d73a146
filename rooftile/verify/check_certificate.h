// SPDX-License-Identifier: Apache-2.0
// A second look at a certificate, by other means: none of the provers' code, no solver.
//
// Given the kernel's code made anew, it asks: is this the code, and this its contract? Is every
// obligation that such code owes there, proved, or waived by the source itself? And it redoes what
// a small program can: counts, budgets, bytes, layouts from the code; formulas by elimination and
// by trying values (check_formula.h). What it cannot redo (the exploration of protocols, nonlinear
// arithmetic) it counts as believed.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "rooftile/base/diag.h"
#include "rooftile/compile/kernel.h"
#include "rooftile/ops/op_def.h"

namespace rooftile::verify {

struct Checked {
  int redone = 0;    // obligations shown again
  int believed = 0;  // the provers' word
};

// What a certificate says that it is of, to make the code anew.
struct CertificateHead {
  std::string op, kernel, config, request, schedule, target, name;
};
Result<CertificateHead> certificate_head(std::string_view text);

// RT-V007 with the first thing that does not hold.
Result<Checked> check_certificate(std::string_view text, const KernelSource& source,
                                  const std::vector<Waiver>& waivers);

}  // namespace rooftile::verify
