// SPDX-License-Identifier: Apache-2.0
// What a driver's error code means, and one readable error made of it.
#pragma once

#include <string>
#include <string_view>

#include "rooftile/base/diag.h"
#include "rooftile/runtime/cuda/driver_abi.h"

namespace rooftile::cuda {

// After one of these nothing more runs on the device in this process: the context is lost.
bool is_sticky(abi::Result error);

// "CUDA_ERROR_ILLEGAL_ADDRESS (700): an illegal memory access was encountered"
std::string error_text(const abi::Api& api, abi::Result error);

// RT-R005; RT-R006 for sticky errors, RT-R003 for want of memory, RT-R007 for what capture forbids.
// `subject`: a kernel or device. `doing`: what was asked of the driver, as in "launching the
// kernel". `when`: shape, schedule, device.
Diag driver_error(const abi::Api& api, abi::Result error, std::string subject,
                  std::string_view doing, std::string when = "");

}  // namespace rooftile::cuda
