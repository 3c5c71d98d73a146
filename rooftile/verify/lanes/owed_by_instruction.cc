// SPDX-License-Identifier: Apache-2.0
#include "rooftile/verify/lanes/owed_by_instruction.h"

namespace rooftile::verify {

using lanes::Ins;

std::vector<Kind> owed_by_instruction(const lanes::Instr& i) {
  const lanes::InsInfo& info = lanes::ins_info(i.ins);
  std::vector<Kind> out;
  const bool copies =
      i.ins == Ins::kTmaLoad || i.ins == Ins::kTmaLoadMulticast || i.ins == Ins::kTmaStore;
  if (i.ins != Ins::kPrefetchL2 && (copies || !i.global.tensor.empty())) {
    out.push_back(Kind::kGlobalBounds);
    out.push_back(Kind::kLaneAlignment);
  }
  if (((info.reads | info.writes) & (lanes::kShared | lanes::kPeer | lanes::kBarrier)) != 0) {
    out.push_back(Kind::kSharedBounds);
    out.push_back(Kind::kLaneAlignment);
  }
  if (copies) out.push_back(Kind::kTensorMap);
  if ((info.writes & lanes::kGlobal) != 0) out.push_back(Kind::kWriteOnce);
  if (i.ins == Ins::kWgmma) out.push_back(Kind::kFragments);
  return out;
}

}  // namespace rooftile::verify
