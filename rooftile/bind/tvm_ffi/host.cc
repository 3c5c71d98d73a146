// SPDX-License-Identifier: Apache-2.0
#include "rooftile/bind/tvm_ffi/host.h"

#include <dlfcn.h>
#include <link.h>

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

// How many objects the process has loaded so far.
unsigned long long num_loaded() {
  unsigned long long adds = 0;
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* out) {
        *static_cast<unsigned long long*>(out) = info->dlpi_adds;
        return 1;  // the first one says it
      },
      &adds);
  return adds;
}

// One function of TVM-FFI. Where there is none it is looked for again when something has been
// loaded since: a search costs tens of microseconds, and some processes never have it.
template <class Function>
class Lookup {
 public:
  explicit Lookup(const char* symbol) : symbol_(symbol) {}
  Function get() {
    Function function = found_.load(std::memory_order_relaxed);
    if (function != nullptr) return function;
    const unsigned long long loaded = num_loaded();
    if (searched_at_.load(std::memory_order_relaxed) == loaded) return nullptr;
    function = reinterpret_cast<Function>(find(symbol_));
    if (function != nullptr)
      found_.store(function, std::memory_order_relaxed);
    else
      searched_at_.store(loaded, std::memory_order_relaxed);
    return function;
  }

 private:
  const char* symbol_;
  std::atomic<Function> found_ = nullptr;
  std::atomic<unsigned long long> searched_at_ = 0;
};

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
  static Lookup<GetStream> lookup("TVMFFIEnvGetStream");
  const GetStream get = lookup.get();
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
  static Lookup<SetRaised> lookup("TVMFFIErrorSetRaisedFromCStr");
  if (const SetRaised set = lookup.get()) set(kind.c_str(), last_text.c_str());
  return -1;
}

const char* last_error() { return last_text.c_str(); }

int return_text(const char* text, TVMFFIAny* result) {
  struct Bytes {
    const char* data;
    size_t size;
  };
  using MakeString = int (*)(const Bytes* bytes, TVMFFIAny* out);
  static Lookup<MakeString> lookup("TVMFFIStringFromByteArray");
  if (const MakeString make = lookup.get()) {
    const Bytes bytes = {text, std::strlen(text)};
    return make(&bytes, result);
  }
  result->type_index = kOpaquePtr;
  result->zero_padding = 0;
  result->v_ptr = const_cast<char*>(text);
  return 0;
}

}  // namespace rooftile::bind
