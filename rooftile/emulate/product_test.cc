// SPDX-License-Identifier: Apache-2.0
// wgmma on every layout of its operands: tiles brought by the copy engine, multiplied through
// descriptors, compared with plain sums.
#include <gtest/gtest.h>

#include <ostream>
#include <random>

#include "rooftile/base/float_convert.h"
#include "rooftile/emulate/emulate.h"
#include "rooftile/emulate/testing/build.h"

namespace rooftile::emulate {
namespace {

using namespace testing;  // NOLINT: short names for building programs
using lanes::decl;
using lanes::decl_array;
using lanes::equal;
using lanes::for_;
using lanes::if_;
using lanes::Swizzle;

enum class Major { kK, kMn, kRegisters };
struct Layout {
  Major major;
  Swizzle swizzle;
};
struct Shape {
  DType dtype;
  int n;
  Layout a, b;
};
void PrintTo(const Shape& s, std::ostream* out) {
  *out << name(s.dtype) << " n" << s.n << " a " << static_cast<int>(s.a.major) << "/"
       << static_cast<int>(s.a.swizzle) << " b " << static_cast<int>(s.b.major) << "/"
       << static_cast<int>(s.b.swizzle);
}

constexpr int kStepBytes = 32;  // of K, in one product
constexpr int kDepthBytes = 128;

int span(Swizzle s) { return 16 << static_cast<int>(s); }

// One operand: how it lies in global and shared memory.
struct Operand {
  std::string tensor;
  Layout layout;
  int rows, k, size;

