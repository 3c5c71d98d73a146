// SPDX-License-Identifier: Apache-2.0
#include "rooftile/check/targets.h"

namespace rooftile::check {
namespace {

constexpr std::string_view kEmulated = "-emulated";

Diag no_such_target(std::string_view name) {
  Diag diag;
  diag.code = ErrorCode::kUsage;
  diag.subject = "check";
  diag.message = "there is no such target";
  diag.found = std::string(name);
  for (const std::string& known : target_names())
    diag.expected += (diag.expected.empty() ? "" : ", ") + known;
  return diag;
}

}  // namespace

std::vector<std::string> target_names() {
  return {"cpu", "cpu-avx2", "cpu-generic", "cpu-noamx", "sm90", "sm90-emulated"};
}

bool is_emulated(std::string_view name) { return name.ends_with(kEmulated); }

Result<TargetInfo> target_named(std::string_view name) {
  if (name == "sm90" || name == "sm90-emulated") return sm90_target();
  TargetInfo target = host_target();
  if (name == "cpu") return target;
  target.amx_bf16 = target.amx_int8 = false;
  if (name == "cpu-noamx") return target;
  if (name != "cpu-avx2" && name != "cpu-generic") return no_such_target(name);
  if (name == "cpu-avx2" && target.isa == "generic") {
    Diag diag = no_such_target(name);
    diag.code = ErrorCode::kMachine;
    diag.message = "this machine cannot run the target";
    diag.expected = "an AVX2 processor";
    return diag;
  }
  target.avx512_bf16 = target.avx512_vnni = target.avx512_fp16 = false;
  target.isa = std::string(name.substr(4));
  return target;
}

}  // namespace rooftile::check
