// SPDX-License-Identifier: Apache-2.0
#include "rooftile/check/compile_all.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <thread>

namespace rooftile::check {

void compile_all(std::vector<KernelSource> sources) {
  std::map<std::string, KernelSource*> distinct;  // by text: many cases share a kernel
  for (KernelSource& source : sources)
    distinct.emplace(source.kernel_text + source.launcher_text, &source);
  std::vector<KernelSource*> queue;
  for (auto& [text, source] : distinct) queue.push_back(source);
  std::atomic<size_t> next{0};
  std::vector<std::jthread> workers;
  for (unsigned i = 0; i < std::max(1u, std::thread::hardware_concurrency()); ++i)
    workers.emplace_back([&] {
      for (size_t at = next++; at < queue.size(); at = next++)
        (void)compile(std::move(*queue[at])).ok();
    });
}

}  // namespace rooftile::check
