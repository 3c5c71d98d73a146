// SPDX-License-Identifier: Apache-2.0
// The fixed part of every generated launcher: ABI structs, checked arithmetic, interval tests,
// error formatting and delivery, workspace memory. Plain C++ without includes; only libc functions,
// declared in the text itself.
#pragma once

#include <string>

namespace rooftile::host {

// Everything lives in an unnamed namespace `rth`, so it can precede or follow any kernel text.
const std::string& launcher_prelude();
// What launchers have beyond it that see to it that no value stands twice in an index tensor.
const std::string& distinct_prelude();
// What launchers of GPU kernels have beyond it.
const std::string& gpu_prelude();

}  // namespace rooftile::host
