// SPDX-License-Identifier: Apache-2.0
// Exchange between the lanes of a warp, and registers of warps.
#include <fmt/format.h>

#include <bit>

#include "rooftile/emulate/machine.h"
#include "rooftile/emulate/pure.h"

namespace rooftile::emulate {

using lanes::Ins;

// All lanes take part (check_convergence), so masks are whole here.
bool Machine::exec_lanes(const At& at) {
  Warp& warp = at.warp;
  const auto result = [&]() -> uint32_t& { return valid_out(warp, at.code.results[0]); };
  switch (at.instr.ins) {
    case Ins::kElect:
      for (int lane = 0; lane < kLanes; ++lane)
        set_result(at, 0, lane, lane == warp.elected ? 1 : 0);
      result() = kAllLanes;
      return true;
    case Ins::kVoteAny: {
      const Cell& votes = arg(at, 0);
      uint32_t any = 0;
      for (int lane = 0; lane < kLanes; ++lane) any |= votes.u[lane] & 1;
      for (int lane = 0; lane < kLanes; ++lane) set_result(at, 0, lane, any);
      result() = kAllLanes;
      return true;
    }
    case Ins::kRedux: {
      need(at, at.code.regs[0], "an operand");
      const lanes::Ty type = at.code.reg_types[0];
      const PureFn combine = pure_fn(at.instr.op, type, type);
      if (combine == nullptr)
        throw Fault{.code = ErrorCode::kEmuUnsupported, .message = "redux has no such operation"};
      Cell sum = in(warp, at.code.regs[0]);
      for (int lane = 1; lane < kLanes; ++lane) {
        Cell next;
        for (int l = 0; l < kLanes; ++l) next.u[l] = sum.u[lane];
        const Cell before = sum;
        const Cell* operands[2] = {&before, &next};
        Cell combined;
        combine(combined, operands);
        sum.u[0] = combined.u[0];
      }
      for (int lane = 0; lane < kLanes; ++lane) set_result(at, 0, lane, sum.u[0]);
      result() = kAllLanes;
      return true;
    }
    default:
      break;
  }
  // Shuffles. A lane may pass on a register that holds nothing; whoever then uses it is at fault.
  const Cell values = in(warp, at.code.regs[0]);
  const uint32_t known = valid(warp, at.code.regs[0]);
  const Cell& by = arg(at, 0);
  const int width = at.instr.n > 0 ? at.instr.n : kLanes;
  uint32_t now_known = 0;
  for (int lane = 0; lane < kLanes; ++lane) {
    const int segment = lane / width * width;
    int from = lane;
    if (at.instr.ins == Ins::kShflXor)
      from = lane ^ by.i[lane];
    else if (at.instr.ins == Ins::kShflIdx)
      from = segment + (by.i[lane] & (width - 1));
    else if (lane - by.i[lane] >= segment)
      from = lane - by.i[lane];
    // Beyond its segment a lane gets its own value.
    if (from < 0 || from >= kLanes ||
        (at.instr.ins == Ins::kShflXor && from / width * width > segment))
      from = lane;
    set_result(at, 0, lane, values.u[from]);
    now_known |= (known >> from & 1) << lane;
  }
  result() = now_known;
  return true;
}

bool Machine::exec_registers(const At& at) {
  Warp& warp = at.warp;
  if (at.instr.ins == Ins::kGridWait) warp.clock.acquire(at.mask, at.cluster().earlier_grids, 1);
  if (at.instr.ins != Ins::kRegsInc && at.instr.ins != Ins::kRegsDec)
    return true;  // pin, and what concerns other grids
  const int wanted = at.instr.n;
  const int more = wanted - warp.registers_a_thread;
  if (wanted % 8 != 0 || wanted < 24 || wanted > 256)
    throw Fault{.code = ErrorCode::kEmuUnsupported,
                .message = "setmaxnreg takes a multiple of 8 from 24 to 256",
                .found = std::to_string(wanted)};
  if ((at.instr.ins == Ins::kRegsInc) != (more >= 0))
    throw Fault{.code = ErrorCode::kEmuUnsupported,
                .message = "setmaxnreg goes the other way",
                .found = fmt::format("{} registers a thread before, {} wanted",
                                     warp.registers_a_thread, wanted)};
  Cta& cta = at.cta();
  if (more * kLanes > cta.free_registers) return false;
  cta.free_registers -= more * kLanes;
  warp.registers_a_thread = wanted;
  return true;
}

}  // namespace rooftile::emulate
