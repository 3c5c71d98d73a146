// SPDX-License-Identifier: Apache-2.0
// One broken program for each rule of the verifier. Programs are written in the text form and,
// where the parser could not even read the fault, broken afterwards.
#include <gtest/gtest.h>

#include <functional>

#include "rooftile/ir/ir.h"

namespace rooftile::ir {
namespace {

const std::string kHead =
    "program p\n"
    "tensor y : f32[N, K] out align 4 unit\n"
    "tensor x : f32[N, K] in align 4 unit\n"
    "tensor z : bf16[N, K] inout align 2 unit\n"
    "tensor ids : i32[N] in align 4 unit\n"
    "tensor w : f32[N] workspace align 64\n"
    "scalar eps : float\n"
    "scalar n : int\n";

std::string in_tiles(const std::string& body) {
  return kHead + "%0 tiles i = N {\n" + body + "}\n";
}

struct Broken {
  const char* name;
  std::string text;
  const char* message;
};

const std::vector<Broken>& broken_programs() {
  static const std::vector<Broken> list = {
      // declarations
      {"TwoTensorsOfOneName", kHead + "tensor x : f32[N] in align 4\n", "two declarations of `x`"},
      {"ScalarNamedAsTensor", kHead + "scalar x : int\n", "two declarations of `x`"},
      {"ParamNamedAsDim", kHead + "param N\n",
       "tile parameter `N` has the name of a dim or attribute"},
      {"UnboundDim", kHead + "tensor v : f32[N * Q] in align 4\n",
       "symbol `Q` in the extent of `v` is bound by nothing"},
      {"AliasOfNothing", kHead + "tensor v : f32[N] in align 4 alias none\n",
       "`v` may alias a tensor that does not exist"},
      {"ClauseAboutFloats", kHead + "non_decreasing x \"why\"\n", "a clause is about `x`"},
      {"DistinctMatrix", kHead + "tensor v : i32[N, N] in align 4\ndistinct v except -1 \"why\"\n",
       "a clause asks for distinct values of `v`"},
      {"UnboundClause", kHead + "needs Q > 0 \"why\"\n",
       "symbol `Q` in the clause is bound by nothing"},
      // order and scope
      {"UseBeforeDefinition", in_tiles("%1 = neg %2 : f32[]\n%2 = fill 1 : f32[]\n"),
       "use of a value that is not visible here"},
      {"UseAfterScope",
       in_tiles("%1 loop j = 0 to 4 step 1 {\n%2 = fill 1 : f32[]\n}\n%3 = neg %2 : f32[]\n"),
       "use of a value that is not visible here"},
      {"UseOfNothing", in_tiles("%1 = neg %9 : f32[]\n"), "use of a value that does not exist"},
      {"CarriedOutsideItsLoop",
       in_tiles("%1 = fill 1 : f32[]\n%2 loop j = 0 to 4 step 1 carry %1 {\nyield %1\n}\n%3 = "
                "carried 0 of %2 : f32[]\n"),
       "carried value outside its loop"},
      {"TwoLabels", in_tiles("%1 = fill 1 : f32[] \"a\"\n%2 = fill 1 : f32[] \"a\"\n"),
       "two nodes are labelled `a`"},
      {"IndexHidesDim", kHead + "%0 tiles N = 4 {\n}\n", "index `N` hides another symbol"},
      {"LoopHidesIndex", in_tiles("%1 loop i = 0 to 4 step 1 {\n}\n"),
       "index `i` hides another symbol"},
      {"UnboundSymbol", in_tiles("%1 = index Q : i64[]\n"),
       "symbol `Q` in the expression is bound by nothing"},
      {"IndexOutsideItsRegion", in_tiles("%1 loop j = 0 to 4 step 1 {\n}\n%2 = index j : i64[]\n"),
       "symbol `j` in the expression is bound by nothing"},
      {"IndexLoadOfFloats", in_tiles("%1 = index x[0, 0] : i64[]\n"),
       "index load from `x` in the expression"},
      {"IndexLoadOfWrongRank", in_tiles("%1 = index ids[0, 0] : i64[]\n"),
       "index load from `ids` has the wrong number of indices"},
      {"IndexLoadOfUnwrittenWorkspace",
       kHead +
           "tensor o : i32[N] workspace align 64\n%0 tiles i = N {\n%1 = index o[i] : i64[]\n}\n",
       "workspace `o` is read before it is written"},
      // levels and phases
      {"NestedTiles", in_tiles("%1 tiles j = 4 {\n}\n"), "parallel space inside another region"},
      {"LoadAtTopLevel", kHead + "%0 = load x[0, 0] : f32[]\n",
       "the top level holds parallel spaces and scalars only"},
      {"LoopAtTopLevel", kHead + "%0 loop j = 0 to 4 step 1 {\n}\n",
       "the top level holds parallel spaces and scalars only"},
      {"WorkspaceReadFirst", in_tiles("%1 = load w[i] : f32[]\n"),
       "workspace `w` is read before it is written"},
      {"OutputReadFirst", in_tiles("%1 = load y[i, 0] : f32[]\n"),
       "out `y` is read before it is written"},
      // sources
      {"UnknownAttribute", in_tiles("%1 = scalar n : f32[]\n"), "no float attribute is called `n`"},
      {"ScalarType", in_tiles("%1 = scalar eps : f32[4]\n"), "result type is wrong"},
      {"IndexType", in_tiles("%1 = index i : i32[]\n"), "result type is wrong"},
      {"IotaType", in_tiles("%1 = iota 0 axis 0 : f32[4]\n"), "result type is wrong"},
      {"IotaAxis", in_tiles("%1 = iota 0 axis 1 : i32[4]\n"), "axis is out of range"},
      {"ResultOfNoLoop", in_tiles("%1 = fill 1 : f32[]\n%2 = result 0 of %1 : f32[]\n"),
       "operand is not a loop"},
      {"ResultOfNoIndex", in_tiles("%1 loop j = 0 to 4 step 1 {\n}\n%2 = result 0 of %1 : f32[]\n"),
       "the loop has no such carried value"},
      {"RankFive", in_tiles("%1 = fill 1 : f32[1, 1, 1, 1, 1]\n"), "tile of rank above 4"},
      // movement
      {"LoadOfNothing", in_tiles("%1 = load v[0] : f32[]\n"), "no tensor is called `v`"},
      {"LoadOfWrongRank", in_tiles("%1 = load x[0] : f32[]\n"),
       "`x` is indexed with the wrong number of dimensions"},
      {"LoadType", in_tiles("%1 = load x[0, 0:+K => 0] : f32[N]\n"), "result type is wrong"},
      {"TileAxisTooHigh", in_tiles("%1 = load x[0, 0:+K => 1] : f32[K]\n"),
       "tile axis is out of range"},
      {"TwoRangesOneAxis", in_tiles("%1 = load x[0:+4 => 0, 0:+4 => 0] : f32[4]\n"),
       "two dimensions of `x` walk the same tile axis"},
      {"StepZero", in_tiles("%1 = load x[0, 0:+4 step 0 => 0] : f32[4]\n"),
       "dimension 1 of `x` has a step below 1"},
      {"NegativeExtent", in_tiles("%1 = load x[0, 0:+-4 => 0] : f32[-4]\n"),
       "dimension 1 of `x` has a negative extent"},
      {"IndexTileOfFloats", in_tiles("%1 = fill 1 : f32[4]\n%2 = load x[%1 => 0, 0] : f32[4]\n"),
       "dimension 0 of `x` is indexed by a tile that is not a list of integers"},
      {"IndexTilesOfTwoLengths",
       in_tiles("%1 = iota 0 axis 0 : i32[4]\n%2 = iota 0 axis 0 : i32[5]\n%3 = load x[%1 => 0, %2 "
                "=> 0] : f32[4]\n"),
       "index tiles of `x` differ in length"},
      {"StoreToInput", in_tiles("%1 = fill 1 : f32[]\n%2 = store x[0, 0], %1\n"),
       "store to the input `x`"},
      {"StoreType", in_tiles("%1 = fill 1 : f32[]\n%2 = store z[0, 0], %1\n"),
       "stored tile and region of `z` differ in type"},
      {"StoreShape", in_tiles("%1 = fill 1 : f32[4]\n%2 = store y[0, 0:+K => 0], %1\n"),
       "stored tile and region of `y` differ in type"},
      {"StoreAddOfNarrow", in_tiles("%1 = fill 1 : bf16[]\n%2 = store_add z[0, 0], %1\n"),
       "store_add to `z`"},
      // compute
      {"Arity", in_tiles("%1 = fill 1 : f32[]\n%2 = add %1 : f32[]\n"),
       "`add` has the wrong number of operands"},
      {"OperandCount", in_tiles("%1 = fill 1 : f32[]\n%2 = cast %1, %1 : f32[]\n"),
       "wrong number of operands"},
      {"NarrowArithmetic", in_tiles("%1 = fill 1 : bf16[]\n%2 = add %1, %1 : bf16[]\n"),
       "`add` does not take these dtypes"},
      {"MixedDtypes",
       in_tiles("%1 = fill 1 : f32[]\n%2 = fill 1 : i32[]\n%3 = add %1, %2 : f32[]\n"),
       "`add` does not take these dtypes"},
      {"BitsOfFloats", in_tiles("%1 = fill 1 : f32[]\n%2 = xor %1, %1 : f32[]\n"),
       "`xor` does not take these dtypes"},
      {"CompareType", in_tiles("%1 = fill 1 : f32[]\n%2 = lt %1, %1 : f32[]\n"),
       "result type is wrong"},
      {"NoBroadcast",
       in_tiles("%1 = fill 1 : f32[4]\n%2 = fill 1 : f32[5]\n%3 = add %1, %2 : f32[4]\n"),
       "operands do not broadcast"},
      {"SelectCondition", in_tiles("%1 = fill 1 : f32[]\n%2 = select %1, %1, %1 : f32[]\n"),
       "condition of select is not bool"},
      {"SelectValues",
       in_tiles("%1 = fill 1 : bool[]\n%2 = fill 1 : f32[]\n%3 = fill 1 : i32[]\n%4 = select %1, "
                "%2, %3 : f32[]\n"),
       "values of select differ in dtype or are narrow floats"},
      {"CastShape", in_tiles("%1 = fill 1 : f32[4]\n%2 = cast %1 : bf16[5]\n"),
       "result type is wrong"},
      {"ReduceAxis", in_tiles("%1 = fill 1 : f32[4]\n%2 = reduce sum %1 axis 1 : f32[1]\n"),
       "axis is out of range"},
      {"ReduceOfNarrow", in_tiles("%1 = fill 1 : bf16[4]\n%2 = reduce sum %1 axis 0 : bf16[1]\n"),
       "operand has no arithmetic"},
      {"ReduceDropsAxis", in_tiles("%1 = fill 1 : f32[4]\n%2 = reduce sum %1 axis 0 : f32[]\n"),
       "result type is wrong"},
      {"ArgMaxType", in_tiles("%1 = fill 1 : f32[4]\n%2 = reduce argmax %1 axis 0 : f32[1]\n"),
       "result type is wrong"},
      {"ScanKind", in_tiles("%1 = fill 1 : f32[4]\n%2 = scan min %1 axis 0 : f32[4]\n"),
       "scan of this kind does not exist"},
      {"MmaInner",
       in_tiles("%1 = fill 1 : f32[4, 4]\n%2 = fill 1 : f32[5, 4]\n%3 = mma %1, %2 : f32[4, 4]\n"),
       "operands do not form a product"},
      {"MmaDtypes",
       in_tiles("%1 = fill 1 : bf16[4, 4]\n%2 = fill 1 : f16[4, 4]\n%3 = mma %1, %2 : f32[4, 4]\n"),
       "operands do not form a product"},
      {"MmaAccumulator",
       in_tiles(
           "%1 = fill 1 : f32[4, 4]\n%2 = fill 1 : f32[4, 5]\n%3 = mma %1, %1, %2 : f32[4, 4]\n"),
       "accumulator and product differ in type"},
      {"TransposeRank", in_tiles("%1 = fill 1 : f32[4]\n%2 = transpose %1 : f32[4]\n"),
       "transpose of a tile that is not a matrix"},
      {"PhiloxCounter",
       in_tiles("%1 = index 0 : i64[]\n%2 = fill 1 : u32[4]\n%3 = philox %2, %1, %1 : u32[4]\n"),
       "counter is not i32 or i64"},
      {"PhiloxSeed",
       in_tiles("%1 = index 0 : i64[]\n%2 = fill 1 : i32[4]\n%3 = philox %2, %2, %1 : u32[4]\n"),
       "seed and offset are not rank-0 i64"},
      {"OperandWithoutValue", in_tiles("%1 loop j = 0 to 4 step 1 {\n}\n%2 = neg %1 : f32[]\n"),
       "operand has no value"},
      // regions
      {"LoopStep", in_tiles("%1 loop j = 0 to 4 step 0 {\n}\n"), "loop step is below 1"},
      {"MissingYield", in_tiles("%1 = fill 1 : f32[]\n%2 loop j = 0 to 4 step 1 carry %1 {\n}\n"),
       "loop yields another number of values than it carries"},
      {"YieldType",
       in_tiles("%1 = fill 1 : f32[]\n%2 = fill 1 : i32[]\n%3 loop j = 0 to 4 step 1 carry %1 "
                "{\nyield %2\n}\n"),
       "loop changes the type of carried value 0"},
      {"YieldOfNothing",
       in_tiles("%1 = fill 1 : f32[]\n%2 loop j = 0 to 4 step 1 carry %1 {\nyield %9\n}\n"),
       "loop yields a value that does not exist"},
      {"WhenYields", in_tiles("%1 = fill 1 : f32[]\n%2 when i > 0 {\nyield %1\n}\n"),
       "a conditional yields values"},
      {"TilesYield", kHead + "%0 tiles i = 4 {\n%1 = fill 1 : f32[]\nyield %1\n}\n",
       "a parallel space yields values"},
  };
  return list;
}

class VerifyRule : public ::testing::TestWithParam<size_t> {};

TEST_P(VerifyRule, Refuses) {
  const Broken& broken = broken_programs()[GetParam()];
  Result<Program> program = parse(broken.text);
  ASSERT_FALSE(program.ok()) << broken.text;
  EXPECT_EQ(program.diag().message, broken.message) << program.diag().str();
  EXPECT_EQ(program.diag().subject, "p");
}

INSTANTIATE_TEST_SUITE_P(Rules, VerifyRule, ::testing::Range(size_t{0}, broken_programs().size()),
                         [](const auto& param_info) {
                           return broken_programs()[param_info.param].name;
                         });

// Faults that the text form cannot express.
TEST(Verify, RefusesBrokenLists) {
  Result<Program> good = parse(in_tiles("%1 = fill 1 : f32[]\n%2 = neg %1 : f32[]\n"));
  ASSERT_TRUE(good.ok()) << good.diag().str();

  Program twice = *good;
  twice.node(0).block.nodes.push_back(1);
  EXPECT_EQ(verify(twice).diag().message, "node stands in two places");

  Program dropped = *good;
  dropped.node(0).block.nodes.pop_back();
  EXPECT_EQ(verify(dropped).diag().message, "node stands in no block");

  Program misnumbered = *good;
  misnumbered.node(2).id = 1;
  EXPECT_EQ(verify(misnumbered).diag().message, "block holds a node that does not exist");

  Program uneven = *good;
  uneven.node(0).vars.pop_back();
  EXPECT_EQ(verify(uneven).diag().message, "parallel space needs an extent for each index");
}

TEST(Verify, AcceptsScalarsAtTheTopLevelAndReadsAfterWrites) {
  Result<Program> program =
      parse(kHead +
            "%0 = scalar eps : f32[]\n"
            "%1 = neg %0 : f32[]\n"
            "%2 tiles i = N {\n%3 = store w[i], %1\n}\n"
            "%4 tiles i = N {\n%5 = load w[i] : f32[]\n%6 = load x[i, 0:+K => 1] : f32[1, K]\n}\n");
  EXPECT_TRUE(program.ok()) << program.diag().str();
}

}  // namespace
}  // namespace rooftile::ir
