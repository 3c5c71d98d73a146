// SPDX-License-Identifier: Apache-2.0
// Measures steps: every distinct operator instance compiled, checked against its float64 reference,
// timed from memory and raced against the library; then the fusions. Progress goes to standard
// error.
#pragma once

#include <string>
#include <vector>

#include "rooftile/base/diag.h"
#include "rooftile/report/report_data.h"
#include "rooftile/report/step.h"

namespace rooftile::report {

struct MeasureOptions {
  std::string device = "cpu";  // "cpu", or "cuda": the first GPU
  bool library = true;
  bool fusions = true;
  double seconds_per_operator = 1;  // of timing; compiling and checking come on top
};

// An operator that fails has a row that says so; a Diag is for what makes the whole report
// impossible.
Result<Report> measure(const ModelConfig& model, const std::vector<StepRequest>& requests,
                       const MeasureOptions& options);

}  // namespace rooftile::report
