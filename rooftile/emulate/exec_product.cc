// SPDX-License-Identifier: Apache-2.0
// wgmma and mma.sync.
//
// A product belongs to a warpgroup. Each of its four warps issues it; when the last has, its reads
// of shared memory are checked against what all four know, and it may run at any moment until a
// wait that covers it. Products of a warpgroup run in the order of their issue. From issue to wait
// its registers are its own.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "rooftile/emulate/machine.h"
#include "rooftile/emulate/matrix.h"

namespace rooftile::emulate {
namespace {

using lanes::Ins;
using lanes::Instr;

constexpr int kGroupWarps = 4;
constexpr int kWarpRows = 16;  // of the 64 rows of a product

bool is_integer(DType dtype) { return dtype == DType::kI8 || dtype == DType::kU8; }

[[noreturn]] void unsupported(const std::string& message, const std::string& found,
                              const std::string& expected) {
  throw Fault{
      .code = ErrorCode::kEmuUnsupported, .message = message, .found = found, .expected = expected};
}

}  // namespace

bool Machine::exec_product(const At& at) {
  Warp& warp = at.warp;
  switch (at.instr.ins) {
    case Ins::kWgmmaFence:
      ++warp.wgmma_fences;
      return true;
    case Ins::kWgmma:
      issue_product(at);
      return true;
    case Ins::kWgmmaCommit:
      warp.group_ends.push_back(warp.products_issued);
      return true;
    case Ins::kWgmmaWait:
      return wait_products(at);
    default:
      exec_mma(at);
      return true;
  }
}

// ---- wgmma

void Machine::issue_product(const At& at) {
  Warp& warp = at.warp;
  Cta& cta = at.cta();
  const int group_index = warp.index / kGroupWarps;
  if ((group_index + 1) * kGroupWarps > warps_a_cta_)
    throw Fault{.code = ErrorCode::kEmuConvergence,
                .message = "wgmma in a warpgroup that has fewer than four warps",
                .found = fmt::format("warp {} of {}", warp.index, warps_a_cta_)};
  const bool from_registers = at.code.reg_starts.size() > 2;
  const bool keep = uniform_arg(at, 0) != 0;
  const auto descriptor = [&](size_t index) {
    const Cell& cell = arg(at, index);
    for (int lane = 1; lane < kLanes; ++lane)
      if (cell.ul[lane] != cell.ul[0])
        throw Fault{.code = ErrorCode::kEmuConvergence,
                    .message = "a matrix descriptor differs between lanes",
                    .lane = lane};
    return cell.ul[0];
  };
  const uint64_t desc_a = from_registers ? 0 : descriptor(1);
  const uint64_t desc_b = descriptor(from_registers ? 1 : 2);

  const uint32_t seq = ++warp.products_issued;
  const int accumulators = at.code.reg_starts[1];
  for (size_t r = 0; r < at.code.regs.size(); ++r) {
    const CellId id = at.code.regs[r];
    const size_t reg = static_cast<size_t>(id - num_constants_);
    const bool accumulator = static_cast<int>(r) < accumulators;
    if (warp.wgmma_fences == 0 || warp.touched[reg] == warp.wgmma_fences + 1)
      throw Fault{
          .code = ErrorCode::kEmuProduct,
          .message =
              fmt::format("{} of a product was used by the thread since the last wgmma.fence",
                          accumulator ? "an accumulator" : "a fragment of A"),
          .expected = "wgmma.fence between other accesses to its registers and the product"};
    if (keep || !accumulator)
      need(at, id, accumulator ? "an accumulator that is kept" : "a fragment of A");
    warp.busy[reg] = seq;
    if (accumulator) valid_out(warp, id) = kAllLanes;
  }

  Warpgroup& group = cta.groups[static_cast<size_t>(group_index)];
  const size_t position = seq - group.run - 1;
  if (position == group.products.size()) {
    group.products.push_back({&at.code, at.stmt, desc_a, desc_b, keep, 0, warp.clock.common()});
  } else {
    group.products[position].clock.meet(warp.clock.common());
  }
  Product& product = group.products[position];
  if (product.code != &at.code || product.desc_a != desc_a || product.desc_b != desc_b ||
      product.keep != keep)
    throw Fault{
        .code = ErrorCode::kEmuConvergence,
        .message = "the warps of a warpgroup issue different products",
        .found = fmt::format("product {} of warp {} is not that of the others", seq, warp.index)};
  if (++product.warps == kGroupWarps) {
    check_operands(at, product);
    ++stats_.products;
  }
}

// The product reads its operands from now on: every byte must be known to all four warps, through
// the async proxy.
void Machine::check_operands(const At& at, const Product& product) {
  const Instr& instr = at.instr;
  Cta& cta = at.cta();
  const int group = at.warp.index / kGroupWarps;
  const Reader reader{
      Stamp(at.cluster().agents.products(cta.rank, group), at.warp.products_issued, 0, at.stmt), 1,
      0};
  const auto check = [&](uint64_t bits, int rows, bool mn_major) {
    const MatrixDesc desc = decode_desc(bits);
    if (desc.base_offset != 0)
      unsupported("a matrix descriptor with a base offset", std::to_string(desc.base_offset), "0");
    std::vector<uint32_t> chunks = operand_chunks(desc, rows, mn_major);
    std::sort(chunks.begin(), chunks.end());
    for (size_t i = 0; i < chunks.size();) {
      size_t end = i + 1;
      while (end < chunks.size() && chunks[end] == chunks[i] + 16 * (end - i)) ++end;
      const int64_t offset = static_cast<int64_t>(chunks[i]) - kWindowStart;
      const int64_t bytes = static_cast<int64_t>(16 * (end - i));
      check_shared_range(offset, bytes, -1, -1);
      if (const auto c = cta.shared->read(Viewer::of(product.clock, true), offset, bytes, reader))
        conflict(cta, *c, false, -1);
      i = end;
    }
  };
  if (at.code.reg_starts.size() == 2) check(product.desc_a, 64, instr.trans_a);
  check(product.desc_b, instr.n, instr.trans_b);
}

bool Machine::wait_products(const At& at) {
  Warp& warp = at.warp;
  const size_t left = static_cast<size_t>(at.instr.n);
  if (warp.group_ends.size() <= left) return true;
  const uint32_t due = warp.group_ends[warp.group_ends.size() - 1 - left];
  const int group = warp.index / kGroupWarps;
  if (at.cta().groups[static_cast<size_t>(group)].run < due) return false;
  warp.products_known = std::max(warp.products_known, due);
  warp.clock.acquire(kAllLanes, at.cluster().agents.products(at.cta().rank, group), due);
  return true;
}

void Machine::run_product(Cta& cta, int group_index) {
  Warpgroup& group = cta.groups[static_cast<size_t>(group_index)];
  const Product product = std::move(group.products.front());
  group.products.pop_front();
  ++group.run;
  const InstrCode& code = *product.code;
  const Instr& instr = *code.instr;
  const int n = instr.n, k = k_extent(instr.dtype), size = size_bytes(instr.dtype);
  const bool from_registers = code.reg_starts.size() > 2;

  // rows x K of an operand in shared memory; `by_k`: K x rows.
  const auto gather = [&](uint64_t bits, int rows, bool mn_major, bool by_k) {
    std::vector<float> out(static_cast<size_t>(rows * k));
    const std::vector<uint32_t> chunks = operand_chunks(decode_desc(bits), rows, mn_major);
    const int elements = 16 / size;
    float values[16];
    for (size_t c = 0; c < chunks.size(); ++c) {
      decode_elements(cta.shared->data(chunks[c] - kWindowStart), elements, instr.dtype, values);
      for (int e = 0; e < elements; ++e) {
        const int row = mn_major ? static_cast<int>(c) / 16 * 8 + e : static_cast<int>(c) / 2;
        const int col =
            mn_major ? static_cast<int>(c) % 16 : static_cast<int>(c) % 2 * elements + e;
        out[static_cast<size_t>(by_k ? col * rows + row : row * k + col)] = values[e];
      }
    }
    return out;
  };
  std::vector<float> a(static_cast<size_t>(kWarpRows * kGroupWarps * k));
  if (!from_registers) a = gather(product.desc_a, kWarpRows * kGroupWarps, instr.trans_a, false);
  const std::vector<float> b = gather(product.desc_b, n, instr.trans_b, true);

  std::vector<float> sums(static_cast<size_t>(kWarpRows * n));
  std::vector<int32_t> counts(static_cast<size_t>(kWarpRows * n));
  for (int w = 0; w < kGroupWarps; ++w) {
    Warp& warp = *cta.warps[static_cast<size_t>(group_index * kGroupWarps + w)];
    float* rows = a.data() + w * kWarpRows * k;
    if (from_registers)
      for (int j = 0; j < 4; ++j) {
        const Cell& cell = in(warp, code.regs[static_cast<size_t>(code.reg_starts[1] + j)]);
        for (int lane = 0; lane < kLanes; ++lane) {
          const Place p = a_place(lane, j, size);
          decode_elements(reinterpret_cast<const uint8_t*>(&cell.u[lane]), 4 / size, instr.dtype,
                          rows + p.row * k + p.col);
        }
      }
    const auto each = [&](auto visit) {
      for (int i = 0; i < code.reg_starts[1]; ++i) {
        Cell& cell = out(warp, code.regs[static_cast<size_t>(i)]);
        for (int lane = 0; lane < kLanes; ++lane) {
          const Place p = accumulator_place(lane, i);
          visit(cell, lane, static_cast<size_t>(p.row * n + p.col));
        }
      }
    };
    if (is_integer(instr.dtype)) {
      each([&](Cell& c, int lane, size_t to) { counts[to] = product.keep ? c.i[lane] : 0; });
      multiply_add(counts.data(), rows, b.data(), kWarpRows, n, k);
      each([&](Cell& c, int lane, size_t from) { c.i[lane] = counts[from]; });
    } else {
      each([&](Cell& c, int lane, size_t to) { sums[to] = product.keep ? c.f[lane] : 0.f; });
      multiply_add(sums.data(), rows, b.data(), kWarpRows, n, k);
      each([&](Cell& c, int lane, size_t from) { c.f[lane] = sums[from]; });
    }
  }
}

// ---- mma.sync: m16n8 by 32 bytes of K

void Machine::exec_mma(const At& at) {
  const Instr& instr = at.instr;
  const int k = k_extent(instr.dtype), size = size_bytes(instr.dtype);
  const std::vector<CellId>& regs = at.code.regs;
  for (const CellId id : regs) need(at, id, "an operand of mma");
  std::vector<float> a(static_cast<size_t>(16 * k)), b(static_cast<size_t>(k * 8));
  float values[4];
  for (int lane = 0; lane < kLanes; ++lane) {
    for (int j = 0; j < 4; ++j) {
      const Place p = a_place(lane, j, size);
      decode_elements(
          reinterpret_cast<const uint8_t*>(&in(at.warp, regs[static_cast<size_t>(j)]).u[lane]),
          4 / size, instr.dtype, a.data() + p.row * k + p.col);
    }
    for (int j = 0; j < 2; ++j) {
      const Place p = b_place(lane, j, size);
      decode_elements(
          reinterpret_cast<const uint8_t*>(&in(at.warp, regs[static_cast<size_t>(4 + j)]).u[lane]),
          4 / size, instr.dtype, values);
      for (int e = 0; e < 4 / size; ++e)
        b[static_cast<size_t>((p.row + e) * 8 + p.col)] = values[e];
    }
  }
  float sums[16 * 8];
  int32_t counts[16 * 8];
  const auto each = [&](auto visit) {
    for (int i = 0; i < 4; ++i)
      for (int lane = 0; lane < kLanes; ++lane) {
        const Place p = accumulator_place(lane, i);
        visit(static_cast<size_t>(i), lane, p.row * 8 + p.col);
      }
  };
  if (is_integer(instr.dtype)) {
    each([&](size_t i, int lane, int to) { counts[to] = in(at.warp, regs[6 + i]).i[lane]; });
    multiply_add(counts, a.data(), b.data(), 16, 8, k);
    each([&](size_t i, int lane, int from) {
      set_result(at, i, lane, static_cast<uint32_t>(counts[from]));
    });
  } else {
    each([&](size_t i, int lane, int to) { sums[to] = in(at.warp, regs[6 + i]).f[lane]; });
    multiply_add(sums, a.data(), b.data(), 16, 8, k);
    each([&](size_t i, int lane, int from) {
      uint32_t bits;
      std::memcpy(&bits, &sums[from], 4);
      set_result(at, i, lane, bits);
    });
  }
  results_written(at);
  ++stats_.products;
}

}  // namespace rooftile::emulate