  std::vector<Expr> shape() const {
    return layout.major == Major::kMn ? std::vector<Expr>{k, rows} : std::vector<Expr>{rows, k};
  }
  // Boxes one after the other: along K for K-major tiles, along M or N for the others.
  int inner() const { return span(layout.swizzle) / size; }
  int outer() const { return layout.major == Major::kMn ? k : rows; }
  int box_bytes() const { return inner() * size * outer(); }
  int boxes() const { return (layout.major == Major::kMn ? rows : k) / inner(); }
  lanes::TensorMapUse map() const {
    return {.name = "map_" + tensor,
            .tensor = tensor,
            .box = {inner(), outer()},
            .swizzle = layout.swizzle};
  }
  void load(Body& body) const {
    for (int i = 0; i < boxes(); ++i)
      body.push_back(ins(Ins::kTmaLoad, {.args = {at("tile_" + tensor, i * box_bytes()),
                                                  lanes::shared("bar"), i * inner(), 0},
                                         .bytes = box_bytes(),
                                         .map = "map_" + tensor}));
  }
  Val descriptor(int step) const {
    const int s = span(layout.swizzle);
    const bool plain = layout.swizzle == Swizzle::kNone;
    int start = 0, leading = 16, stride = 8 * s;
    if (layout.major == Major::kK) {
      const int boxes_a_step = kStepBytes / s;  // none, or two where rows of a box are one chunk
      start = plain ? step * boxes_a_step * box_bytes()
                    : step * kStepBytes / s * box_bytes() + step * kStepBytes % s;
      if (plain) leading = box_bytes();
    } else {
      start = step * (kStepBytes / size) * s;
      leading = plain ? 8 * s : box_bytes();
      if (plain) stride = box_bytes();
    }
    return lanes::fn(Fn::kMatrixDesc, {at("tile_" + tensor, start), leading, stride,
                                       static_cast<int>(layout.swizzle)});
  }
};

class EmulateProduct : public ::testing::TestWithParam<Shape> {};

Result<Program> program_of(const Shape& shape, const Operand& a, const Operand& b) {
  const bool whole = shape.dtype == DType::kI8;
  const Ty sum = whole ? Ty::kI32 : Ty::kF32;
  Program p;
  p.name = "product";
  p.tensors = {
      {.name = "a", .dtype = shape.dtype, .shape = a.shape(), .read = true, .align_bytes = 16},
      {.name = "b", .dtype = shape.dtype, .shape = b.shape(), .read = true, .align_bytes = 16},
      {.name = "d",
       .dtype = whole ? DType::kI32 : DType::kF32,
       .shape = {64, shape.n},
       .written = true}};
  p.maps = {b.map()};
  p.shared = {{.name = "tile_b", .bytes = int64_t{b.box_bytes()} * b.boxes(), .align = 1024},
              {.name = "bar", .bytes = 8, .align = 8, .barriers = true}};
  const bool fragments = a.layout.major == Major::kRegisters;
  Body loads;
  int bytes = b.box_bytes() * b.boxes();
  b.load(loads);
  if (!fragments) {
    p.maps.push_back(a.map());
    p.shared.push_back(
        {.name = "tile_a", .bytes = int64_t{a.box_bytes()} * a.boxes(), .align = 1024});
    bytes += a.box_bytes() * a.boxes();
    a.load(loads);
  }
  Body first = {ins(Ins::kBarInit, {.args = {lanes::shared("bar"), 1}}), ins(Ins::kBarInitFence),
                ins(Ins::kBarExpect, {.args = {lanes::shared("bar")}, .bytes = bytes})};
  append(first, std::move(loads));
  const int steps = kDepthBytes / kStepBytes;
  const Val row = floor_div(tid(), 32) * 16 + floor_div(lane(), 4), quad = floor_mod(lane(), 4);
  Body body = {if_(equal(tid(), 0), std::move(first)), ins(Ins::kSyncThreads),
               ins(Ins::kBarWait, {.args = {lanes::shared("bar"), 0}}),
               decl_array(sum, "acc", shape.n / 2), decl_array(Ty::kU32, "frag", 4 * steps)};
  if (fragments)
    for (int step = 0; step < steps; ++step)
      for (int j = 0; j < 4; ++j) {
        const int per = 4 / a.size;
        const Val col = quad * per + step * (kStepBytes / a.size) + j / 2 * 4 * per;
        body.push_back(ins(Ins::kLdGlobal, {.results = {{"frag", 4 * step + j, 1}},
                                            .global = {"a", {row + 8 * (j % 2), col}, per},
                                            .dtype = shape.dtype}));
      }
  body.push_back(ins(Ins::kWgmmaFence));
  for (int step = 0; step < steps; ++step) {
    lanes::Instr i;
    i.ins = Ins::kWgmma;
    i.dtype = shape.dtype;
    i.n = shape.n;
    i.regs = {{"acc", 0, shape.n / 2}};
    i.args = {lanes::int_val(Ty::kU32, step > 0 ? 1 : 0)};
    if (!fragments) i.args.push_back(a.descriptor(step));
    i.args.push_back(b.descriptor(step));
    if (fragments) i.regs.push_back({"frag", 4 * step, 4});
    i.trans_a = a.layout.major == Major::kMn;
    i.trans_b = b.layout.major == Major::kMn;
    body.push_back(lanes::instr(std::move(i)));
  }
  append(body, {ins(Ins::kWgmmaCommit), ins(Ins::kWgmmaWait)});
  for (int i = 0; i < shape.n / 2; ++i)
    body.push_back(ins(Ins::kStGlobal,
                       {.regs = {{"acc", i, 1}},
                        .global = {"d", {row + 8 * (i / 2 % 2), quad * 2 + 8 * (i / 4) + i % 2}, 1},
                        .dtype = whole ? DType::kI32 : DType::kF32}));
  p.threads = 128;
  p.body = std::move(body);
  RT_RETURN_IF_ERROR(lanes::plan_shared(p));
  RT_RETURN_IF_ERROR(lanes::verify(p));
  return p;
}

TEST_P(EmulateProduct, IsTheSumOfProducts) {
  const Shape& shape = GetParam();
  const int size = size_bytes(shape.dtype), k = kDepthBytes / size;
  const Operand a{"a", shape.a, 64, k, size}, b{"b", shape.b, shape.n, k, size};
  const Result<Program> program = program_of(shape, a, b);
  ASSERT_TRUE(program.ok()) << program.diag().str();

  // Small integers: exact in every dtype and in every order of summing.
  std::mt19937 rng(7);
  const auto fill = [&](const Operand& o, std::vector<uint8_t>& bytes) {
    std::vector<int> values(static_cast<size_t>(o.rows * k));
    bytes.resize(static_cast<size_t>(o.rows * k * size));
    for (int r = 0; r < o.rows; ++r)
      for (int i = 0; i < k; ++i) {
        const int value = static_cast<int>(rng() % 7) - 3;
        values[static_cast<size_t>(r * k + i)] = value;
        const int64_t place =
            o.layout.major == Major::kMn ? int64_t{i} * o.rows + r : int64_t{r} * k + i;
        store_element(bytes.data(), shape.dtype, place, value);
      }
    return values;
  };
  std::vector<uint8_t> a_bytes, b_bytes;
  const std::vector<int> av = fill(a, a_bytes), bv = fill(b, b_bytes);
  std::vector<uint32_t> d(static_cast<size_t>(64 * shape.n));
  const bool whole = shape.dtype == DType::kI8;
  Launch launch;
  const auto dims = [&](const Operand& o) {
    return o.layout.major == Major::kMn ? std::vector<int64_t>{k, o.rows}
                                        : std::vector<int64_t>{o.rows, k};
  };
  launch.tensors["a"] = {a_bytes.data(), shape.dtype, dims(a), {}};
  launch.tensors["b"] = {b_bytes.data(), shape.dtype, dims(b), {}};
  launch.tensors["d"] = {d.data(), whole ? DType::kI32 : DType::kF32, {64, shape.n}, {}};
  launch.seed = 5;
  const Status status = run(*program, launch);
  ASSERT_TRUE(status.ok()) << status.str();
  int wrong = 0;
  for (int m = 0; m < 64; ++m)
    for (int n = 0; n < shape.n; ++n) {
      int sum = 0;
      for (int i = 0; i < k; ++i)
        sum += av[static_cast<size_t>(m * k + i)] * bv[static_cast<size_t>(n * k + i)];
      const uint32_t bits = d[static_cast<size_t>(m * shape.n + n)];
      wrong += (whole ? static_cast<double>(static_cast<int32_t>(bits))
                      : std::bit_cast<float>(bits)) != sum
                   ? 1
                   : 0;
    }
  EXPECT_EQ(wrong, 0);
}

std::vector<Shape> shapes() {
  std::vector<Shape> out;
  const Layout k128{Major::kK, Swizzle::k128}, mn128{Major::kMn, Swizzle::k128};
  for (const Swizzle s : {Swizzle::kNone, Swizzle::k32, Swizzle::k64, Swizzle::k128}) {
    out.push_back({DType::kBf16, 64, {Major::kK, s}, k128});
    out.push_back({DType::kBf16, 192, k128, {Major::kK, s}});
    out.push_back({DType::kF16, 64, {Major::kMn, s}, k128});
    out.push_back({DType::kBf16, 128, k128, {Major::kMn, s}});
    out.push_back({DType::kF8E4M3, 32, {Major::kK, s}, {Major::kK, s}});
    out.push_back({DType::kI8, 16, {Major::kK, s}, {Major::kK, s}});
  }
  out.push_back({DType::kBf16, 128, mn128, mn128});
  out.push_back({DType::kBf16, 256, {Major::kRegisters, Swizzle::kNone}, mn128});
  out.push_back({DType::kF8E5M2, 8, {Major::kRegisters, Swizzle::kNone}, k128});
  return out;
}

INSTANTIATE_TEST_SUITE_P(Layouts, EmulateProduct, ::testing::ValuesIn(shapes()));

}  // namespace
}  // namespace rooftile::emulate
