// SPDX-License-Identifier: Apache-2.0
// The findings of `rooftile doctor`, made in parts: doctor_verb.cc the machine and the CPU,
// doctor_gpu.cc all that has to do with GPUs.
#pragma once

#include <string>
#include <vector>

namespace rooftile::cli {

struct Finding {
  std::string what;
  std::string state;   // "ok", "absent", "off", "broken"
  std::string detail;  // what was found, or why not
  bool needed = false;
};

// The driver, each GPU, NVRTC, and compiled GPU kernels.
void add_gpu_findings(std::vector<Finding>& out);

}  // namespace rooftile::cli
