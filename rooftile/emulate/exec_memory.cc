// SPDX-License-Identifier: Apache-2.0
// Loads, stores and atomics of threads; matrix loads and stores; cp.async.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "rooftile/emulate/lane_math.h"
#include "rooftile/emulate/machine.h"

namespace rooftile::emulate {
namespace {

using lanes::Ins;
using lanes::Ty;

bool is_wide(Ty type) { return type == Ty::kI64 || type == Ty::kU64; }

// The register that one element in memory becomes.
uint64_t extended(const uint8_t* from, DType dtype) {
  uint64_t bits = 0;
  std::memcpy(&bits, from, static_cast<size_t>(size_bytes(dtype)));
  return dtype == DType::kI8 ? static_cast<uint32_t>(static_cast<int8_t>(bits)) : bits;
}

// op(old, operand) of elements of `dtype`.
uint64_t combined(lanes::Fn op, DType dtype, uint64_t old, uint64_t operand) {
  using lanes::Fn;
  if (dtype == DType::kF32)
    return std::bit_cast<uint32_t>(std::bit_cast<float>(static_cast<uint32_t>(old)) +
                                   std::bit_cast<float>(static_cast<uint32_t>(operand)));
  const bool is_signed = dtype == DType::kI32 || dtype == DType::kI64;
  if (dtype == DType::kI32) {
    old = static_cast<uint64_t>(static_cast<int32_t>(old));
    operand = static_cast<uint64_t>(static_cast<int32_t>(operand));
  }
  const bool less =
      is_signed ? static_cast<int64_t>(operand) < static_cast<int64_t>(old) : operand < old;
  switch (op) {
    case Fn::kAdd:
      return old + operand;
    case Fn::kMin:
      return less ? operand : old;
    case Fn::kMax:
      return less ? old : operand;
    case Fn::kAnd:
      return old & operand;
    case Fn::kOr:
      return old | operand;
    case Fn::kXor:
      return old ^ operand;
    default:
      throw Fault{.code = ErrorCode::kEmuUnsupported, .message = "no such atomic operation"};
  }
}

template <class Each>
void each_lane(uint32_t mask, Each each) {
  for (; mask != 0; mask &= mask - 1) each(std::countr_zero(mask));
}

}  // namespace

// ---- global memory

int64_t Machine::element_of(const At& at, int lane, int64_t width) const {
  int64_t index[8];
  for (size_t d = 0; d < at.code.index.size(); ++d) {
    need(at, at.code.index[d], "an index");
    index[d] = in(at.warp, at.code.index[d]).l[lane];
  }
  const Tensor& t = memory_.tensor(at.code.tensor);
  const int64_t element = t.offset(index, width, lane);
  const int64_t bytes = width * t.elem_bytes;
  if (width > 1 && element * t.elem_bytes % bytes != 0)
    throw Fault{.code = ErrorCode::kEmuBounds,
                .message = fmt::format("misaligned access of `{}`", t.use->name),
                .found = fmt::format("byte {}", element * t.elem_bytes),
                .expected = fmt::format("a multiple of {}", bytes),
                .lane = lane};
  return element;
}

// Whether the kernels before this one, which may still run under a dependent launch, can interfere:
// with what this one writes, and with what it reads of a workspace that one of them writes.
void Machine::check_dependency(const At& at, const Tensor& t, bool write, int lane) const {
  if (!code_.program.dependent_launch || (!write && !t.use->workspace)) return;
  if (at.warp.clock.covers(Stamp(at.cluster().earlier_grids, 1, 0, 0), lane)) return;
  throw Fault{.code = ErrorCode::kEmuRace,
              .message = fmt::format("{} of `{}` while an earlier kernel may still run",
                                     write ? "write" : "read", t.use->name),
              .expected = "griddepcontrol.wait first, by this thread or by one that it has met",
              .lane = lane};
}

void Machine::global_read(const At& at, const Tensor& t, int64_t element, int64_t count, int lane) {
  check_dependency(at, t, false, lane);
  memory_.read(t, element, count, at.cluster().id, Viewer::lane(at.warp.clock, lane, false), lane);
}

void Machine::global_write(const At& at, Tensor& t, int64_t element, int64_t count, int lane,
                           Stamp stamp) {
  check_dependency(at, t, true, lane);
  memory_.write(t, element, count, at.cluster().id, Viewer::lane(at.warp.clock, lane, false),
                stamp);
}

bool Machine::exec_global(const At& at) {
  switch (at.instr.ins) {
    case Ins::kLdGlobal:
      each_lane(at.mask, [&](int lane) { load_global(at, lane); });
      results_written(at);
      break;
    case Ins::kStGlobal:
      for (const CellId id : at.code.regs) need(at, id, "what is stored");
      each_lane(at.mask, [&](int lane) { store_global(at, lane); });
      break;
    case Ins::kWaitGlobal:
      return wait_global(at);
    case Ins::kRedGlobal:
    case Ins::kRedGlobalRelease:
    case Ins::kAtomGlobal: {
      need(at, at.code.regs[0], "an operand");
      // Lanes come in no promised order.
      const int first = static_cast<int>(random(kLanes));
      for (int i = 0; i < kLanes; ++i)
        if (const int lane = (first + i) % kLanes; (at.mask >> lane & 1) != 0)
          atomic_global(at, lane);
      results_written(at);
      break;
    }
    default:
      break;  // prefetches may name anything
  }
  return true;
}

void Machine::load_global(const At& at, int lane) {
  const int width = at.instr.global.width;
  const int64_t element = element_of(at, lane, width);
  Tensor& t = memory_.tensor(at.code.tensor);
  global_read(at, t, element, width, lane);
  const uint8_t* from = t.data + element * t.elem_bytes;
  if (width == 1) return set_result(at, 0, lane, extended(from, t.use->dtype));
  for (size_t r = 0; r < at.code.results.size(); ++r) {
    uint32_t word;
    std::memcpy(&word, from + 4 * r, 4);
    set_result(at, r, lane, word);
  }
}

void Machine::store_global(const At& at, int lane) {
  const int width = at.instr.global.width;
  const int64_t element = element_of(at, lane, width);
  Tensor& t = memory_.tensor(at.code.tensor);
  global_write(at, t, element, width, lane,
               at.warp.clock.stamp(at.warp.clock.writes(), lane, at.stmt));
  uint8_t* to = t.data + element * t.elem_bytes;
  if (width == 1) {
    std::memcpy(to,
                is_wide(at.code.reg_types[0])
                    ? static_cast<const void*>(&in(at.warp, at.code.regs[0]).ul[lane])
                    : &in(at.warp, at.code.regs[0]).u[lane],
                static_cast<size_t>(t.elem_bytes));
    return;
  }
  for (size_t r = 0; r < at.code.regs.size(); ++r)
    std::memcpy(to + 4 * r, &in(at.warp, at.code.regs[r]).u[lane], 4);
}

void Machine::atomic_global(const At& at, int lane) {
  const int64_t element = element_of(at, lane, 1);
  Tensor& t = memory_.tensor(at.code.tensor);
  check_dependency(at, t, true, lane);
  const Stamp stamp = at.warp.clock.stamp(at.warp.clock.writes(), lane, at.stmt);
  if (at.instr.ins == Ins::kRedGlobalRelease)
    memory_.release(t, element, at.cluster().id, Viewer::lane(at.warp.clock, lane, false), stamp);
  else
    memory_.atomic(t, element, at.cluster().id, stamp);
  uint8_t* to = t.data + element * t.elem_bytes;
  uint64_t old = 0;
  std::memcpy(&old, to, static_cast<size_t>(t.elem_bytes));
  const Cell& operand = in(at.warp, at.code.regs[0]);
  const uint64_t now = combined(at.instr.op, t.use->dtype, old,
                                is_wide(at.code.reg_types[0]) ? operand.ul[lane] : operand.u[lane]);
  std::memcpy(to, &now, static_cast<size_t>(t.elem_bytes));
  if (!at.code.results.empty()) set_result(at, 0, lane, old);
}

// Blocks until the element of every lane holds what it waits for.
bool Machine::wait_global(const At& at) {
  const Cell& value = arg(at, 0);
  bool over = true;
  each_lane(at.mask, [&](int lane) {
    const Tensor& t = memory_.tensor(at.code.tensor);
    const int64_t element = element_of(at, lane, 1);
    check_dependency(at, t, false, lane);
    int32_t now;
    std::memcpy(&now, t.data + element * t.elem_bytes, sizeof now);
    over = over && now == value.i[lane];
  });
  if (!over) return false;
  each_lane(at.mask, [&](int lane) {
    memory_.acquire(memory_.tensor(at.code.tensor), element_of(at, lane, 1), at.cluster().id,
                    at.warp.clock.stamp(at.warp.clock.writes(), lane, at.stmt));
  });
  return true;
}

// ---- shared memory

// The offset of `bytes` bytes at a shared address of this CTA; a fault if they are not there.
int64_t Machine::shared_range(const At& at, uint32_t address, int64_t bytes, int align,
                              int lane) const {
  const int64_t offset = static_cast<int64_t>(address) - kWindowStart;
  if (address % static_cast<uint32_t>(align) != 0)
    throw Fault{.code = ErrorCode::kEmuBounds,
                .message = "misaligned address in shared memory",
                .found = address_text(offset),
                .expected = fmt::format("a multiple of {}", align),
                .lane = lane};
  check_shared_range(offset, bytes, at.code.alloc, lane);
  return offset;
}

// [offset, offset + bytes) must lie in one allocation, `alloc` if that is known, and hold no
// barrier.
void Machine::check_shared_range(int64_t offset, int64_t bytes, int alloc, int lane) const {
  const auto& allocs = code_.program.shared;
  for (size_t a = 0; a < allocs.size(); ++a) {
    if (alloc >= 0 && static_cast<size_t>(alloc) != a) continue;
    if (offset < allocs[a].offset || offset + bytes > allocs[a].offset + allocs[a].bytes) continue;
    if (!allocs[a].barriers) return;
    throw Fault{.code = ErrorCode::kEmuBarrier,
                .message = "an mbarrier is accessed as plain memory",
                .found = address_text(offset),
                .lane = lane};
  }
  throw Fault{.code = ErrorCode::kEmuBounds,
              .message = "access outside its allocation in shared memory",
              .found = fmt::format("{} bytes at {}", bytes, address_text(offset)),
              .expected = alloc >= 0 ? fmt::format("inside `{}`, {} bytes",
                                                   allocs[static_cast<size_t>(alloc)].name,
                                                   allocs[static_cast<size_t>(alloc)].bytes)
                                     : "inside one allocation",
              .lane = lane};
}

void Machine::shared_read(const At& at, Cta& cta, int64_t offset, int64_t bytes, int lane,
                          bool async) {
  const Reader reader{at.warp.clock.stamp(at.warp.clock.reads(), lane, at.stmt), 1u << lane,
                      at.warp.clock.synced()};
  if (const auto c =
          cta.shared->read(Viewer::lane(at.warp.clock, lane, async), offset, bytes, reader))
    conflict(cta, *c, false, lane);
}

void Machine::shared_write(const At& at, Cta& cta, int64_t offset, int64_t bytes, int lane,
                           Stamp stamp, bool async) {
  if (const auto c =
          cta.shared->write(Viewer::lane(at.warp.clock, lane, async), offset, bytes, stamp))
    conflict(cta, *c, true, lane);
}

bool Machine::exec_shared(const At& at) {
  switch (at.instr.ins) {
    case Ins::kLdShared:
      load_shared(at);
      results_written(at);
      break;
    case Ins::kStShared:
      for (const CellId id : at.code.regs) need(at, id, "what is stored");
      each_lane(at.mask, [&](int lane) { store_shared(at, lane); });
      break;
    case Ins::kAtomShared:
      need(at, at.code.regs[0], "an operand");
      each_lane(at.mask, [&](int lane) { atomic_shared(at, lane); });
      results_written(at);
      break;
    default: {  // mapa
      const Cell& address = arg(at, 0);
      const Cell& rank = arg(at, 1);
      each_lane(at.mask, [&](int lane) {
        if (rank.u[lane] >= static_cast<uint32_t>(code_.program.cluster))
          throw Fault{.code = ErrorCode::kEmuBounds,
                      .message = "no such CTA in the cluster",
                      .found = fmt::format("rank {}", rank.u[lane]),
                      .expected = fmt::format("below {}", code_.program.cluster),
                      .lane = lane};
        const uint32_t local = address.u[lane] & ((1u << kRankShift) - 1);
        set_result(at, 0, lane, ((rank.u[lane] + 1) << kRankShift) | local);
      });
      results_written(at);
    }
  }
  return true;
}

void Machine::deliver(const At& at, int lane, const uint8_t* from) {
  const int bytes = at.instr.bytes;
  uint64_t word = 0;
  if (bytes < 4 || (bytes == 8 && at.code.results.size() == 1)) {
    std::memcpy(&word, from, static_cast<size_t>(bytes));
    return set_result(at, 0, lane, word);
  }
  for (size_t r = 0; r < at.code.results.size(); ++r) {
    std::memcpy(&word, from + 4 * r, 4);
    set_result(at, r, lane, word);
  }
}

void Machine::load_shared(const At& at) {
  const Cell& address = arg(at, 0);
  const int bytes = at.instr.bytes;
  SharedMemory& shared = *at.cta().shared;
  const WarpClock& clock = at.warp.clock;
  // What all lanes read alike is one access by all of them, unless it takes what only some know.
  bool alike = at.mask == kAllLanes;
  for (int lane = 1; lane < kLanes && alike; ++lane) alike = address.u[lane] == address.u[0];
  if (alike) {
    const int64_t offset = shared_range(at, address.u[0], bytes, bytes, 0);
    const Reader all{clock.stamp(clock.reads(), 0, at.stmt), kAllLanes, clock.synced()};
    if (!shared.read(Viewer::all_lanes(clock, false), offset, bytes, all))
      return each_lane(at.mask, [&](int lane) { deliver(at, lane, shared.data(offset)); });
  }
  each_lane(at.mask, [&](int lane) {
    const int64_t offset = shared_range(at, address.u[lane], bytes, bytes, lane);
    shared_read(at, at.cta(), offset, bytes, lane, false);
    deliver(at, lane, shared.data(offset));
  });
}

void Machine::store_shared(const At& at, int lane) {
  const Cell& address = arg(at, 0);
  const int bytes = at.instr.bytes;
  const int64_t offset = shared_range(at, address.u[lane], bytes, bytes, lane);
  uint8_t value[16] = {};
  if (bytes == 8 && at.code.regs.size() == 1) {
    std::memcpy(value, &in(at.warp, at.code.regs[0]).ul[lane], 8);
  } else {
    for (size_t r = 0; r < at.code.regs.size(); ++r)
      std::memcpy(value + 4 * r, &in(at.warp, at.code.regs[r]).u[lane], 4);
  }
  SharedMemory& shared = *at.cta().shared;
  const Stamp stamp = at.warp.clock.stamp(at.warp.clock.writes(), lane, at.stmt);
  // Lanes of one instruction may write the same value to one place.
  const Stamp before = shared.writer(offset);
  const bool sibling = before.present() && before.agent() == stamp.agent() &&
                       before.epoch() == stamp.epoch() && before.pc() == stamp.pc() &&
                       before.lane() != lane;
  if (sibling && std::memcmp(shared.data(offset), value, static_cast<size_t>(bytes)) == 0) return;
  shared_write(at, at.cta(), offset, bytes, lane, stamp, false);
  std::memcpy(shared.data(offset), value, static_cast<size_t>(bytes));
}

// Atomics on shared memory order themselves: they race with plain accesses only.
void Machine::atomic_shared(const At& at, int lane) {
  const Cell& address = arg(at, 0);
  const int bytes = size_bytes(at.instr.dtype);
  const int64_t offset = shared_range(at, address.u[lane], bytes, bytes, lane);
  SharedMemory& shared = *at.cta().shared;
  const Stamp stamp = at.warp.clock.stamp(at.warp.clock.writes(), lane, at.stmt);
  const Stamp before = shared.writer(offset);
  if (!before.present())
    conflict(at.cta(), {Conflict::kUninitialised, before, offset}, false, lane);
  const lanes::Stmt& wrote = stmt_of(before);
  const bool atomic = wrote.kind == lanes::StmtKind::kInstr && wrote.instr.ins == Ins::kAtomShared;
  if (atomic)
    shared.restamp(offset, bytes, before, stamp);
  else
    shared_write(at, at.cta(), offset, bytes, lane, stamp, false);
  uint64_t old = 0;
  std::memcpy(&old, shared.data(offset), static_cast<size_t>(bytes));
  const uint64_t now =
      combined(at.instr.op, at.instr.dtype, old, in(at.warp, at.code.regs[0]).u[lane]);
  std::memcpy(shared.data(offset), &now, static_cast<size_t>(bytes));
  if (!at.code.results.empty()) set_result(at, 0, lane, old);
}

// Lane 8i + r holds the address of row r of 8x8 matrix i; every lane gets (gives) two neighbouring
// elements of each: of row lane / 4, or with .trans of column lane / 4.
bool Machine::exec_matrix(const At& at) {
  const Cell& address = arg(at, 0);
  const bool load = at.instr.ins == Ins::kLdMatrix;
  SharedMemory& shared = *at.cta().shared;
  if (!load)
    for (const CellId id : at.code.regs) need(at, id, "what is stored");
  for (int matrix = 0; matrix < at.instr.n; ++matrix) {
    uint8_t* rows[8];
    for (int row = 0; row < 8; ++row) {
      const int lane = 8 * matrix + row;
      const int64_t offset = shared_range(at, address.u[lane], 16, 16, lane);
      if (load)
        shared_read(at, at.cta(), offset, 16, lane, false);
      else
        shared_write(at, at.cta(), offset, 16, lane,
                     at.warp.clock.stamp(at.warp.clock.writes(), lane, at.stmt), false);
      rows[row] = shared.data(offset);
    }
    for (int lane = 0; lane < kLanes; ++lane) {
      uint32_t word = load ? 0 : in(at.warp, at.code.regs[static_cast<size_t>(matrix)]).u[lane];
      for (int half = 0; half < 2; ++half) {
        const int outer = lane / 4, inner = 2 * (lane % 4) + half;
        uint8_t* element = at.instr.trans_a ? rows[inner] + 2 * outer : rows[outer] + 2 * inner;
        uint16_t bits = static_cast<uint16_t>(word >> (16 * half));
        if (load) {
          std::memcpy(&bits, element, 2);
          word |= static_cast<uint32_t>(bits) << (16 * half);
        } else {
          std::memcpy(element, &bits, 2);
        }
      }
      if (load) set_result(at, static_cast<size_t>(matrix), lane, word);
    }
  }
  results_written(at);
  return true;
}

// ---- cp.async: the bytes belong to the copy until its thread has waited for it

bool Machine::exec_thread_copy(const At& at) {
  Warp& warp = at.warp;
  switch (at.instr.ins) {
    case Ins::kCpAsync:
      copy_async(at);
      break;
    case Ins::kCpCommit:
      each_lane(at.mask, [&](int lane) { ++warp.copy_groups[lane]; });
      break;
    case Ins::kCpWait:
      for (ThreadCopy& copy : warp.copies) {
        uint32_t over = 0;
        each_lane(at.mask & copy.lanes, [&](int lane) {
          if (copy.group[lane] + static_cast<uint32_t>(at.instr.n) <= warp.copy_groups[lane])
            over |= 1u << lane;
        });
        land(warp, copy, over, warp.clock.now());
      }
      std::erase_if(warp.copies, [](const ThreadCopy& c) { return c.lanes == 0; });
      break;
    default:
      each_lane(at.mask, [&](int lane) { copy_arrive(at, lane); });
  }
  return true;
}

void Machine::copy_async(const At& at) {
  Warp& warp = at.warp;
  const Cell& address = arg(at, 0);
  const Cell& source = arg(at, 1);
  Tensor& t = memory_.tensor(at.code.tensor);
  const int bytes = at.instr.global.width * t.elem_bytes;
  if (warp.copy_agent == 0)
    warp.copy_agent = at.cluster().agents.add(AgentKind::kCopies, at.cta().rank, warp.index);
  ThreadCopy copy;
  copy.stmt = at.stmt;
  copy.instr = static_cast<int>(&at.code - code_.instrs.data());
  copy.id = ++warp.num_copies;
  copy.lanes = at.mask;
  each_lane(at.mask, [&](int lane) {
    copy.source_bytes[lane] = source.i[lane];
    if (copy.source_bytes[lane] < 0 || copy.source_bytes[lane] > bytes)
      throw Fault{.code = ErrorCode::kEmuUnsupported,
                  .message = "cp.async reads other bytes than it writes",
                  .found = fmt::format("{} source bytes", copy.source_bytes[lane]),
                  .expected = fmt::format("0 to {}", bytes),
                  .lane = lane};
    const int elements = (copy.source_bytes[lane] + t.elem_bytes - 1) / t.elem_bytes;
    copy.element[lane] = elements > 0 ? element_of(at, lane, elements) : 0;
    if (copy.element[lane] * t.elem_bytes % bytes != 0)
      throw Fault{.code = ErrorCode::kEmuBounds,
                  .message = fmt::format("misaligned source of cp.async in `{}`", t.use->name),
                  .lane = lane};
    global_read(at, t, copy.element[lane], elements, lane);
    copy.offset[lane] = shared_range(at, address.u[lane], bytes, bytes, lane);
    shared_write(at, at.cta(), copy.offset[lane], bytes, lane,
                 Stamp(warp.copy_agent, copy.id, lane, at.stmt), false);
    copy.group[lane] = warp.copy_groups[lane] + 1;
  });
  warp.copies.push_back(copy);
  ++stats_.copies;
}

void Machine::copy_arrive(const At& at, int lane) {
  Copy copy{.kind = Copy::kCopyArrive};
  copy.warp = &at.warp;
  copy.lane = lane;
  copy.code = &at.code;
  copy.stmt = at.stmt;
  copy.barrier = barrier_at(at, at.cta(), arg(at, 0).u[lane], lane, false).offset;
  copy.last_copy = at.warp.num_copies;
  copy.stamp = at.warp.clock.stamp(at.warp.clock.writes(), lane, at.stmt);
  for (ThreadCopy& earlier : at.warp.copies)
    if ((earlier.lanes >> lane & 1) != 0 && earlier.told[lane] == 0)
      earlier.told[lane] = copy.stamp.epoch();
  copy.handed = at.warp.clock.release(1u << lane);
  copy.targets = {at.cta().rank};
  copy.pieces.push_back({0, 0, 0});
  at.cluster().copies.push_back(std::move(copy));
}

// The bytes of some lanes are there, as if their threads had written them in `epoch`, or when they
// told a barrier of them.
void Machine::land(Warp& warp, ThreadCopy& copy, uint32_t mask, uint32_t epoch) {
  const InstrCode& code = code_.instrs[static_cast<size_t>(copy.instr)];
  const Tensor& t = memory_.tensor(code.tensor);
  const int bytes = code.instr->global.width * t.elem_bytes;
  SharedMemory& shared = *warp.cta->shared;
  each_lane(mask & copy.lanes, [&](int lane) {
    uint8_t* to = shared.data(copy.offset[lane]);
    std::memset(to, 0, static_cast<size_t>(bytes));
    std::memcpy(to, t.data + copy.element[lane] * t.elem_bytes,
                static_cast<size_t>(copy.source_bytes[lane]));
    shared.restamp(copy.offset[lane], bytes, Stamp(warp.copy_agent, copy.id, lane, copy.stmt),
                   Stamp(warp.clock.writes(), copy.told[lane] != 0 ? copy.told[lane] : epoch, lane,
                         copy.stmt));
  });
  copy.lanes &= ~mask;
}

}  // namespace rooftile::emulate
