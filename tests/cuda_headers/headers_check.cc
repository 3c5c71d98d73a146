// SPDX-License-Identifier: Apache-2.0
// Rooftile's own declarations beside the real cuda.h and nvrtc.h: compiled by cuda_headers_test.cc
// where the toolkit's headers are, never linked or run. Numbers and layouts must be equal; entry
// points must take as many parameters, of the same sizes, pointers where there are pointers.
#include <cuda.h>
#include <nvrtc.h>

#include "rooftile/runtime/cuda/driver_abi.h"
#include "rooftile/toolchain/nvrtc_abi.h"
#include "tests/support/same_shape.h"

namespace {

namespace abi = rooftile::cuda::abi;
namespace nvrtc = rooftile::nvrtc_abi;

#define RT_CHECK_DRIVER(field, version, parameters) \
  static_assert(kSameShape<decltype(abi::Api::field), decltype(&cu##field)>, "cu" #field);
RT_CUDA_ENTRY_POINTS(RT_CHECK_DRIVER)
static_assert(kSameShape<abi::GetProcAddress, decltype(&cuGetProcAddress)>);

// RT_CHECK_NVRTC(field, "nvrtcSymbol", ...): the symbol is a string there, so it is repeated here.
#define RT_SAME(field, symbol) \
  static_assert(kSameShape<decltype(nvrtc::Api::field), decltype(&symbol)>, #symbol)
RT_SAME(version, nvrtcVersion);
RT_SAME(create_program, nvrtcCreateProgram);
RT_SAME(destroy_program, nvrtcDestroyProgram);
RT_SAME(compile_program, nvrtcCompileProgram);
RT_SAME(get_log_size, nvrtcGetProgramLogSize);
RT_SAME(get_log, nvrtcGetProgramLog);
RT_SAME(get_ptx_size, nvrtcGetPTXSize);
RT_SAME(get_ptx, nvrtcGetPTX);
RT_SAME(get_cubin_size, nvrtcGetCUBINSize);
RT_SAME(get_cubin, nvrtcGetCUBIN);
RT_SAME(get_error_string, nvrtcGetErrorString);

// ---- layouts ---------------------------------------------------------------------------------

static_assert(sizeof(abi::LaunchConfig) == sizeof(CUlaunchConfig));
static_assert(offsetof(abi::LaunchConfig, grid_z) == offsetof(CUlaunchConfig, gridDimZ));
static_assert(offsetof(abi::LaunchConfig, block_x) == offsetof(CUlaunchConfig, blockDimX));
static_assert(offsetof(abi::LaunchConfig, dynamic_smem_bytes) ==
              offsetof(CUlaunchConfig, sharedMemBytes));
static_assert(offsetof(abi::LaunchConfig, stream) == offsetof(CUlaunchConfig, hStream));
static_assert(offsetof(abi::LaunchConfig, attributes) == offsetof(CUlaunchConfig, attrs));
static_assert(offsetof(abi::LaunchConfig, num_attributes) == offsetof(CUlaunchConfig, numAttrs));
static_assert(sizeof(abi::LaunchAttribute) == sizeof(CUlaunchAttribute));
static_assert(offsetof(abi::LaunchAttribute, value) == offsetof(CUlaunchAttribute, value));
static_assert(sizeof(abi::LaunchAttributeValue) == sizeof(CUlaunchAttributeValue));
// The alignment differs between toolkits (64 in 12.4, 128 in 13.0); ours serves both.
static_assert(sizeof(abi::TensorMap) == sizeof(CUtensorMap) &&
              alignof(abi::TensorMap) >= alignof(CUtensorMap));
static_assert(sizeof(abi::GraphExecUpdateInfo) == sizeof(CUgraphExecUpdateResultInfo));
static_assert(offsetof(abi::GraphExecUpdateInfo, error_from_node) ==
              offsetof(CUgraphExecUpdateResultInfo, errorFromNode));
static_assert(sizeof(abi::DevicePtr) == sizeof(CUdeviceptr));

// ---- numbers ---------------------------------------------------------------------------------

#define RT_EQUAL(ours, theirs) \
  static_assert(static_cast<long>(abi::ours) == static_cast<long>(theirs), #theirs)
RT_EQUAL(kSuccess, CUDA_SUCCESS);
RT_EQUAL(kInvalidValue, CUDA_ERROR_INVALID_VALUE);
RT_EQUAL(kOutOfMemory, CUDA_ERROR_OUT_OF_MEMORY);
RT_EQUAL(kNotInitialized, CUDA_ERROR_NOT_INITIALIZED);
RT_EQUAL(kDeinitialized, CUDA_ERROR_DEINITIALIZED);
RT_EQUAL(kStubLibrary, CUDA_ERROR_STUB_LIBRARY);
RT_EQUAL(kDeviceUnavailable, CUDA_ERROR_DEVICE_UNAVAILABLE);
RT_EQUAL(kNoDevice, CUDA_ERROR_NO_DEVICE);
RT_EQUAL(kInvalidDevice, CUDA_ERROR_INVALID_DEVICE);
RT_EQUAL(kInvalidImage, CUDA_ERROR_INVALID_IMAGE);
RT_EQUAL(kInvalidContext, CUDA_ERROR_INVALID_CONTEXT);
RT_EQUAL(kNoBinaryForGpu, CUDA_ERROR_NO_BINARY_FOR_GPU);
RT_EQUAL(kEccUncorrectable, CUDA_ERROR_ECC_UNCORRECTABLE);
RT_EQUAL(kNvlinkUncorrectable, CUDA_ERROR_NVLINK_UNCORRECTABLE);
RT_EQUAL(kUnsupportedPtxVersion, CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
RT_EQUAL(kInvalidHandle, CUDA_ERROR_INVALID_HANDLE);
RT_EQUAL(kNotFound, CUDA_ERROR_NOT_FOUND);
RT_EQUAL(kNotReady, CUDA_ERROR_NOT_READY);
RT_EQUAL(kIllegalAddress, CUDA_ERROR_ILLEGAL_ADDRESS);
RT_EQUAL(kLaunchOutOfResources, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
RT_EQUAL(kLaunchTimeout, CUDA_ERROR_LAUNCH_TIMEOUT);
RT_EQUAL(kContextIsDestroyed, CUDA_ERROR_CONTEXT_IS_DESTROYED);
RT_EQUAL(kAssert, CUDA_ERROR_ASSERT);
RT_EQUAL(kHardwareStackError, CUDA_ERROR_HARDWARE_STACK_ERROR);
RT_EQUAL(kIllegalInstruction, CUDA_ERROR_ILLEGAL_INSTRUCTION);
RT_EQUAL(kMisalignedAddress, CUDA_ERROR_MISALIGNED_ADDRESS);
RT_EQUAL(kInvalidAddressSpace, CUDA_ERROR_INVALID_ADDRESS_SPACE);
RT_EQUAL(kInvalidPc, CUDA_ERROR_INVALID_PC);
RT_EQUAL(kLaunchFailed, CUDA_ERROR_LAUNCH_FAILED);
RT_EQUAL(kCooperativeLaunchTooLarge, CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
RT_EQUAL(kNotPermitted, CUDA_ERROR_NOT_PERMITTED);
RT_EQUAL(kNotSupported, CUDA_ERROR_NOT_SUPPORTED);
RT_EQUAL(kSystemNotReady, CUDA_ERROR_SYSTEM_NOT_READY);
RT_EQUAL(kSystemDriverMismatch, CUDA_ERROR_SYSTEM_DRIVER_MISMATCH);
RT_EQUAL(kCompatNotSupported, CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE);
RT_EQUAL(kCaptureUnsupported, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
RT_EQUAL(kCaptureInvalidated, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
RT_EQUAL(kCaptureUnjoined, CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
RT_EQUAL(kCaptureImplicit, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
RT_EQUAL(kCaptureWrongThread, CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
RT_EQUAL(kGraphExecUpdateFailure, CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
RT_EQUAL(kInvalidClusterSize, CUDA_ERROR_INVALID_CLUSTER_SIZE);
RT_EQUAL(kUnknown, CUDA_ERROR_UNKNOWN);
#if CUDA_VERSION >= 12080
RT_EQUAL(kContained, CUDA_ERROR_CONTAINED);
#endif

RT_EQUAL(kAttrMaxGridX, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X);
RT_EQUAL(kAttrMaxGridY, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y);
RT_EQUAL(kAttrMaxGridZ, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z);
RT_EQUAL(kAttrClockKhz, CU_DEVICE_ATTRIBUTE_CLOCK_RATE);
RT_EQUAL(kAttrNumSms, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
RT_EQUAL(kAttrComputeMode, CU_DEVICE_ATTRIBUTE_COMPUTE_MODE);
RT_EQUAL(kAttrPciBus, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID);
RT_EQUAL(kAttrPciDevice, CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID);
RT_EQUAL(kAttrPciDomain, CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID);
RT_EQUAL(kAttrMemoryClockKhz, CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE);
RT_EQUAL(kAttrMemoryBusBits, CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH);
RT_EQUAL(kAttrL2Bytes, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
RT_EQUAL(kAttrCcMajor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
RT_EQUAL(kAttrCcMinor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
RT_EQUAL(kAttrSmemPerSm, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR);
RT_EQUAL(kAttrSmemPerBlockOptin, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
RT_EQUAL(kAttrClusterLaunch, CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH);
RT_EQUAL(kAttrTensorMapAccess, CU_DEVICE_ATTRIBUTE_TENSOR_MAP_ACCESS_SUPPORTED);
RT_EQUAL(kComputeModeProhibited, CU_COMPUTEMODE_PROHIBITED);

RT_EQUAL(kFuncMaxThreadsPerBlock, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
RT_EQUAL(kFuncStaticSmemBytes, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES);
RT_EQUAL(kFuncMaxDynamicSmemBytes, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
RT_EQUAL(kFuncNonPortableCluster, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED);

RT_EQUAL(kLaunchCooperative, CU_LAUNCH_ATTRIBUTE_COOPERATIVE);
RT_EQUAL(kLaunchClusterDimension, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION);
RT_EQUAL(kLaunchProgrammaticSerialization, CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION);

RT_EQUAL(kMapU8, CU_TENSOR_MAP_DATA_TYPE_UINT8);
RT_EQUAL(kMapU32, CU_TENSOR_MAP_DATA_TYPE_UINT32);
RT_EQUAL(kMapI32, CU_TENSOR_MAP_DATA_TYPE_INT32);
RT_EQUAL(kMapI64, CU_TENSOR_MAP_DATA_TYPE_INT64);
RT_EQUAL(kMapF16, CU_TENSOR_MAP_DATA_TYPE_FLOAT16);
RT_EQUAL(kMapF32, CU_TENSOR_MAP_DATA_TYPE_FLOAT32);
RT_EQUAL(kMapBf16, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16);
RT_EQUAL(kInterleaveNone, CU_TENSOR_MAP_INTERLEAVE_NONE);
RT_EQUAL(kSwizzleNone, CU_TENSOR_MAP_SWIZZLE_NONE);
RT_EQUAL(kSwizzle32, CU_TENSOR_MAP_SWIZZLE_32B);
RT_EQUAL(kSwizzle64, CU_TENSOR_MAP_SWIZZLE_64B);
RT_EQUAL(kSwizzle128, CU_TENSOR_MAP_SWIZZLE_128B);
RT_EQUAL(kL2None, CU_TENSOR_MAP_L2_PROMOTION_NONE);
RT_EQUAL(kL2Bytes64, CU_TENSOR_MAP_L2_PROMOTION_L2_64B);
RT_EQUAL(kL2Bytes128, CU_TENSOR_MAP_L2_PROMOTION_L2_128B);
RT_EQUAL(kL2Bytes256, CU_TENSOR_MAP_L2_PROMOTION_L2_256B);
RT_EQUAL(kFillZero, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
RT_EQUAL(kFillNan, CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA);

RT_EQUAL(kCaptureNone, CU_STREAM_CAPTURE_STATUS_NONE);
RT_EQUAL(kCaptureActive, CU_STREAM_CAPTURE_STATUS_ACTIVE);
RT_EQUAL(kCaptureLost, CU_STREAM_CAPTURE_STATUS_INVALIDATED);
RT_EQUAL(kCaptureGlobal, CU_STREAM_CAPTURE_MODE_GLOBAL);
RT_EQUAL(kCaptureThreadLocal, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
RT_EQUAL(kCaptureRelaxed, CU_STREAM_CAPTURE_MODE_RELAXED);
RT_EQUAL(kStreamNonBlocking, CU_STREAM_NON_BLOCKING);
RT_EQUAL(kEventDisableTiming, CU_EVENT_DISABLE_TIMING);
RT_EQUAL(kProcLegacyStream, CU_GET_PROC_ADDRESS_LEGACY_STREAM);

static_assert(static_cast<int>(nvrtc::kSuccess) == NVRTC_SUCCESS);
static_assert(static_cast<int>(nvrtc::kOutOfMemory) == NVRTC_ERROR_OUT_OF_MEMORY);
static_assert(static_cast<int>(nvrtc::kInvalidOption) == NVRTC_ERROR_INVALID_OPTION);
static_assert(static_cast<int>(nvrtc::kCompilation) == NVRTC_ERROR_COMPILATION);
static_assert(static_cast<int>(nvrtc::kBuiltinOperationFailure) ==
              NVRTC_ERROR_BUILTIN_OPERATION_FAILURE);

#ifdef ROOFTILE_WRONG_ON_PURPOSE  // the test sees that a difference is noticed
RT_EQUAL(kL2Bytes64, CU_TENSOR_MAP_L2_PROMOTION_L2_128B);
#endif

}  // namespace
