// SPDX-License-Identifier: Apache-2.0
// The functions that librooftile.so exports, in the C ABI of TVM-FFI (runtime/ffi_abi.h):
//
//   __tvm_ffi_<operator>   one an operator, generated from the folders of the operators; its
//                          arguments are those of arguments.h, its results the caller's tensors
//   __tvm_ffi_operators    how each is called: op_signature.h's JSON, in a list
//   __tvm_ffi_version      "0.1.0 (commit)"
//   __tvm_ffi_last_error   what this thread's last failed call said; for processes without TVM-FFI
//
// Nothing else is visible outside. A call runs on the stream that the caller's environment names; a
// call that is refused has written nothing and leaves the library as it was.
#pragma once

#include "rooftile/compile/dispatch.h"
#include "rooftile/runtime/ffi_abi.h"

namespace rooftile::bind {

// 0, or -1 with the error raised (host.h).
int call_operator(const OpDef& op, void* handle, const TVMFFIAny* args, int32_t num_args);

}  // namespace rooftile::bind

// The names are TVM-FFI's. NOLINTNEXTLINE(bugprone-reserved-identifier)
#define RT_EXPORT_OPERATOR(name)                                                         \
  extern "C" int __tvm_ffi_##name(void* handle, const TVMFFIAny* args, int32_t num_args, \
                                  TVMFFIAny*) {                                          \
    static const rooftile::OpDef& op = rooftile::built_in(#name);                        \
    return rooftile::bind::call_operator(op, handle, args, num_args);                    \
  }
