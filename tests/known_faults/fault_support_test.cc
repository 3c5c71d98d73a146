// SPDX-License-Identifier: Apache-2.0
#include "tests/known_faults/fault_support.h"

#include <sys/mman.h>
#include <unistd.h>

namespace rooftile::faults {

SparseMemory::SparseMemory(int64_t bytes) : bytes_(static_cast<size_t>(bytes)) {
  void* base = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base != MAP_FAILED) base_ = base;
}

SparseMemory::~SparseMemory() {
  if (base_ != nullptr) munmap(base_, bytes_);
}

PageEnd::PageEnd(DType dtype, int64_t count) : dtype_(dtype) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const auto bytes = static_cast<size_t>(count * size_bytes(dtype));
  const size_t usable = (bytes + page - 1) / page * page;
  mapped_ = usable + page;
  base_ = mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  mprotect(static_cast<char*>(base_) + usable, page, PROT_NONE);
  data_ = static_cast<char*>(base_) + usable - bytes;
}

PageEnd::~PageEnd() { munmap(base_, mapped_); }

TEST(FaultSupport, PageEndFaultsPastItsLastElement) {
  PageEnd end(DType::kF32, 3);
  end.set(2, 5);
  EXPECT_EQ(end[2], 5);
  EXPECT_DEATH(end.set(3, 0), "");
}

}  // namespace rooftile::faults
