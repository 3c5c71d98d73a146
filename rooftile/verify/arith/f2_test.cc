// SPDX-License-Identifier: Apache-2.0
#include "rooftile/verify/arith/f2.h"

#include <gtest/gtest.h>

#include <random>

namespace rooftile::verify {
namespace {

// The 128-byte swizzle: bits 7..9 of the address go into bits 4..6.
uint64_t swizzle128(uint64_t a) { return a ^ ((a >> 7 & 7) << 4); }

TEST(F2Map, SwizzleIsABijection) {
  const auto map = F2Map::of(16, swizzle128);
  ASSERT_TRUE(map);
  EXPECT_TRUE(map->is_injective());
  EXPECT_EQ(map->kernel(), std::nullopt);
  for (uint64_t a : {0x0ULL, 0x7fULL, 0x1234ULL, 0xffffULL}) EXPECT_EQ((*map)(a), swizzle128(a));
  const auto twice = map->after(*map);  // its own inverse
  EXPECT_EQ(twice(0xbeef), 0xbeefU);
}

TEST(F2Map, BrokenSwizzleCollides) {
  // The source bits overlap the target: 0x40 and 0 collide, as a solver found, too.
  const auto broken = F2Map::of(16, [](uint64_t a) { return a ^ ((a >> 4 & 7) << 4); });
  ASSERT_TRUE(broken);
  const auto x = broken->kernel();
  ASSERT_TRUE(x);
  EXPECT_NE(*x, 0U);
  EXPECT_EQ((*broken)(*x), 0U);
  EXPECT_EQ(broken->rank(), 13);
}

TEST(F2Map, WhatIsNotLinearIsSeen) {
  EXPECT_FALSE(F2Map::of(8, [](uint64_t a) { return a + (a >> 4); }));
  EXPECT_FALSE(F2Map::of(8, [](uint64_t a) { return a ^ 1; }));
}

TEST(F2Map, AgreesWithEnumeration) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 200; ++round) {
    std::vector<uint64_t> columns(1 + random() % 7);
    for (uint64_t& c : columns) c = random() % 128;
    const F2Map map(columns);
    const int64_t n = int64_t{1} << map.inputs();
    const auto scan = find_collision({n}, [&](const std::vector<int64_t>& at) {
      return static_cast<int64_t>(map(static_cast<uint64_t>(at[0])));
    });
    ASSERT_TRUE(scan.complete);
    EXPECT_EQ(map.is_injective(), !scan.collision);
    EXPECT_EQ(map.kernel().has_value(), scan.collision.has_value());
    for (uint64_t y = 0; y < 128; ++y) {
      std::optional<uint64_t> least;
      for (int64_t x = 0; x < n && !least; ++x)
        if (map(static_cast<uint64_t>(x)) == y) least = static_cast<uint64_t>(x);
      EXPECT_EQ(map.solve(y), least);
    }
  }
}

TEST(FindCollision, NamesBothPoints) {
  const auto scan = find_collision({3, 4}, [](const auto& at) { return at[0] * 3 + at[1]; });
  ASSERT_TRUE(scan.collision);
  EXPECT_EQ(scan.collision->first, (std::vector<int64_t>{0, 3}));
  EXPECT_EQ(scan.collision->second, (std::vector<int64_t>{1, 0}));
  EXPECT_EQ(scan.collision->value, 3);
  EXPECT_FALSE(find_collision({3, 4}, [](const auto& at) { return at[0] * 4 + at[1]; }).collision);
  EXPECT_FALSE(find_collision(
                   {64, 64}, [](const auto& at) { return at[0] * 64 + at[1]; }, 100)
                   .complete);
  EXPECT_TRUE(find_collision({3, 0}, [](const auto&) { return 0; }).complete);
}

}  // namespace
}  // namespace rooftile::verify
