// SPDX-License-Identifier: Apache-2.0
// The C ABI of TVM-FFI and DLPack, as far as an exporter and a caller of functions need it, and the
// services that a caller may hand to a generated launcher.
//
// Own declarations of the documented layouts, checked below by static_assert: nothing is included
// from either project and nothing is linked. Stable across TVM-FFI 0.1.x. The generated text
// (codegen/host/prelude.cc) repeats these layouts, because it is compiled without include paths;
// launcher_test.cc holds the two together.
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" {

struct DLDevice {
  int32_t device_type;  // 1 CPU, 2 CUDA, 3 pinned host memory
  int32_t device_id;
};

struct DLDataType {
  uint8_t code;  // int 0, uint 1, float 2, bfloat 4, bool 6, e4m3fn 10, e5m2 12
  uint8_t bits;
  uint16_t lanes;
};

struct DLTensor {
  void* data;
  DLDevice device;
  int32_t ndim;
  DLDataType dtype;
  int64_t* shape;
  int64_t* strides;  // in elements; null: compact, row-major
  uint64_t byte_offset;
};

// One argument or result. A tensor is kDLTensorPtr (v_ptr is a DLTensor*) or kTensor (v_ptr is an
// object whose DLTensor follows its 24-byte header).
struct TVMFFIAny {
  int32_t type_index;
  uint32_t zero_padding;
  union {
    int64_t v_int64;
    double v_float64;
    void* v_ptr;
  };
};

// 0: done; -1: an error was raised. `handle` is null for exported functions.
typedef int (*TVMFFISafeCall)(void* handle, const TVMFFIAny* args, int32_t num_args,
                              TVMFFIAny* result);

// Rooftile's own addition. What went wrong, as text; every pointer lives until the error callback
// returns.
struct RtError {
  const char* code;     // "RT-C003"
  const char* kind;     // the Python class: "ValueError", "TypeError", "RuntimeError"
  const char* subject;  // the operator
  const char* message;
  const char* argument;
  const char* found;
  const char* expected;
  const char* when;
  const char* fix;
  const char* text;  // all of it, formatted
};

// A caller that knows Rooftile passes this as `handle`: errors then arrive as fields, and workspace
// memory is kept between calls. Everybody else passes null; errors then go to TVM-FFI if it is in
// the process, and otherwise to the function `__rooftile_last_error_<name>`.
struct RtHostApi {
  uint64_t magic;  // kRtHostApiMagic: another library's handle is recognised and left alone
  void (*error)(const RtError* error);
  void* (*workspace)(
      int64_t bytes);  // 64-byte aligned, valid until this thread's next call; null: no memory
  void* (*stream)(int32_t device_id);  // CUDA stream of this thread's calls; null: legacy default
};

// One checked call of a GPU kernel, as its launcher hands it to the runtime.
struct RtGpuCall {
  int32_t variant;  // whose needs the call meets
  int32_t device_id;
  void* stream;
  const uint32_t* grids;         // x, y, z of each phase; a zero skips the phase
  void* const* tensors;          // data, in the program's order
  const int64_t* const* shapes;  // their extents
  const int64_t* ints;           // compile/arg_layout.h: dims, integer attributes, strides
  const float* floats;
  const int64_t* workspace_bytes;  // of each workspace tensor
};

// What a GPU launcher is bound to after loading: __rooftile_bind_<name>(&launcher). `launch`
// returns null, or what went wrong, which lives until this thread's next call.
struct RtGpuLauncher {
  void* kernel;
  const RtError* (*launch)(void* kernel, const RtGpuCall* call);
  int32_t (*multiprocessors)(void* kernel, int32_t device_id);  // 0: no such device
};

}  // extern "C"

inline constexpr uint64_t kRtHostApiMagic = 0x32304950'41544f52;  // "ROTAPI02" in memory

namespace rooftile::abi {

enum TypeIndex : int32_t {
  kNone = 0,
  kInt = 1,
  kBool = 2,
  kFloat = 3,
  kDLTensorPtr = 7,
  kTensor = 70,
};
inline constexpr size_t kObjectHeaderBytes = 24;

static_assert(sizeof(DLDevice) == 8 && sizeof(DLDataType) == 4);
static_assert(sizeof(DLTensor) == 48);
static_assert(offsetof(DLTensor, device) == 8 && offsetof(DLTensor, ndim) == 16);
static_assert(offsetof(DLTensor, dtype) == 20 && offsetof(DLTensor, shape) == 24);
static_assert(offsetof(DLTensor, strides) == 32 && offsetof(DLTensor, byte_offset) == 40);
static_assert(sizeof(TVMFFIAny) == 16 && offsetof(TVMFFIAny, v_ptr) == 8);
static_assert(sizeof(RtError) == 80 && sizeof(RtHostApi) == 32);
static_assert(sizeof(RtGpuCall) == 64 && sizeof(RtGpuLauncher) == 24);

}  // namespace rooftile::abi
