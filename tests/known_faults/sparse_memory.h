// SPDX-License-Identifier: Apache-2.0
// Address space without memory behind it: pages exist once they are touched. For offsets beyond
// 2^31 and 2^32 on machines with little memory.
#pragma once

#include <sys/mman.h>

#include <cstddef>

namespace rooftile::known_faults {

class SparseMemory {
 public:
  explicit SparseMemory(size_t bytes) : bytes_(bytes) {
    void* base = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    base_ = base == MAP_FAILED ? nullptr : base;
  }
  SparseMemory(const SparseMemory&) = delete;
  SparseMemory& operator=(const SparseMemory&) = delete;
  ~SparseMemory() {
    if (base_ != nullptr) munmap(base_, bytes_);
  }
  bool ok() const { return base_ != nullptr; }
  std::byte* data() const { return static_cast<std::byte*>(base_); }

 private:
  size_t bytes_;
  void* base_ = nullptr;
};

}  // namespace rooftile::known_faults
