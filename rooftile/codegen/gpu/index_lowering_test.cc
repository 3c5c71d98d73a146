// SPDX-License-Identifier: Apache-2.0
#include "rooftile/codegen/gpu/index_lowering.h"

#include <gtest/gtest.h>

namespace rooftile::codegen {
namespace {

using lanes::Ty;
using lanes::Val;

ir::Program subject() {
  ir::Program p;
  p.name = "subject";
  ir::TensorParam table;
  table.name = "table";
  table.dtype = DType::kI32;
  table.shape = {Expr::sym("M")};
  ir::TensorParam wide = table;
  wide.name = "wide";
  wide.dtype = DType::kI64;
  p.tensors = {table, wide};
  ir::ScalarParam seed;
  seed.name = "seed";
  seed.is_float = false;
  p.scalars = {seed};
  return p;
}

Expr sym(const char* name) { return Expr::sym(name); }

TEST(IndexLowering, DimsAreNarrowAttributesAndWideTablesAreNot) {
  const ir::Program p = subject();
  IndexLowering index(p);
  lanes::Body body;
  EXPECT_EQ(index.number(sym("M") + 1, body).type(), Ty::kI32);
  EXPECT_EQ(index.number(sym("seed") + sym("M"), body).type(), Ty::kI64);
  EXPECT_EQ(index.number(Expr::index_load("wide", {0}), body).type(), Ty::kI64);
  EXPECT_EQ(index.number(Expr::index_load("table", {0}), body).type(), Ty::kI32);
}

// The product of two sizes may pass 2^31; that of a size and a block does not.
TEST(IndexLowering, ProductsOfSizesAreWide) {
  const ir::Program p = subject();
  IndexLowering index(p);
  lanes::Body body;
  EXPECT_EQ(index.number(sym("M") * sym("N"), body).type(), Ty::kI64);
  EXPECT_EQ(index.number(sym("M") * 64, body).type(), Ty::kI32);
  EXPECT_TRUE(body.empty());
}

TEST(IndexLowering, BoundSymbolsAreRegistersOthersParameters) {
  const ir::Program p = subject();
  IndexLowering index(p);
  index.bind("i", lanes::var(Ty::kI32, "i_1"));
  lanes::Body body;
  EXPECT_EQ(lanes::str(index.number(sym("i") + sym("M"), body)), "i_1 + M");
}

TEST(IndexLowering, ComparisonsAreConditionsAndNumbers) {
  const ir::Program p = subject();
  IndexLowering index(p);
  lanes::Body body;
  EXPECT_EQ(index.condition(sym("M") < sym("N"), body).type(), Ty::kPred);
  EXPECT_EQ(index.number(sym("M") < sym("N"), body).type(), Ty::kI32);
  EXPECT_EQ(index.condition(sym("M"), body).type(), Ty::kPred);
}

TEST(IndexLowering, AnElementIsLoadedOnceAScope) {
  const ir::Program p = subject();
  IndexLowering index(p);
  const Expr element = Expr::index_load("table", {sym("M") - 1});
  lanes::Body outer, inner;
  index.push_scope();
  index.number(element, outer);
  index.number(element + 1, outer);
  EXPECT_EQ(outer.size(), 2u);  // its register and one load
  index.push_scope();
  index.number(element, inner);
  EXPECT_TRUE(inner.empty());
  index.number(Expr::index_load("table", {0}), inner);
  index.pop_scope();
  index.number(Expr::index_load("table", {0}), outer);  // what the scope loaded is gone with it
  EXPECT_EQ(outer.size(), 4u);
}

// What an expression would not read is not read: it may lie outside the tensor.
TEST(IndexLowering, ElementsBehindAConditionAreLoadedUnderIt) {
  const ir::Program p = subject();
  IndexLowering index(p);
  index.push_scope();
  const Expr guarded = select(sym("i") < sym("M"), Expr::index_load("table", {sym("i")}), 0);
  lanes::Body body;
  index.number(guarded, body);
  ASSERT_EQ(body.size(), 2u);
  EXPECT_EQ(lanes::str(body[1].instr.guard), "i < M");
  EXPECT_TRUE(body[0].value.is_int(0));  // what the register holds where nothing is loaded
  index.number(Expr::index_load("table", {sym("i")}), body);
  EXPECT_EQ(body.size(), 4u) << "a value loaded under a condition serves only under it";
}

TEST(IndexLowering, NamesAreUnique) {
  const ir::Program p = subject();
  IndexLowering index(p);
  EXPECT_EQ(index.unique("row"), "row");
  EXPECT_EQ(index.unique("row_1"), "row_1");
  const std::string second = index.unique("row"), third = index.unique("row");
  EXPECT_NE(second, "row_1");
  EXPECT_NE(second, third);
}

}  // namespace
}  // namespace rooftile::codegen
