// SPDX-License-Identifier: Apache-2.0
// Every error code: letter = layer, number = kind, with its one-line meaning.
//   C contract (a caller's argument) · L language/IR · P placing and schedules · T toolchain
//   R runtime/machine · M model config and CLI input · V verifier · E emulator · I internal
#pragma once

#include <string_view>

namespace rooftile {

// clang-format off
#define RT_ERROR_CODES(X)                                                                              \
  X(kInternal,        "RT-I001", "internal error; please report it with the IR that was printed")      \
  X(kArgCount,        "RT-C001", "wrong number of arguments")                                          \
  X(kArgKind,         "RT-C002", "an argument is not of the kind the operator takes")                  \
  X(kRank,            "RT-C003", "a tensor has the wrong number of dimensions")                        \
  X(kDType,           "RT-C004", "a tensor has a dtype the operator does not take")                    \
  X(kExtent,          "RT-C005", "an extent disagrees with another argument or with the contract")     \
  X(kStride,          "RT-C006", "a stride is not one the operator takes")                             \
  X(kAlignment,       "RT-C007", "a data pointer is not aligned as required")                          \
  X(kDevice,          "RT-C008", "a tensor lives on the wrong device")                                 \
  X(kNullPointer,     "RT-C009", "a non-empty tensor has a null data pointer")                         \
  X(kAlias,           "RT-C010", "an output overlaps another argument")                                \
  X(kAttrRange,       "RT-C011", "a scalar argument is outside its range")                             \
  X(kIndexRange,      "RT-C012", "an index tensor holds a value outside its range")                    \
  X(kIndexOrder,      "RT-C013", "an index tensor is not ordered as required")                         \
  X(kNonFinite,       "RT-C014", "a NaN or infinity where the operator refuses one")                   \
  X(kUnsupported,     "RT-C015", "a combination that the operator does not have")                      \
  X(kSizeLimit,       "RT-C016", "a size above the operator's declared limit")                         \
  X(kIrType,          "RT-L001", "a tile operation has operands of the wrong type or shape")           \
  X(kIrStructure,     "RT-L002", "the tile program breaks a structural rule")                          \
  X(kIrParse,         "RT-L003", "tile IR text cannot be parsed")                                      \
  X(kSchedule,        "RT-P001", "a schedule names something that the program does not have")          \
  X(kPlacement,       "RT-P002", "an operation cannot be placed as the schedule asks")                 \
  X(kLanes,           "RT-P003", "lowered code breaks a structural rule")                              \
  X(kNoCompiler,      "RT-T001", "no usable C++ compiler was found")                                   \
  X(kCompileFailed,   "RT-T002", "the system compiler refused generated code")                         \
  X(kCache,           "RT-T003", "the kernel cache cannot be used")                                    \
  X(kNoNvrtc,         "RT-T004", "no usable NVRTC (CUDA's run-time compiler) was found")              \
  X(kCudaCompile,     "RT-T005", "NVRTC refused generated CUDA text")                                  \
  X(kCudaReport,      "RT-T006", "a CUDA kernel compiled, but spills, serialises wgmma or loses setmaxnreg") \
  X(kLoad,            "RT-R001", "a compiled kernel cannot be loaded")                                 \
  X(kMachine,         "RT-R002", "the machine lacks something that was asked for")                     \
  X(kOutOfMemory,     "RT-R003", "workspace memory cannot be allocated")                               \
  X(kNoGpu,           "RT-R004", "no usable GPU")                                                      \
  X(kDriver,          "RT-R005", "the CUDA driver refused a call")                                     \
  X(kDeviceLost,      "RT-R006", "a failure on the GPU that ends its use in this process")             \
  X(kCapture,         "RT-R007", "not possible while the stream is being captured into a graph")       \
  X(kTensorMap,       "RT-R008", "a tensor does not meet what the tensor copy engine asks for")        \
  X(kLaunch,          "RT-R009", "a kernel cannot be launched as asked")                               \
  X(kIo,              "RT-M001", "a file cannot be read or written")                                   \
  X(kModelConfig,     "RT-M002", "a model configuration is unknown, incomplete or contradictory")      \
  X(kUsage,           "RT-M003", "the command line asks for something that does not exist")            \
  X(kCheckFailed,     "RT-V001", "a result is outside its derived tolerance")                          \
  X(kOutOfBounds,     "RT-V002", "a tile program reads or writes outside a tensor")                    \
  X(kUnwritten,       "RT-V003", "a tile program reads, or leaves, memory that nothing has written")   \
  X(kRace,            "RT-V004", "two tiles of one phase touch the same element, and one of them writes it") \
  X(kUnproved,        "RT-V005", "an obligation of a kernel is not proved, and proved kernels are demanded") \
  X(kRefuted,         "RT-V006", "an obligation of a kernel is refuted: there is a call that breaks it")   \
  X(kCertificate,     "RT-V007", "a certificate does not hold for the kernel that it names")           \
  X(kEmuSetup,        "RT-E001", "a launch does not fit the kernel that the emulator is to run")       \
  X(kEmuDeadlock,     "RT-E002", "threads of a kernel wait for what never comes")                      \
  X(kEmuUninit,       "RT-E003", "a kernel uses a register or memory that nothing has written")        \
  X(kEmuRace,         "RT-E004", "two accesses of a kernel conflict, and nothing orders them")         \
  X(kEmuProxy,        "RT-E005", "generic writes meet the asynchronous proxy without a proxy fence")   \
  X(kEmuBounds,       "RT-E006", "an access of a kernel is out of bounds or misaligned")               \
  X(kEmuBarrier,      "RT-E007", "a barrier gets arrivals or bytes that it does not expect")           \
  X(kEmuProduct,      "RT-E008", "registers or fences of a warpgroup product are not as it needs them") \
  X(kEmuConvergence,  "RT-E009", "an instruction is not executed by all threads that it needs")        \
  X(kEmuExit,         "RT-E010", "threads end while something is still due to them")                   \
  X(kEmuUnsupported,  "RT-E011", "an instruction with operands that the hardware does not have")
// clang-format on

enum class ErrorCode {
#define RT_ENUM(name, text, meaning) name,
  RT_ERROR_CODES(RT_ENUM)
#undef RT_ENUM
};

std::string_view code_text(ErrorCode code);     // "RT-C003"
std::string_view code_meaning(ErrorCode code);  // one line

}  // namespace rooftile
