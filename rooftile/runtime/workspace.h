// SPDX-License-Identifier: Apache-2.0
// Scratch memory of kernels: one block a thread, kept and grown, so that a call in steady state
// allocates nothing. A thread runs one kernel at a time, so one block is enough. Freed when the
// thread ends.
#pragma once

#include <cstdint>

namespace rooftile {

// At least `bytes`, aligned to 64 bytes (2 MiB and huge pages advised from 4 MiB on), valid until
// this thread's next call. Contents are unspecified. Null: no memory.
void* thread_workspace(int64_t bytes);

// Gives the calling thread's block back to the system; for tests and long-lived idle threads.
void release_thread_workspace();

}  // namespace rooftile
