// SPDX-License-Identifier: Apache-2.0
// Copies by the copy engine: boxes of tensor maps, bulk copies, st.async, and bulk groups.
//
// A copy is checked, and its bytes change hands, when it is issued; the bytes themselves land
// later, a few rows at a time, and count on the barrier of each target as they do.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "rooftile/emulate/machine.h"

namespace rooftile::emulate {
namespace {

using lanes::Ins;

template <class Each>
void each_lane(uint32_t mask, Each each) {
  for (; mask != 0; mask &= mask - 1) each(std::countr_zero(mask));
}

constexpr uint32_t kLocalMask = (1u << kRankShift) - 1;

}  // namespace

bool Machine::exec_tensor_copy(const At& at) {
  bool over = true;
  switch (at.instr.ins) {
    case Ins::kStAsync:
      for (const CellId id : at.code.regs) need(at, id, "what is sent");
      each_lane(at.mask, [&](int lane) { store_async(at, lane); });
      break;
    case Ins::kTmaLoad:
    case Ins::kTmaLoadMulticast:
      each_lane(at.mask, [&](int lane) { tensor_load(at, lane); });
      break;
    case Ins::kTmaStore:
      each_lane(at.mask, [&](int lane) { tensor_store(at, lane); });
      break;
    case Ins::kBulkLoad:
      each_lane(at.mask, [&](int lane) { bulk_load(at, lane); });
      break;
    case Ins::kBulkCommit:
      each_lane(at.mask, [&](int lane) {
        Warp::Bulk& bulk = bulk_of(at, lane);
        ++bulk.committed;
        bulk.unread.push_back(0);
      });
      break;
    case Ins::kBulkWaitRead:
    case Ins::kBulkWait:
      each_lane(at.mask, [&](int lane) { over = bulk_group(at, lane) && over; });
      break;
    default:
      break;  // prefetch.tensormap
  }
  return over;
}

// ---- barriers that copies complete on

// The barrier at `offset` of a CTA, as a target of the copy engine.
Barrier& Machine::copy_barrier(const At& at, Cta& cta, int64_t offset, int lane, bool remote) {
  Barrier& barrier = barrier_at(at, cta, offset + kWindowStart, lane, remote);
  if (!barrier.fenced)
    throw Fault{.code = ErrorCode::kEmuBarrier,
                .message = "the copy engine is given an mbarrier that it may not see yet",
                .found = barrier_text(cta, barrier),
                .expected = "fence.mbarrier_init after the initialisation",
                .lane = lane};
  return barrier;
}

void Machine::bytes_issued(Cta& cta, Barrier& barrier, int64_t bytes) {
  barrier.issued += bytes;
  barrier.last_issue = barrier.phase + 1;
  if (barrier.pending == 0 && barrier.issued > barrier.expected)
    throw Fault{.code = ErrorCode::kEmuBarrier,
                .message = "more bytes are on their way to a barrier than it expects",
                .found = barrier_text(cta, barrier),
                .expected = fmt::format("{} bytes in this phase", barrier.expected)};
}

// ---- issue

void Machine::tensor_load(const At& at, int lane) {
  const bool multicast = at.instr.ins == Ins::kTmaLoadMulticast;
  const TensorMap& map = memory_.map(at.code.map);
  Copy copy{.kind = Copy::kTensorLoad};
  copy.warp = &at.warp;
  copy.lane = lane;
  copy.code = &at.code;
  copy.stmt = at.stmt;
  copy.address = arg(at, 0).u[lane];
  copy.barrier = static_cast<int64_t>(arg(at, 1).u[lane]) - kWindowStart;
  const size_t first = multicast ? 3 : 2;
  for (size_t d = first; d < at.code.args.size(); ++d) copy.coords.push_back(arg(at, d).i[lane]);
  if (at.instr.bytes != map.box_bytes)
    throw Fault{.code = ErrorCode::kEmuUnsupported,
                .message = "a copy states other bytes than its map's box",
                .found = std::to_string(at.instr.bytes),
                .expected = std::to_string(map.box_bytes),
                .lane = lane};
  const int64_t offset = shared_range(at, copy.address, map.box_bytes, 128, lane);
  for (int64_t row = 0; row < map.rows && map.tensor->has_history(); ++row)
    if (const BoxRow r = memory_.box_row(map, copy.coords, row); r.count > 0)
      global_read(at, *map.tensor, r.element, r.count, lane);
  if (multicast) {
    const uint32_t mask = arg(at, 2).u[lane] & 0xffff;
    for (int rank = 0; rank < 16; ++rank)
      if ((mask >> rank & 1) != 0) copy.targets.push_back(rank);
    if (mask == 0 || copy.targets.back() >= code_.program.cluster)
      throw Fault{.code = ErrorCode::kEmuBounds,
                  .message = "a multicast mask names CTAs that the cluster does not have",
                  .found = fmt::format("{:#x}", mask),
                  .expected = fmt::format("some of {} CTAs", code_.program.cluster),
                  .lane = lane};
  } else {
    copy.targets.push_back(at.cta().rank);
  }
  for (size_t i = 0; i < copy.targets.size(); ++i) {
    Cta& cta = *at.cluster().ctas[static_cast<size_t>(copy.targets[i])];
    const bool remote = &cta != &at.cta();
    Barrier& barrier = copy_barrier(at, cta, copy.barrier, lane, remote);
    shared_write(at, cta, offset, map.box_bytes, lane,
                 Stamp(barrier.agent, barrier.phase + 1, 0, at.stmt), true);
    bytes_issued(cta, barrier, map.box_bytes);
    copy.phases.push_back(barrier.phase);
    for (int64_t row = 0; row < map.rows;) {
      const int64_t rows = std::min<int64_t>(map.rows - row, 1 + random(64));
      copy.pieces.push_back({static_cast<int>(i), row, rows});
      row += rows;
    }
  }
  std::shuffle(copy.pieces.begin(), copy.pieces.end(), rng_);
  at.cluster().copies.push_back(std::move(copy));
  ++stats_.copies;
}

void Machine::bulk_load(const At& at, int lane) {
  const Tensor& t = memory_.tensor(at.code.tensor);
  const int64_t bytes = at.instr.bytes;
  Copy copy{.kind = Copy::kBulkLoad};
  copy.warp = &at.warp;
  copy.lane = lane;
  copy.code = &at.code;
  copy.stmt = at.stmt;
  copy.address = arg(at, 0).u[lane];
  copy.barrier = static_cast<int64_t>(arg(at, 1).u[lane]) - kWindowStart;
  copy.element = element_of(at, lane, bytes / t.elem_bytes);
  copy.targets.push_back(at.cta().rank);
  if (bytes % 16 != 0 || copy.element * t.elem_bytes % 16 != 0)
    throw Fault{.code = ErrorCode::kEmuBounds,
                .message = "a bulk copy moves whole chunks of 16 bytes",
                .found = fmt::format("{} bytes from byte {}", bytes, copy.element * t.elem_bytes),
                .lane = lane};
  global_read(at, t, copy.element, bytes / t.elem_bytes, lane);
  const int64_t offset = shared_range(at, copy.address, bytes, 16, lane);
  Barrier& barrier = copy_barrier(at, at.cta(), copy.barrier, lane, false);
  shared_write(at, at.cta(), offset, bytes, lane,
               Stamp(barrier.agent, barrier.phase + 1, 0, at.stmt), true);
  bytes_issued(at.cta(), barrier, bytes);
  copy.phases.push_back(barrier.phase);
  for (int64_t done = 0; done < bytes;) {
    const int64_t part = std::min<int64_t>(bytes - done, 16 * (1 + random(64)));
    copy.pieces.push_back({0, done, part});
    done += part;
  }
  std::shuffle(copy.pieces.begin(), copy.pieces.end(), rng_);
  at.cluster().copies.push_back(std::move(copy));
  ++stats_.copies;
}

void Machine::store_async(const At& at, int lane) {
  const uint32_t address = arg(at, 0).u[lane], bar = arg(at, 1).u[lane];
  const uint32_t rank = (address >> kRankShift) - 1;
  if (rank >= static_cast<uint32_t>(code_.program.cluster) || rank + 1 != bar >> kRankShift)
    throw Fault{.code = ErrorCode::kEmuBounds,
                .message = "st.async takes addresses of one peer, from mapa, for data and barrier",
                .found = fmt::format("{:#x} and {:#x}", address, bar),
                .lane = lane};
  Cta& cta = *at.cluster().ctas[rank];
  Copy copy{.kind = Copy::kStoreAsync};
  copy.warp = &at.warp;
  copy.lane = lane;
  copy.code = &at.code;
  copy.stmt = at.stmt;
  copy.address = address & kLocalMask;
  copy.barrier = static_cast<int64_t>(bar & kLocalMask) - kWindowStart;
  copy.targets.push_back(static_cast<int>(rank));
  for (size_t r = 0; r < 4; ++r) copy.words[r] = in(at.warp, at.code.regs[r]).u[lane];
  const int64_t offset = static_cast<int64_t>(copy.address) - kWindowStart;
  if (copy.address % 16 != 0)
    throw Fault{.code = ErrorCode::kEmuBounds,
                .message = "misaligned address of st.async",
                .found = address_text(offset),
                .expected = "a multiple of 16",
                .lane = lane};
  check_shared_range(offset, 16, -1, lane);
  Barrier& barrier = copy_barrier(at, cta, copy.barrier, lane, &cta != &at.cta());
  // Sent by a thread, so no proxy fence is needed towards the thread's own accesses.
  shared_write(at, cta, offset, 16, lane, Stamp(barrier.agent, barrier.phase + 1, 0, at.stmt),
               false);
  bytes_issued(cta, barrier, 16);
  copy.phases.push_back(barrier.phase);
  copy.pieces.push_back({0, 0, 16});
  at.cluster().copies.push_back(std::move(copy));
  ++stats_.copies;
}

Warp::Bulk& Machine::bulk_of(const At& at, int lane) {
  Warp::Bulk& bulk = at.warp.bulk[lane];
  if (bulk.agent == 0) {
    bulk.agent = at.cluster().agents.add(AgentKind::kBulk, at.cta().rank, at.warp.index);
    bulk.unread.push_back(0);
  }
  return bulk;
}

constexpr int64_t kChunkBytes = 16;

void Machine::tensor_store(const At& at, int lane) {
  const TensorMap& map = memory_.map(at.code.map);
  Warp::Bulk& bulk = bulk_of(at, lane);
  Copy copy{.kind = Copy::kTensorStore};
  copy.warp = &at.warp;
  copy.lane = lane;
  copy.code = &at.code;
  copy.stmt = at.stmt;
  copy.address = arg(at, 0).u[lane];
  for (size_t d = 1; d < at.code.args.size(); ++d) copy.coords.push_back(arg(at, d).i[lane]);
  copy.group = bulk.committed;
  copy.stamp = Stamp(bulk.agent, bulk.committed + 1, 0, at.stmt);
  copy.targets.push_back(at.cta().rank);
  const int64_t offset = shared_range(at, copy.address, map.box_bytes, 128, lane);
  const Reader reader{copy.stamp, 1, 0};
  if (const auto c = at.cta().shared->read(Viewer::lane(at.warp.clock, lane, true), offset,
                                           map.box_bytes, reader))
    conflict(at.cta(), *c, false, lane);
  // Rows are clipped to whole chunks of 16 bytes, not to elements.
  const int64_t element_bytes = map.inner_bytes / map.use->box[0];
  for (int64_t row = 0; row < map.rows; ++row)
    if (const BoxRow r = memory_.box_row(map, copy.coords, row);
        r.count * element_bytes % kChunkBytes != 0)
      throw Fault{.code = ErrorCode::kEmuBounds,
                  .message = "a bulk store writes past the end of a row",
                  .found = fmt::format("{} bytes of the row", r.count * element_bytes),
                  .expected = "a multiple of 16",
                  .fix = "rows of whole chunks, or stores by the threads",
                  .lane = lane};
  // What it writes is written from now on, for whoever else writes or reads it.
  for (int64_t row = 0; row < map.rows; ++row)
    if (const BoxRow r = memory_.box_row(map, copy.coords, row); r.count > 0)
      global_write(at, *map.tensor, r.element, r.count, lane, copy.stamp);
  for (int64_t row = 0; row < map.rows;) {
    const int64_t rows = std::min<int64_t>(map.rows - row, 1 + random(64));
    copy.pieces.push_back({0, row, rows});
    row += rows;
  }
  std::shuffle(copy.pieces.begin(), copy.pieces.end(), rng_);
  ++bulk.unread[copy.group];
  bulk.stored = copy.group + 1;
  at.cluster().copies.push_back(std::move(copy));
  ++stats_.copies;
}

// Waits until at most n groups of the lane are left.
bool Machine::bulk_group(const At& at, int lane) {
  Warp::Bulk& bulk = bulk_of(at, lane);
  const uint32_t left = static_cast<uint32_t>(at.instr.n);
  if (bulk.committed <= left) return true;
  const uint32_t due = bulk.committed - left;
  for (uint32_t group = 0; group < due; ++group)
    if (bulk.unread[group] > 0) return false;
  // Reads and writes are one piece here, so .read waits for both; what it lets the thread know is
  // the same agent's, which is what later writes of the source are checked against.
  at.warp.clock.acquire(1u << lane, bulk.agent, due);
  bulk.waited = std::max(bulk.waited, due);
  return true;
}

// ---- landing

bool Machine::land_something() {
  if (resident_.empty()) return false;
  // A cluster that has something in flight, from a random one on.
  std::vector<Cluster*> clusters;
  for (const auto& cluster : resident_) clusters.push_back(cluster.get());
  std::rotate(clusters.begin(), clusters.begin() + random(static_cast<uint32_t>(clusters.size())),
              clusters.end());
  for (Cluster* cluster : clusters) {
    std::vector<std::pair<Cta*, int>> ready;
    for (const auto& cta : cluster->ctas)
      for (size_t g = 0; g < cta->groups.size(); ++g)
        if (!cta->groups[g].products.empty() && cta->groups[g].products.front().warps == 4)
          ready.emplace_back(cta.get(), static_cast<int>(g));
    const size_t choices = ready.size() + cluster->copies.size();
    if (choices == 0) continue;
    const size_t choice = random(static_cast<uint32_t>(choices));
    if (choice < ready.size()) {
      run_product(*ready[choice].first, ready[choice].second);
      return true;
    }
    const auto copy =
        std::next(cluster->copies.begin(), static_cast<std::ptrdiff_t>(choice - ready.size()));
    blamed_warp_ = copy->warp;
    blamed_strand_ = nullptr;
    blamed_stmt_ = copy->stmt;
    land_piece(*copy);
    if (copy->pieces.empty()) cluster->copies.erase(copy);
    if (cluster->running == 0 && cluster->copies.empty()) finish_cluster(*cluster);
    return true;
  }
  return false;
}

void Machine::land_piece(Copy& copy) {
  const Copy::Piece piece = copy.pieces.back();
  copy.pieces.pop_back();
  Cta& cta = *copy.warp->cta->cluster
                  ->ctas[static_cast<size_t>(copy.targets[static_cast<size_t>(piece.target)])];
  const int64_t offset = static_cast<int64_t>(copy.address) - kWindowStart;
  switch (copy.kind) {
    case Copy::kTensorLoad:
      land_rows(copy, piece);
      return bytes_landed(copy, piece, piece.count * memory_.map(copy.code->map).inner_bytes);
    case Copy::kTensorStore: {
      land_rows(copy, piece);
      Warp::Bulk& bulk = copy.warp->bulk[copy.lane];
      if (copy.pieces.empty()) --bulk.unread[copy.group];
      return;
    }
    case Copy::kBulkLoad: {
      const Tensor& t = memory_.tensor(copy.code->tensor);
      std::memcpy(cta.shared->data(offset + piece.first),
                  t.data + copy.element * t.elem_bytes + piece.first,
                  static_cast<size_t>(piece.count));
      return bytes_landed(copy, piece, piece.count);
    }
    case Copy::kStoreAsync:
      std::memcpy(cta.shared->data(offset), copy.words, 16);
      return bytes_landed(copy, piece, piece.count);
    case Copy::kCopyArrive: {
      for (ThreadCopy& c : copy.warp->copies)
        if (c.id <= copy.last_copy && (c.lanes >> copy.lane & 1) != 0)
          land(*copy.warp, c, 1u << copy.lane, copy.stamp.epoch());
      std::erase_if(copy.warp->copies, [](const ThreadCopy& c) { return c.lanes == 0; });
      arrive(cta, cta.barriers.at(copy.barrier), 1, copy.handed);
      return;
    }
  }
}

// Rows of a box, to or from shared memory, 16 bytes at a time for the swizzle.
void Machine::land_rows(const Copy& copy, const Copy::Piece& piece) {
  const TensorMap& map = memory_.map(copy.code->map);
  const bool load = copy.kind == Copy::kTensorLoad;
  const int size = map.tensor->elem_bytes;
  Cta& cta = *copy.warp->cta->cluster
                  ->ctas[static_cast<size_t>(copy.targets[static_cast<size_t>(piece.target)])];
  std::vector<uint8_t> line(static_cast<size_t>(map.inner_bytes));
  for (int64_t row = piece.first; row < piece.first + piece.count; ++row) {
    const BoxRow r = memory_.box_row(map, copy.coords, row);
    uint8_t* inside = line.data() + r.first * size;
    uint8_t* outside = map.tensor->data + r.element * size;
    const size_t bytes = static_cast<size_t>(r.count * size);
    if (load) {
      std::fill(line.begin(), line.end(), uint8_t{0});
      if (bytes > 0) std::memcpy(inside, outside, bytes);
    }
    for (int64_t at = 0; at < map.inner_bytes; at += 16) {
      const uint32_t linear = copy.address + static_cast<uint32_t>(row * map.inner_bytes + at);
      uint8_t* chunk = cta.shared->data(swizzled(map.use->swizzle, linear) - kWindowStart);
      if (load)
        std::memcpy(chunk, line.data() + at, 16);
      else
        std::memcpy(line.data() + at, chunk, 16);
    }
    if (!load && bytes > 0) std::memcpy(outside, inside, bytes);
  }
}

void Machine::bytes_landed(const Copy& copy, const Copy::Piece& piece, int64_t bytes) {
  const size_t target = static_cast<size_t>(piece.target);
  Cta& cta = *copy.warp->cta->cluster->ctas[static_cast<size_t>(copy.targets[target])];
  Barrier& barrier = cta.barriers.at(copy.barrier);
  if (barrier.phase != copy.phases[target])
    throw Fault{.code = ErrorCode::kEmuBarrier,
                .message = "bytes land after the phase that they belong to has ended",
                .found = fmt::format("{}; the copy was issued in phase {}",
                                     barrier_text(cta, barrier), copy.phases[target]),
                .fix = "expect as many bytes as are copied, the whole box of each copy"};
  barrier.tx -= bytes;
  complete_if_due(cta, barrier);
}

}  // namespace rooftile::emulate
