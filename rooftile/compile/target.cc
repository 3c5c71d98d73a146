// SPDX-License-Identifier: Apache-2.0
#include "rooftile/compile/target.h"

#include <utility>

namespace rooftile {

std::string TargetInfo::key() const {
  std::string out = name + "/" + isa;
  const std::pair<bool, const char*> features[] = {{amx_bf16, "+amx_bf16"},
                                                   {amx_int8, "+amx_int8"},
                                                   {avx512_bf16, "+avx512_bf16"},
                                                   {avx512_vnni, "+avx512_vnni"},
                                                   {avx512_fp16, "+avx512_fp16"}};
  for (const auto& [present, text] : features)
    if (present) out += text;
  return out + "/threads=" + std::to_string(threads) + "/l1=" + std::to_string(l1_bytes) +
         "/l2=" + std::to_string(l2_bytes) + "/l3=" + std::to_string(l3_bytes);
}

const TargetInfo& sm90_target() {
  static const TargetInfo target = [] {
    TargetInfo t;
    t.name = "sm90";
    t.isa = "sm_90a";
    t.gpu = true;
    t.multiprocessors = 132;
    t.threads = 1;
    t.l1_bytes = 256 << 10;  // of a multiprocessor, shared memory included
    t.l2_bytes = 50 << 20;
    t.l3_bytes = 0;
    return t;
  }();
  return target;
}

}  // namespace rooftile
