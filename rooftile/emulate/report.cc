// SPDX-License-Identifier: Apache-2.0
// Reports: a fault in the words of the kernel, and who waits for what when nobody can go on.
#include <fmt/format.h>

#include <bit>

#include "rooftile/emulate/machine.h"
#include "rooftile/lanes/program_text.h"

namespace rooftile::emulate {
namespace {

std::string join(const std::vector<std::string>& parts, std::string_view separator) {
  std::string out;
  for (const std::string& part : parts) out += (out.empty() ? "" : std::string(separator)) + part;
  return out;
}

std::string shortened(std::string text) {
  constexpr size_t kLongest = 220;
  return text.size() <= kLongest ? text : text.substr(0, kLongest) + " ...";
}

}  // namespace

// "`stage`+16" of the allocation that holds it.
std::string Machine::address_text(int64_t offset) const {
  for (const lanes::SharedAlloc& a : code_.program.shared)
    if (offset >= a.offset && offset < a.offset + a.bytes)
      return offset == a.offset ? fmt::format("`{}`", a.name)
                                : fmt::format("`{}`+{}", a.name, offset - a.offset);
  return fmt::format("shared byte {}", offset);
}

std::string Machine::barrier_text(const Cta& cta, const Barrier& barrier) const {
  std::string out =
      fmt::format("barrier {}{}: phase {}, {} of {} arrivals missing", address_text(barrier.offset),
                  code_.program.cluster > 1 ? fmt::format(" of CTA {}", cta.rank) : "",
                  barrier.phase, barrier.pending, barrier.count);
  if (barrier.expected != 0 || barrier.issued != 0 || barrier.tx != 0)
    out += fmt::format(", {} bytes missing ({} expected, {} under way or landed)", barrier.tx,
                       barrier.expected, barrier.issued);
  return out;
}

std::string Machine::who_text(const Cluster& cluster, const Stamp& stamp) const {
  const AgentInfo& who = cluster.agents[stamp.agent()];
  std::string out;
  switch (who.kind) {
    case AgentKind::kReads:
    case AgentKind::kWrites:
    case AgentKind::kFencedWrites:
      out = fmt::format("warp {} lane {}", who.warp, stamp.lane());
      break;
    case AgentKind::kProducts:
      out = fmt::format("product {} of warpgroup {}", stamp.epoch(), who.warp);
      break;
    case AgentKind::kBarrier:
      out = fmt::format("a copy of phase {} of barrier {}", stamp.epoch() - 1,
                        address_text(who.warp));
      break;
    case AgentKind::kBulk:
      out = fmt::format("bulk group {} of warp {}", stamp.epoch() - 1, who.warp);
      break;
    case AgentKind::kGrids:
      out = "an earlier kernel";
      break;
    case AgentKind::kCopies:
      out = fmt::format("a cp.async of warp {} lane {} that it has not waited for", who.warp,
                        stamp.lane());
      break;
  }
  if (code_.program.cluster > 1) out += fmt::format(" of CTA {}", who.cta);
  return out + ", `" + shortened(lanes::print_head(stmt_of(stamp))) + "`";
}

void Machine::conflict(const Cta& cta, const Conflict& c, bool is_write, int lane) const {
  const std::string where = address_text(c.offset) +
                            (code_.program.cluster > 1 ? fmt::format(" of CTA {}", cta.rank) : "");
  Fault fault{.lane = lane};
  switch (c.kind) {
    case Conflict::kUninitialised:
      fault.code = ErrorCode::kEmuUninit;
      fault.message = "read of shared memory that nothing has written";
      fault.found = where;
      break;
    case Conflict::kAfterWrite: {
      const AgentKind kind = cta.cluster->agents[c.earlier.agent()].kind;
      fault.code = ErrorCode::kEmuRace;
      fault.message =
          fmt::format("{} of shared memory {}", is_write ? "write" : "read",
                      kind == AgentKind::kBarrier || kind == AgentKind::kCopies
                          ? "that a copy writes, and whose arrival the thread does not know of"
                          : "is not ordered after a write");
      fault.found = fmt::format("{}, written by {}", where, who_text(*cta.cluster, c.earlier));
      fault.expected = kind == AgentKind::kBarrier ? "a wait for that phase of the barrier first"
                                                   : "a barrier between the two";
      break;
    }
    case Conflict::kAfterRead:
      fault.code = ErrorCode::kEmuRace;
      fault.message = "overwrite of shared memory that may still be read";
      fault.found = fmt::format("{}, read by {}", where, who_text(*cta.cluster, c.earlier));
      fault.expected = "the end of the reads, and then a barrier, before the write";
      break;
    case Conflict::kUnfenced:
      fault.code = ErrorCode::kEmuProxy;
      fault.message = "the async proxy meets a generic write without a proxy fence";
      fault.found = fmt::format("{}, written by {}", where, who_text(*cta.cluster, c.earlier));
      fault.expected = "fence.proxy.async after the write, then a barrier";
      break;
  }
  throw Fault(std::move(fault));
}

std::string Machine::loops_text(const Warp& warp, const Strand& strand) const {
  std::vector<std::string> out;
  const auto add = [&](const Strand& s) {
    for (const Frame& frame : s.frames) {
      if (frame.kind != Frame::kLoop) continue;
      const Code::LoopVar& loop = code_.loops[static_cast<size_t>(frame.loop)];
      if (!loop.name.empty())
        out.push_back(
            fmt::format("{} = {}", loop.name, in(warp, loop.cell).i[std::countr_zero(s.mask)]));
    }
  };
  if (strand.parent >= 0) add(warp.strands[static_cast<size_t>(strand.parent)]);
  add(strand);
  return join(out, ", ");
}

Diag Machine::report(const Fault& fault, const Warp* warp, const Strand* strand, int stmt) const {
  Diag diag{.code = fault.code, .subject = code_.program.name, .message = fault.message};
  diag.found = fault.found;
  diag.expected = fault.expected;
  diag.fix = fault.fix;
  if (warp == nullptr) return diag;
  const Cta& cta = *warp->cta;
  std::string when = fmt::format("CTA ({}, {}, {}), warp {}", cta.x, cta.y, cta.z, warp->index);
  if (fault.lane >= 0) when += fmt::format(", lane {}", fault.lane);
  if (strand != nullptr) {
    const std::string loops = loops_text(*warp, *strand);
    if (!loops.empty()) when += ", " + loops;
  }
  const lanes::Stmt& s = *code_.stmts[static_cast<size_t>(stmt)];
  diag.when =
      fmt::format("{}, at `{}`, seed {}", when, shortened(lanes::print_head(s)), launch_.seed);
  diag.at = s.loc;
  return diag;
}

std::string Machine::wait_text(const Warp& warp, const Strand& strand) const {
  const Op* op = &code_.ops[static_cast<size_t>(strand.pc)];
  while (op->kind != OpKind::kInstr) ++op;
  const InstrCode& code = code_.instrs[static_cast<size_t>(op->instr)];
  const Cta& cta = *warp.cta;
  const int lane = std::countr_zero(strand.mask);
  std::string out =
      "`" + shortened(lanes::print_head(*code_.stmts[static_cast<size_t>(op->stmt)])) + "`";
  switch (code.instr->ins) {
    case lanes::Ins::kBarWait:
    case lanes::Ins::kBarWaitCluster: {
      const auto it =
          cta.barriers.find(static_cast<int64_t>(in(warp, code.args[0]).u[lane]) - kWindowStart);
      if (it != cta.barriers.end())
        out += fmt::format(", parity {}, {}", in(warp, code.args[1]).u[lane],
                           barrier_text(cta, it->second));
      break;
    }
    case lanes::Ins::kSyncThreads:
    case lanes::Ins::kNamedSync: {
      const int id =
          code.instr->ins == lanes::Ins::kSyncThreads ? 0 : in(warp, code.args[0]).i[lane];
      const auto it = cta.named.find(id);
      if (it != cta.named.end())
        out += fmt::format(", {} of {} threads have come", it->second.arrived, it->second.threads);
      break;
    }
    case lanes::Ins::kRegsInc:
      out += fmt::format(", {} registers are free", cta.free_registers);
      break;
    default:
      break;
  }
  return out;
}

// Who waits for what; warps that wait alike are one line.
Diag Machine::deadlock() const {
  std::vector<std::pair<std::string, std::string>> waits;  // text, who
  for (const Warp* warp : runnable_)
    for (const Strand& strand : warp->strands) {
      if (!strand.alive || strand.children > 0) continue;
      const std::string loops = loops_text(*warp, strand);
      const std::string text = wait_text(*warp, strand) + (loops.empty() ? "" : ", at " + loops);
      std::string who = fmt::format("{}", warp->index);
      if (warp->cta->cluster != runnable_[0]->cta->cluster) continue;  // one cluster tells it all
      if (code_.program.cluster > 1) who += fmt::format(" of CTA {}", warp->cta->rank);
      const auto same =
          std::find_if(waits.begin(), waits.end(), [&](const auto& w) { return w.first == text; });
      if (same == waits.end())
        waits.emplace_back(text, who);
      else
        same->second += ", " + who;
    }
  std::vector<std::string> lines;
  for (const auto& [text, who] : waits)
    lines.push_back(fmt::format("warp {} waits at {}", who, text));
  const Cta* cta = runnable_.empty() ? nullptr : runnable_[0]->cta;
  return {.code = ErrorCode::kEmuDeadlock,
          .subject = code_.program.name,
          .message = "deadlock: every warp waits, and nothing is in flight",
          .found = join(lines, "; "),
          .when = cta == nullptr ? ""
                                 : fmt::format("CTA ({}, {}, {}), seed {}", cta->x, cta->y, cta->z,
                                               launch_.seed)};
}

}  // namespace rooftile::emulate
