// SPDX-License-Identifier: Apache-2.0
// The identity of a shared library on disk, without loading it: some libraries take hundreds of
// milliseconds to load, and a cache hit must not pay that.
#pragma once

#include <optional>
#include <string>

namespace rooftile {

// "build-id 65be0d..." from the ELF note, the same wherever the file lies. A library without one:
// "size N sha256 ..." over its first and last 64 KB. nullopt if `path` is no 64-bit ELF file.
std::optional<std::string> library_identity(const std::string& path);

}  // namespace rooftile
