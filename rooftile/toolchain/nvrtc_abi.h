// SPDX-License-Identifier: Apache-2.0
// The entry points of NVRTC that Rooftile calls: own declarations of documented signatures, looked
// up by name at run time, so that building needs no CUDA toolkit. An optional test compares them
// with the real nvrtc.h.
#pragma once

#include <cstddef>

namespace rooftile::nvrtc_abi {

enum Result : int {
  kSuccess = 0,
  kOutOfMemory = 1,
  kInvalidOption = 5,
  kCompilation = 6,
  kBuiltinOperationFailure = 7,  // libnvrtc-builtins is missing or of another version
};

using Program = struct ProgramImpl*;

// X(field, "symbol", parameters)
#define RT_NVRTC_ENTRY_POINTS(X)                                               \
  X(version, "nvrtcVersion", (int* major, int* minor))                         \
  X(create_program, "nvrtcCreateProgram",                                      \
    (Program * program, const char* source, const char* name, int num_headers, \
     const char* const* headers, const char* const* include_names))            \
  X(destroy_program, "nvrtcDestroyProgram", (Program * program))               \
  X(compile_program, "nvrtcCompileProgram",                                    \
    (Program program, int num_options, const char* const* options))            \
  X(get_log_size, "nvrtcGetProgramLogSize", (Program program, size_t * bytes)) \
  X(get_log, "nvrtcGetProgramLog", (Program program, char* log))               \
  X(get_ptx_size, "nvrtcGetPTXSize", (Program program, size_t * bytes))        \
  X(get_ptx, "nvrtcGetPTX", (Program program, char* ptx))                      \
  X(get_cubin_size, "nvrtcGetCUBINSize", (Program program, size_t * bytes))    \
  X(get_cubin, "nvrtcGetCUBIN", (Program program, char* cubin))

struct Api {
#define RT_FIELD(field, symbol, parameters) Result(*field) parameters = nullptr;
  RT_NVRTC_ENTRY_POINTS(RT_FIELD)
#undef RT_FIELD
  const char* (*get_error_string)(Result) = nullptr;  // "nvrtcGetErrorString"
};

}  // namespace rooftile::nvrtc_abi
