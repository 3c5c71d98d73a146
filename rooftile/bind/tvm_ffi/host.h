// SPDX-License-Identifier: Apache-2.0
// What the process that loaded us offers: TVM-FFI's error, stream and string functions if it is
// there, or the services of a caller that knows Rooftile (RtHostApi), who comes first.
//
// TVM-FFI may be loaded after us, so its functions are looked up until they are found; nothing is
// linked, and without it everything works but the stream, which is then the legacy default one.
#pragma once

#include <string_view>

#include "rooftile/base/diag.h"
#include "rooftile/runtime/ffi_abi.h"

namespace rooftile::bind {

// The stream on which the caller wants this thread's work on a CUDA device to run.
void* caller_stream(void* handle, int device_id);

// Hands the error to whoever called: always -1, the value that an exported function returns then.
int raise(void* handle, const Diag& diag);

// The text of this thread's last raise(), for callers that have no TVM-FFI; "" before any.
const char* last_error();

// `text` as the result of an exported function: a string object of TVM-FFI's, and where there is no
// TVM-FFI a pointer to it, terminated (so it must be, and live as long as the process).
int return_text(const char* text, TVMFFIAny* result);

}  // namespace rooftile::bind
