// SPDX-License-Identifier: Apache-2.0
// The part of the CUDA driver interface that Rooftile calls: own declarations of the documented
// names, numbers and layouts, looked up at run time, so that building needs no CUDA toolkit and one
// build runs with and without a GPU.
//
// Layouts are held by static_assert below; an optional test compares all of this with the real
// cuda.h (tests/cuda_headers). Entry points are asked for by unversioned name at the interface
// version beside them, which fixes their signature whatever the driver's own version.
#pragma once

#include <cstddef>
#include <cstdint>

namespace rooftile::cuda::abi {

using DeviceHandle = int;
using DevicePtr = uint64_t;
using Context = struct ContextImpl*;
using Function = struct FunctionImpl*;  // of one context
using Kernel = struct KernelImpl*;      // of a library, in any context
using Library = struct LibraryImpl*;
using Stream = struct StreamImpl*;
using Event = struct EventImpl*;
using Graph = struct GraphImpl*;
using GraphExec = struct GraphExecImpl*;
using GraphNode = struct GraphNodeImpl*;

// Those that Rooftile tells apart; cuGetErrorName knows the others.
enum Result : int {
  kSuccess = 0,
  kInvalidValue = 1,
  kOutOfMemory = 2,
  kNotInitialized = 3,
  kDeinitialized = 4,
  kStubLibrary = 34,
  kDeviceUnavailable = 46,
  kNoDevice = 100,
  kInvalidDevice = 101,
  kInvalidImage = 200,
  kInvalidContext = 201,
  kNoBinaryForGpu = 209,
  kEccUncorrectable = 214,
  kNvlinkUncorrectable = 220,
  kUnsupportedPtxVersion = 222,
  kContained = 226,
  kInvalidHandle = 400,
  kNotFound = 500,
  kNotReady = 600,
  kIllegalAddress = 700,
  kLaunchOutOfResources = 701,
  kLaunchTimeout = 702,
  kContextIsDestroyed = 709,
  kAssert = 710,
  kHardwareStackError = 714,
  kIllegalInstruction = 715,
  kMisalignedAddress = 716,
  kInvalidAddressSpace = 717,
  kInvalidPc = 718,
  kLaunchFailed = 719,
  kCooperativeLaunchTooLarge = 720,
  kNotPermitted = 800,
  kNotSupported = 801,
  kSystemNotReady = 802,
  kSystemDriverMismatch = 803,
  kCompatNotSupported = 804,
  kCaptureUnsupported = 900,
  kCaptureInvalidated = 901,
  kCaptureUnjoined = 904,
  kCaptureImplicit = 906,
  kCaptureWrongThread = 908,
  kGraphExecUpdateFailure = 910,
  kInvalidClusterSize = 912,
  kUnknown = 999,
};

enum DeviceAttribute : int {
  kAttrMaxGridX = 5,
  kAttrMaxGridY = 6,
  kAttrMaxGridZ = 7,
  kAttrClockKhz = 13,
  kAttrNumSms = 16,
  kAttrComputeMode = 20,
  kAttrPciBus = 33,
  kAttrPciDevice = 34,
  kAttrMemoryClockKhz = 36,
  kAttrMemoryBusBits = 37,
  kAttrL2Bytes = 38,
  kAttrPciDomain = 50,
  kAttrCcMajor = 75,
  kAttrCcMinor = 76,
  kAttrSmemPerSm = 81,
  kAttrSmemPerBlockOptin = 97,
  kAttrClusterLaunch = 120,
  kAttrTensorMapAccess = 127,
};

enum FunctionAttribute : int {
  kFuncMaxThreadsPerBlock = 0,
  kFuncStaticSmemBytes = 1,
  kFuncMaxDynamicSmemBytes = 8,
  kFuncNonPortableCluster = 14,
};

enum LaunchAttributeId : int {
  kLaunchCooperative = 2,
  kLaunchClusterDimension = 4,
  kLaunchProgrammaticSerialization = 6,
};

union LaunchAttributeValue {
  char pad[64];
  struct {
    unsigned x, y, z;
  } cluster;
  int flag;  // cooperative, programmatic serialization
};

struct LaunchAttribute {
  LaunchAttributeId id;
  char pad[4];
  LaunchAttributeValue value;
};

struct LaunchConfig {
  unsigned grid_x, grid_y, grid_z;
  unsigned block_x, block_y, block_z;
  unsigned dynamic_smem_bytes;
  Stream stream;
  LaunchAttribute* attributes;
  unsigned num_attributes;
};

// The driver asks for 64-byte alignment; cuda.h 13 declares 128.
struct alignas(128) TensorMap {
  uint64_t opaque[16];
};

enum TensorMapType : int {
  kMapU8 = 0,
  kMapU32 = 2,
  kMapI32 = 3,
  kMapI64 = 5,
  kMapF16 = 6,
  kMapF32 = 7,
  kMapBf16 = 9,
};
enum TensorMapInterleave : int { kInterleaveNone = 0 };
enum TensorMapSwizzle : int { kSwizzleNone = 0, kSwizzle32 = 1, kSwizzle64 = 2, kSwizzle128 = 3 };
enum TensorMapL2 : int { kL2None = 0, kL2Bytes64 = 1, kL2Bytes128 = 2, kL2Bytes256 = 3 };
enum TensorMapFill : int { kFillZero = 0, kFillNan = 1 };

enum CaptureStatus : int { kCaptureNone = 0, kCaptureActive = 1, kCaptureLost = 2 };
enum CaptureMode : int { kCaptureGlobal = 0, kCaptureThreadLocal = 1, kCaptureRelaxed = 2 };

struct GraphExecUpdateInfo {
  int result;
  GraphNode error_node, error_from_node;
};

enum : unsigned { kStreamNonBlocking = 1, kEventDisableTiming = 2 };
enum : int { kComputeModeProhibited = 2 };
enum : uint64_t { kProcLegacyStream = 1 };  // null is the legacy default stream, as torch has it

static_assert(sizeof(LaunchConfig) == 56 && offsetof(LaunchConfig, stream) == 32);
static_assert(offsetof(LaunchConfig, attributes) == 40 &&
              offsetof(LaunchConfig, num_attributes) == 48);
static_assert(sizeof(LaunchAttribute) == 72 && offsetof(LaunchAttribute, value) == 8);
static_assert(sizeof(LaunchAttributeValue) == 64);
static_assert(sizeof(TensorMap) == 128 && alignof(TensorMap) == 128);
static_assert(sizeof(GraphExecUpdateInfo) == 24);

// cuGetProcAddress_v2, the one name that is looked up in the library itself.
using GetProcAddress = Result (*)(const char* symbol, void** function, int version, uint64_t flags,
                                  int* status);

// Version 12.0 has all that is needed; asking for more would shut out drivers that can do the work.
inline constexpr int kInterfaceVersion = 12000;

// X(field, interface version, parameters): the symbol is "cu" and the field. Those of a later
// version may be missing in a driver, and are null then.
#define RT_CUDA_ENTRY_POINTS(X)                                                                  \
  X(Init, 12000, (unsigned flags))                                                               \
  X(DriverGetVersion, 12000, (int* version))                                                     \
  X(GetErrorName, 12000, (Result error, const char** text))                                      \
  X(GetErrorString, 12000, (Result error, const char** text))                                    \
  X(DeviceGetCount, 12000, (int* count))                                                         \
  X(DeviceGet, 12000, (DeviceHandle * device, int ordinal))                                      \
  X(DeviceGetName, 12000, (char* name, int bytes, DeviceHandle device))                          \
  X(DeviceTotalMem, 12000, (size_t * bytes, DeviceHandle device))                                \
  X(DeviceGetAttribute, 12000, (int* value, DeviceAttribute attribute, DeviceHandle device))     \
  X(DevicePrimaryCtxRetain, 12000, (Context * context, DeviceHandle device))                     \
  X(CtxGetCurrent, 12000, (Context * context))                                                   \
  X(CtxSetCurrent, 12000, (Context context))                                                     \
  X(CtxSynchronize, 12000, ())                                                                   \
  X(MemGetInfo, 12000, (size_t * free_bytes, size_t * total_bytes))                              \
  X(MemAlloc, 12000, (DevicePtr * address, size_t bytes))                                        \
  X(MemFree, 12000, (DevicePtr address))                                                         \
  X(MemHostAlloc, 12000, (void** address, size_t bytes, unsigned flags))                         \
  X(MemFreeHost, 12000, (void* address))                                                         \
  X(MemcpyHtoDAsync, 12000, (DevicePtr to, const void* from, size_t bytes, Stream stream))       \
  X(MemcpyDtoHAsync, 12000, (void* to, DevicePtr from, size_t bytes, Stream stream))             \
  X(MemcpyDtoDAsync, 12000, (DevicePtr to, DevicePtr from, size_t bytes, Stream stream))         \
  X(MemsetD8Async, 12000, (DevicePtr to, unsigned char value, size_t bytes, Stream stream))      \
  X(StreamCreateWithPriority, 12000, (Stream * stream, unsigned flags, int priority))            \
  X(StreamDestroy, 12000, (Stream stream))                                                       \
  X(StreamSynchronize, 12000, (Stream stream))                                                   \
  X(StreamQuery, 12000, (Stream stream))                                                         \
  X(StreamWaitEvent, 12000, (Stream stream, Event event, unsigned flags))                        \
  X(StreamBeginCapture, 12000, (Stream stream, CaptureMode mode))                                \
  X(StreamEndCapture, 12000, (Stream stream, Graph * graph))                                     \
  X(StreamIsCapturing, 12000, (Stream stream, CaptureStatus * status))                           \
  X(ThreadExchangeStreamCaptureMode, 12000, (CaptureMode * mode))                                \
  X(EventCreate, 12000, (Event * event, unsigned flags))                                         \
  X(EventDestroy, 12000, (Event event))                                                          \
  X(EventRecord, 12000, (Event event, Stream stream))                                            \
  X(EventSynchronize, 12000, (Event event))                                                      \
  X(EventQuery, 12000, (Event event))                                                            \
  X(EventElapsedTime, 12000, (float* milliseconds, Event start, Event end))                      \
  X(LibraryLoadData, 12000,                                                                      \
    (Library * library, const void* code, int* jit_options, void** jit_values, unsigned num_jit, \
     int* options, void** values, unsigned num_options))                                         \
  X(LibraryUnload, 12000, (Library library))                                                     \
  X(LibraryGetKernel, 12000, (Kernel * kernel, Library library, const char* name))               \
  X(KernelGetFunction, 12000, (Function * function, Kernel kernel))                              \
  X(KernelGetAttribute, 12000,                                                                   \
    (int* value, FunctionAttribute attribute, Kernel kernel, DeviceHandle device))               \
  X(KernelSetAttribute, 12000,                                                                   \
    (FunctionAttribute attribute, int value, Kernel kernel, DeviceHandle device))                \
  X(LaunchKernelEx, 12000,                                                                       \
    (const LaunchConfig* config, Function function, void** parameters, void** extra))            \
  X(OccupancyMaxActiveClusters, 12000,                                                           \
    (int* clusters, Function function, const LaunchConfig* config))                              \
  X(OccupancyMaxActiveBlocksPerMultiprocessor, 12000,                                            \
    (int* blocks, Function function, int block_size, size_t dynamic_smem_bytes))                 \
  X(TensorMapEncodeTiled, 12000,                                                                 \
    (TensorMap * map, TensorMapType type, uint32_t rank, void* address, const uint64_t* sizes,   \
     const uint64_t* strides_bytes, const uint32_t* box, const uint32_t* element_strides,        \
     TensorMapInterleave interleave, TensorMapSwizzle swizzle, TensorMapL2 l2,                   \
     TensorMapFill fill))                                                                        \
  X(GraphInstantiateWithFlags, 12000, (GraphExec * exec, Graph graph, unsigned long long flags)) \
  X(GraphExecUpdate, 12000, (GraphExec exec, Graph graph, GraphExecUpdateInfo * info))           \
  X(GraphLaunch, 12000, (GraphExec exec, Stream stream))                                         \
  X(GraphGetNodes, 12000, (Graph graph, GraphNode * nodes, size_t * count))                      \
  X(GraphDestroy, 12000, (Graph graph))                                                          \
  X(GraphExecDestroy, 12000, (GraphExec exec))                                                   \
  X(StreamGetCaptureInfo, 12030,                                                                 \
    (Stream stream, CaptureStatus * status, uint64_t * id, Graph * graph,                        \
     const GraphNode** dependencies, const void** edges, size_t* num_dependencies))              \
  X(FuncLoad, 12040, (Function function))

struct Api {
// NOLINTNEXTLINE(bugprone-macro-parentheses): a declarator and its parameter list
#define RT_FIELD(field, version, parameters) Result(*field) parameters = nullptr;
  RT_CUDA_ENTRY_POINTS(RT_FIELD)
#undef RT_FIELD
};

}  // namespace rooftile::cuda::abi
