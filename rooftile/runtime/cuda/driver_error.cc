// SPDX-License-Identifier: Apache-2.0
#include "rooftile/runtime/cuda/driver_error.h"

namespace rooftile::cuda {

namespace {

ErrorCode code_of(abi::Result error) {
  if (is_sticky(error)) return ErrorCode::kDeviceLost;
  if (error == abi::kOutOfMemory) return ErrorCode::kOutOfMemory;
  if (error >= abi::kCaptureUnsupported && error <= abi::kCaptureWrongThread)
    return ErrorCode::kCapture;
  return ErrorCode::kDriver;
}

const char* fix_for(abi::Result error) {
  switch (error) {
    case abi::kIllegalAddress:
    case abi::kMisalignedAddress:
    case abi::kInvalidAddressSpace:
      return "start the process anew; run it once under `compute-sanitizer` to see which access it "
             "was (were all arguments alive until the kernel had ended?)";
    case abi::kLaunchTimeout:
      return "start the process anew; the kernel ran too long for a GPU that also drives a display";
    case abi::kEccUncorrectable:
    case abi::kNvlinkUncorrectable:
    case abi::kContained:
      return "a hardware fault: reset the GPU or use another one; `nvidia-smi -q` has the counters";
    case abi::kOutOfMemory:
      return "free memory on the device (`nvidia-smi` shows who holds it), or use smaller shapes";
    case abi::kNoBinaryForGpu:
    case abi::kInvalidImage:
      return "the kernel is for compute capability 9.0 (Hopper) and CUDA 13 drivers; `rooftile "
             "doctor` says what this GPU is";
    case abi::kUnsupportedPtxVersion:
      return "the driver is older than the NVRTC that made the code: update the driver (580 or "
             "later)";
    case abi::kLaunchOutOfResources:
      return "the block asks for more registers or shared memory than an SM has: smaller tiles or "
             "fewer stages in the schedule";
    case abi::kInvalidClusterSize:
    case abi::kCooperativeLaunchTooLarge:
      return "a smaller cluster or grid in the schedule";
    case abi::kCaptureUnsupported:
    case abi::kCaptureImplicit:
      return "do it before the capture begins: run the function once outside it";
    case abi::kCaptureInvalidated:
    case abi::kCaptureUnjoined:
    case abi::kCaptureWrongThread:
      return "end this capture and begin it anew; an operation that capture forbids was called "
             "during it";
    case abi::kDeviceUnavailable:
      return "another process holds the GPU in exclusive mode (`nvidia-smi -q -d COMPUTE`)";
    case abi::kInvalidContext:
    case abi::kContextIsDestroyed:
    case abi::kDeinitialized:
      return "the process is ending, or someone has reset the device: nothing can run there any "
             "more";
    default:
      return is_sticky(error) ? "start the process anew; run it once under `compute-sanitizer`"
                              : "";
  }
}

}  // namespace

bool is_sticky(abi::Result error) {
  switch (error) {
    case abi::kEccUncorrectable:
    case abi::kNvlinkUncorrectable:
    case abi::kContained:
    case abi::kIllegalAddress:
    case abi::kLaunchTimeout:
    case abi::kAssert:
    case abi::kHardwareStackError:
    case abi::kIllegalInstruction:
    case abi::kMisalignedAddress:
    case abi::kInvalidAddressSpace:
    case abi::kInvalidPc:
    case abi::kLaunchFailed:
    case abi::kContextIsDestroyed:
      return true;
    default:
      return false;
  }
}

std::string error_text(const abi::Api& api, abi::Result error) {
  const char* name = nullptr;
  const char* words = nullptr;
  if (api.GetErrorName == nullptr || api.GetErrorName(error, &name) != abi::kSuccess)
    name = nullptr;
  if (api.GetErrorString == nullptr || api.GetErrorString(error, &words) != abi::kSuccess)
    words = nullptr;
  return std::string(name != nullptr ? name : "CUDA error") + " (" + std::to_string(error) + ")" +
         (words != nullptr ? ": " + std::string(words) : "");
}

Diag driver_error(const abi::Api& api, abi::Result error, std::string subject,
                  std::string_view doing, std::string when) {
  const bool sticky = is_sticky(error);
  return {.code = code_of(error),
          .subject = std::move(subject),
          .message = sticky ? "the GPU reported a failure while " + std::string(doing) +
                                  "; the kernel to blame may be an earlier one"
                            : "the CUDA driver failed while " + std::string(doing),
          .found = error_text(api, error),
          .when = std::move(when),
          .fix = fix_for(error)};
}

}  // namespace rooftile::cuda
