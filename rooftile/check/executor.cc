// SPDX-License-Identifier: Apache-2.0
#include "rooftile/check/executor.h"

#include "rooftile/check/targets.h"

namespace rooftile::check {
namespace {

class HostExecutor : public Executor {
 public:
  Result<Implementation> prepare(KernelSource source) override {
    auto kernel = compile(std::move(source));
    if (!kernel) return kernel.status();
    return Implementation([kernel = *kernel](Arguments& arguments) -> Status {
      auto call = BoundCall::bind(*kernel, arguments);
      return call ? call->call() : call.status();
    });
  }
};

}  // namespace

std::unique_ptr<Executor> host_executor() { return std::make_unique<HostExecutor>(); }

Result<std::unique_ptr<Executor>> executor_for(const std::string& target, uint64_t seed) {
  auto info = target_named(target);
  if (!info) return info.status();
  if (is_emulated(target)) return emulator_executor(seed);
  return info->gpu ? device_executor() : host_executor();
}

}  // namespace rooftile::check
