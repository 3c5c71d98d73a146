// SPDX-License-Identifier: Apache-2.0
#include "rooftile/bind/tvm_ffi/export.h"

#include <exception>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "rooftile/base/version.h"
#include "rooftile/bind/tvm_ffi/arguments.h"
#include "rooftile/bind/tvm_ffi/host.h"
#include "rooftile/compile/op_signature.h"

namespace rooftile::bind {
namespace {

Status run(const OpDef& op, void* handle, std::span<const TVMFFIAny> args) {
  Result<ForeignArgs> read = read_arguments(op, args);
  if (!read.ok()) return read.diag();
  std::optional<StreamScope> on_stream;
  if (read->cuda_device >= 0) on_stream.emplace(caller_stream(handle, read->cuda_device));
  return call(op, read->args());
}

// Nothing may be thrown into a caller in another language: what is left is memory running out.
Diag thrown(const char* subject, const std::exception& error) {
  Diag diag;
  diag.subject = subject;
  diag.message = "an exception inside the library";
  diag.found = error.what();
  return diag;
}

std::string signatures() {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const OpDef& op : all_ops()) list.push_back(op_signature(op));
  return list.dump();
}

}  // namespace

int call_operator(const OpDef& op, void* handle, const TVMFFIAny* args, int32_t num_args) {
  try {
    const Status status = run(op, handle, {args, static_cast<size_t>(num_args)});
    return status.ok() ? 0 : raise(handle, status.diag());
  } catch (const std::exception& error) {
    return raise(handle, thrown(op.name.c_str(), error));
  }
}

}  // namespace rooftile::bind

// ---- what is exported beside the operators
// -------------------------------------------------------
// NOLINTBEGIN(bugprone-reserved-identifier): TVM-FFI's names

extern "C" int __tvm_ffi_operators(void* handle, const TVMFFIAny*, int32_t, TVMFFIAny* result) {
  try {
    static const std::string text = rooftile::bind::signatures();
    return rooftile::bind::return_text(text.c_str(), result);
  } catch (const std::exception& error) {
    return rooftile::bind::raise(handle, rooftile::bind::thrown("operators", error));
  }
}

extern "C" int __tvm_ffi_version(void*, const TVMFFIAny*, int32_t, TVMFFIAny* result) {
  static const std::string text = std::string(rooftile::kVersion) + " (" + rooftile::kCommit + ")";
  return rooftile::bind::return_text(text.c_str(), result);
}

extern "C" int __tvm_ffi_last_error(void*, const TVMFFIAny*, int32_t, TVMFFIAny* result) {
  return rooftile::bind::return_text(rooftile::bind::last_error(), result);
}

// NOLINTEND(bugprone-reserved-identifier)
