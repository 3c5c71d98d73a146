// SPDX-License-Identifier: Apache-2.0
#include "rooftile/bind/tvm_ffi/host.h"

#include <dlfcn.h>

#include <atomic>
#include <cstring>
#include <string>

#include "rooftile/codegen/host/emit_errors.h"

namespace rooftile::bind {
namespace {

void* find(const char* symbol) {
  if (void* found = dlsym(RTLD_DEFAULT, symbol)) return found;
  // Loaded, but not into the global scope.
  if (void* library = dlopen("libtvm_ffi.so", RTLD_NOLOAD | RTLD_LAZY))
    return dlsym(library, symbol);
  return nullptr;
}

// One function of TVM-FFI; only a success is remembered.
template <class Function>
Function find_once(std::atomic<Function>& slot, const char* symbol) {
  Function function = slot.load(std::memory_order_relaxed);
  if (function != nullptr) return function;
  function = reinterpret_cast<Function>(find(symbol));
  if (function != nullptr) slot.store(function, std::memory_order_relaxed);
  return function;
}

const RtHostApi* host_api(void* handle) {
  const auto* api = static_cast<const RtHostApi*>(handle);
  return api != nullptr && api->magic == kRtHostApiMagic ? api : nullptr;
}

thread_local std::string last_text;

constexpr int32_t kOpaquePtr = 4;  // TVM-FFI's type index of a pointer that it does not follow

}  // namespace

void* caller_stream(void* handle, int device_id) {
  if (const RtHostApi* api = host_api(handle)) return api->stream(device_id);
  using GetStream = void* (*)(int32_t device_type, int32_t device_id);
  static std::atomic<GetStream> slot;
  const GetStream get = find_once(slot, "TVMFFIEnvGetStream");
  return get == nullptr ? nullptr : get(2, device_id);  // 2: DLPack's CUDA
}

int raise(void* handle, const Diag& diag) {
  last_text = diag.str();
  const std::string code(code_text(diag.code)), kind(host::ffi_kind(diag.code));
  if (const RtHostApi* api = host_api(handle)) {
    const RtError error = {code.c_str(),          kind.c_str(),          diag.subject.c_str(),
                           diag.message.c_str(),  diag.argument.c_str(), diag.found.c_str(),
                           diag.expected.c_str(), diag.when.c_str(),     diag.fix.c_str(),
                           last_text.c_str()};
    api->error(&error);
    return -1;
  }
  using SetRaised = void (*)(const char* kind, const char* message);
  static std::atomic<SetRaised> slot;
  if (const SetRaised set = find_once(slot, "TVMFFIErrorSetRaisedFromCStr"))
    set(kind.c_str(), last_text.c_str());
  return -1;
}

const char* last_error() { return last_text.c_str(); }

int return_text(const char* text, TVMFFIAny* result) {
  struct Bytes {
    const char* data;
    size_t size;
  };
  using MakeString = int (*)(const Bytes* bytes, TVMFFIAny* out);
  static std::atomic<MakeString> slot;
  if (const MakeString make = find_once(slot, "TVMFFIStringFromByteArray")) {
    const Bytes bytes = {text, std::strlen(text)};
    return make(&bytes, result);
  }
  result->type_index = kOpaquePtr;
  result->zero_padding = 0;
  result->v_ptr = const_cast<char*>(text);
  return 0;
}

}  // namespace rooftile::bind
