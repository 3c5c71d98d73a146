// SPDX-License-Identifier: Apache-2.0
// run(): a launch, from its arguments to its end or its first fault.
#include <fmt/format.h>

#include "rooftile/emulate/machine.h"

namespace rooftile::emulate {
namespace {

Status check_program(const lanes::Program& program) {
  const auto fail = [&](std::string message, std::string found) {
    return Diag{.code = ErrorCode::kEmuSetup,
                .subject = program.name,
                .message = std::move(message),
                .found = std::move(found)};
  };
  if (program.threads < kLanes || program.threads > 1024 || program.threads % kLanes != 0)
    return fail("a CTA is 1 to 32 whole warps", fmt::format("{} threads", program.threads));
  if (program.cluster < 1 || program.cluster > 16)
    return fail("a cluster is 1 to 16 CTAs", std::to_string(program.cluster));
  for (const lanes::SharedAlloc& a : program.shared)
    if (a.offset < 0 || a.offset + a.bytes > program.shared_bytes)
      return fail("shared memory has not been placed (plan_shared)", a.name);
  return {};
}

}  // namespace

Status run(const lanes::Program& program, const Launch& launch, Stats* stats) {
  RT_RETURN_IF_ERROR(lanes::verify(program));
  RT_RETURN_IF_ERROR(check_program(program));
  Result<Launch> resolved = resolve(program, launch);
  if (!resolved.ok()) return resolved.diag();
  Result<Code> code = compile(program, *resolved);
  if (!code.ok()) return code.diag();
  if (code->grid[0] % program.cluster != 0)
    return Diag{
        .code = ErrorCode::kEmuSetup,
        .subject = program.name,
        .message = "the grid is no multiple of the cluster",
        .found = fmt::format("{} CTAs along x, clusters of {}", code->grid[0], program.cluster)};
  Result<GlobalMemory> memory = GlobalMemory::create(code->program, *resolved);
  if (!memory.ok()) return memory.diag();
  Stats own;
  RT_RETURN_IF_ERROR(Machine(*code, *memory, *resolved, stats != nullptr ? *stats : own).run());
  if (stats != nullptr) {
    stats->unwritten = memory->unwritten();
    stats->rewritten = memory->rewritten();
  }
  if (const auto where = memory->not_zero())
    return Diag{.code = ErrorCode::kEmuExit,
                .subject = program.name,
                .message = "a workspace that stays zero holds something when the kernel ends",
                .found = *where};
  return {};
}

}  // namespace rooftile::emulate
