// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <set>

#include "rooftile/lanes/lanes.h"
#include "rooftile/lanes/operands.h"

namespace rooftile::lanes {
namespace {

Val i() { return var(Ty::kI32, "i"); }
Val u() { return var(Ty::kU32, "u"); }
Val x() { return var(Ty::kF32, "x"); }

TEST(LanesValue, ReadsLikeC) {
  EXPECT_EQ(str((i() + 1) * 4 + special(Special::kLane)), "(i + 1) * 4 + lane");
  EXPECT_EQ(str(i() - (i() - 1)), "i - (i - 1)");
  EXPECT_EQ(str(shared("ring") + cast(Ty::kU32, i()) * 128), "&ring + u32(i) * 128u");
  EXPECT_EQ(str(select(i() < 3 && !(i() < 0), f32(1.5), x())), "i < 3 && 0 <= i ? 1.5f : x");
  EXPECT_EQ(str(elem(Ty::kF32, "acc", i() + 1) * f32(-0.5)), "acc[i + 1] * -0.5f");
  EXPECT_EQ(str(param(Ty::kI64, "x.s0") * cast(Ty::kI64, i())), "x.s0 * i64(i)");
  EXPECT_EQ(str(int_val(Ty::kU64, -1)), "18446744073709551615UL");
  EXPECT_EQ(str(fn(Fn::kNeg, {fn(Fn::kNeg, {i()})})), "--i");
}

TEST(LanesValue, DropsIntegerIdentities) {
  EXPECT_EQ(str(i() + 0), "i");
  EXPECT_EQ(str(0 + i()), "i");
  EXPECT_EQ(str(i() * 1), "i");
  EXPECT_EQ(str(i() * 0), "0");
  EXPECT_EQ(str(i() + 3 + 4), "i + 7");
  EXPECT_EQ(str(i() + 7 - 4), "i + 3");
  EXPECT_EQ(str(u() * 2 * 4), "u * 8u");
  EXPECT_EQ(str(select(pred(true), i(), i() + 1)), "i");
  EXPECT_EQ(str(cast(Ty::kI32, i())), "i");
  EXPECT_EQ(str(!(i() < 5)), "5 <= i");
}

TEST(LanesValue, DividesByPowersOfTwoWithShifts) {
  EXPECT_EQ(str(floor_div(i(), 8)), "i >> 3");
  EXPECT_EQ(str(floor_mod(i(), 8)), "i & 7");
  EXPECT_EQ(str(floor_div(i(), 1)), "i");
  EXPECT_EQ(str(floor_mod(i(), 1)), "0");
  EXPECT_EQ(str(floor_div(i(), 6)), "floordiv(i, 6)");
}

TEST(LanesValue, FoldsConstantsAsTheMachineWould) {
  EXPECT_TRUE(floor_div(-7, 2).is_int(-4));
  EXPECT_TRUE(floor_mod(-7, 2).is_int(1));
  EXPECT_TRUE(floor_div(7, 0).is_int(0));
  EXPECT_TRUE((int_val(Ty::kI32, INT32_MAX) + 1).is_int(INT32_MIN));
  EXPECT_TRUE((int_val(Ty::kU32, 0) - 1).is_int(UINT32_MAX));
  EXPECT_TRUE((int_val(Ty::kU32, -1) < 1).is_int(0)) << "unsigned";
  EXPECT_TRUE((Val(-1) < 1).is_int(1));
  EXPECT_TRUE(fn(Fn::kShr, {-8, 1}).is_int(-4));
  EXPECT_TRUE(fn(Fn::kShr, {int_val(Ty::kU32, -8), 1}).is_int(0x7ffffffc));
  EXPECT_TRUE(cast(Ty::kI64, int_val(Ty::kU32, -1)).is_int(UINT32_MAX)) << "by the sign of u32";
  EXPECT_TRUE(cast(Ty::kI64, int_val(Ty::kI32, -1)).is_int(-1));
  EXPECT_TRUE(fn(Fn::kBits, Ty::kU32, {f32(1)}).is_int(0x3f800000));
}

TEST(LanesValue, NeverReassociatesFloats) {
  EXPECT_EQ(str(x() + f32(1) + f32(2)), "x + 1.0f + 2.0f");
  EXPECT_EQ(str(x() + f32(0)), "x + 0.0f") << "-0 + 0 is +0";
  EXPECT_EQ(str(x() * f32(0)), "x * 0.0f");
  EXPECT_EQ(str(x() * f32(1)), "x");
  EXPECT_EQ(str(!(x() < f32(1))), "!(x < 1.0f)") << "a NaN is neither below nor above";
}

TEST(LanesValue, ConstantsTakeTheTypeOfTheOtherOperand) {
  EXPECT_EQ((u() + 1).type(), Ty::kU32);
  EXPECT_EQ((1 + u()).type(), Ty::kU32);
  EXPECT_EQ(select(i() < 1, 1, u()).type(), Ty::kU32);
  EXPECT_EQ((u() < 1).type(), Ty::kPred);
  EXPECT_EQ(str(u() < 1), "u < 1u");
  EXPECT_EQ(fn(Fn::kMatrixDesc, {u(), 16, 1024, 3}).type(), Ty::kU64);
}

// A forgotten row of a table would give an operation the rule of f32 functions.
TEST(LanesValue, EveryPureOperationHasItsOwnName) {
  std::set<std::string_view> names;
  for (int f = 0; f <= static_cast<int>(Fn::kMatrixDesc); ++f) {
    const FnInfo& info = fn_info(static_cast<Fn>(f));
    EXPECT_EQ(info.fn, static_cast<Fn>(f));
    EXPECT_TRUE(names.insert(info.name).second) << info.name;
  }
}

TEST(LanesOperands, RawRegistersFollowTheBytes) {
  EXPECT_EQ(raw_regs(DType::kBf16, 8).count, 4);
  EXPECT_EQ(raw_regs(DType::kBf16, 8).type, Ty::kU32);
  EXPECT_EQ(raw_regs(DType::kF32, 4).type, Ty::kF32);
  EXPECT_EQ(raw_regs(DType::kI64, 1).type, Ty::kI64);
  EXPECT_EQ(raw_regs(DType::kI64, 2).count, 4);
  EXPECT_EQ(raw_regs(DType::kI8, 1).type, Ty::kI32) << "extended by its sign";
  EXPECT_EQ(raw_regs(DType::kBf16, 3).count, 0) << "6 bytes";
  EXPECT_EQ(raw_regs(DType::kF32, 8).count, 0) << "32 bytes";
}

}  // namespace
}  // namespace rooftile::lanes
