// SPDX-License-Identifier: Apache-2.0
#include "rooftile/verify/shipped.h"

#include <set>

#include "rooftile/check/case_inputs.h"

namespace rooftile::verify {
namespace {

constexpr int kThreads = 16;  // schedules may look at it

TargetInfo processor(const std::string& isa, bool amx, bool narrow_dots) {
  TargetInfo out;
  out.isa = isa;
  out.amx_bf16 = out.amx_int8 = amx;
  out.avx512_bf16 = out.avx512_vnni = narrow_dots;
  out.avx512_fp16 = amx;  // they came together
  out.threads = kThreads;
  return out;
}

}  // namespace

const std::vector<std::string>& proof_targets() {
  static const std::vector<std::string> names = {"sm90", "cpu-amx", "cpu-avx512", "cpu-avx2",
                                                 "cpu-generic"};
  return names;
}

Result<TargetInfo> proof_target(const std::string& name) {
  if (name == "sm90") return sm90_target();
  if (name == "cpu") return host_target();
  if (name == "cpu-amx") return processor("avx512", true, true);
  if (name == "cpu-avx512") return processor("avx512", false, true);
  if (name == "cpu-avx2") return processor("avx2", false, false);
  if (name == "cpu-generic") return processor("generic", false, false);
  Diag diag;
  diag.code = ErrorCode::kUsage;
  diag.subject = "prove";
  diag.message = "there is no such target";
  diag.found = name;
  diag.expected = "cpu";
  for (const std::string& known : proof_targets()) diag.expected += ", " + known;
  return diag;
}

Result<std::vector<ShippedKernel>> shipped_kernels(const OpDef& op, const std::string& target) {
  Result<TargetInfo> info = proof_target(target);
  if (!info.ok()) return info.diag();
  std::vector<ShippedKernel> out;
  std::set<std::string> seen;
  for (const Case& listed : op.case_list) {
    const Case test_case = check::for_target(op, listed, *info);
    Result<RefCall> call = check::resolve_case(op, test_case);
    if (!call.ok()) return call.diag();
    for (const KernelDef& kernel : op.kernels) {
      if (!kernel.takes(call->config, call->dims, *info)) continue;
      ShippedKernel shipped{&op, &kernel, call->config, call->dims, test_case.text, {}, target};
      shipped.schedule = kernel.schedule ? kernel.schedule(call->config, call->dims, *info)
                                         : Schedule{.name = "default"};
      const std::string key = kernel.name + "|" + call->config.str() + "|" + shipped.schedule.str();
      if (seen.insert(key).second) out.push_back(std::move(shipped));
    }
  }
  return out;
}

ProofJob job_for(const ShippedKernel& shipped) {
  ProofJob job;
  job.op = shipped.op->name;
  job.kernel = shipped.kernel->name;
  job.config = shipped.config.str();
  job.schedule = shipped.schedule.str();
  job.target = shipped.target;
  job.waivers = shipped.kernel->waivers;
  job.source = [shipped]() -> Result<KernelSource> {
    Result<TargetInfo> target = proof_target(shipped.target);
    if (!target.ok()) return target.diag();
    return generate(*shipped.op, *shipped.kernel, shipped.config, shipped.dims, *target,
                    &shipped.schedule);
  };
  return job;
}

}  // namespace rooftile::verify
