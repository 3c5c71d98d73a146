// SPDX-License-Identifier: Apache-2.0
// Rung 1 of the ladder for every operator: each tile program, run by the interpreter, computes what
// the operator's reference defines, on all smoke cases. In float64, where only the algorithm can be
// wrong, and in the declared dtypes, where its rounding must stay within the derived tolerance. The
// interpreter also refuses accesses out of bounds, races, and outputs that are not written.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "rooftile/check/case_inputs.h"
#include "rooftile/check/compare.h"
#include "rooftile/ir/interp.h"
#include "rooftile/ops/op_def.h"

namespace rooftile {
namespace {

using Numerics = ir::InterpOptions::Numerics;

constexpr uint64_t kSeed = 20261130;

struct Subject {
  const OpDef* op;
  const KernelDef* kernel;
};

std::vector<Subject> subjects() {
  std::vector<Subject> list;
  for (const OpDef& op : all_ops())
    for (const KernelDef& kernel : op.kernels)
      if (!kernel.is_raw()) list.push_back({&op, &kernel});
  return list;
}

std::string test_name(const testing::TestParamInfo<Subject>& info) {
  std::string name = info.param.op->name + "_" + info.param.kernel->name;
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  return name;
}

// The machine that the kernel is for; null: none for this call.
const TargetInfo* target_of(const Subject& subject, const RefCall& call) {
  for (const TargetInfo* target : {&host_target(), &sm90_target()})
    if (subject.kernel->takes(call.config, call.dims, *target)) return target;
  return nullptr;
}

// Sizes, integer attributes and tile parameters: what the program's expressions read.
Env program_env(const Subject& subject, const RefCall& call) {
  Env ints = call.dims;
  for (const AttrDef& attr : subject.op->attrs)
    if (!attr.is_float) ints[attr.name] = static_cast<int64_t>(call.attr(attr.name));
  for (const auto& [name, value] :
       subject.kernel->schedule(call.config, call.dims, *target_of(subject, call)).tile)
    ints[name] = value;
  return ints;
}

// The outputs of the program on the inputs of `call`; inputs in place.
Status run_program(const Subject& subject, const RefCall& call, Numerics numerics,
                   ir::InterpTensors& tensors) {
  auto program = subject.op->build(*subject.kernel, call.config);
  if (!program) return program.status();
  ir::FloatAttrs floats;
  for (const AttrDef& attr : subject.op->attrs)
    if (attr.is_float) floats[attr.name] = call.attr(attr.name);
  tensors = call.tensors;
  for (const ArgDef& arg : subject.op->args)
    if (arg.role == ir::Role::kOut) tensors.erase(arg.name);
  return ir::interpret(*program, program_env(subject, call), floats, tensors,
                       {.numerics = numerics});
}

void expect_meaning(const Subject& subject, const RefCall& inputs, const RefCall& expected,
                    Numerics numerics) {
  ir::InterpTensors results;
  Status status = run_program(subject, inputs, numerics, results);
  ASSERT_TRUE(status.ok()) << status.str();
  const Tolerance tolerance = subject.op->tolerance_fn(expected);
  for (const ArgDef& arg : subject.op->args) {
    if (arg.role == ir::Role::kIn || !inputs.config.has(arg.name)) continue;
    const NdArray& want = expected[arg.name];
    const check::Comparison c = check::compare(results[arg.name], want, tolerance);
    EXPECT_TRUE(c.pass) << arg.name << check::coordinate(c.first_bad, want.shape) << ": "
                        << c.reason << ", got " << c.got << ", reference " << c.want
                        << ", norm-wise error " << c.norm_err;
  }
}

class ProgramMeaning : public testing::TestWithParam<Subject> {};

TEST_P(ProgramMeaning, AgreesWithTheReferenceOnSmokeCases) {
  const Subject& subject = GetParam();
  int cases = 0;
  for (const Case& test_case : subject.op->case_list) {
    if (!test_case.tagged("smoke")) continue;
    SCOPED_TRACE(subject.op->name + " " + test_case.text);
    auto inputs = check::resolve_case(*subject.op, test_case);
    ASSERT_TRUE(inputs.ok()) << inputs.diag().str();
    if (target_of(subject, *inputs) == nullptr) continue;
    const Status made = check::make_inputs(*subject.op, *inputs, kSeed);
    ASSERT_TRUE(made.ok()) << made.str();
    RefCall expected = *inputs;
    subject.op->reference_fn(expected);
    expect_meaning(subject, *inputs, expected, Numerics::kFloat64);
    expect_meaning(subject, *inputs, expected, Numerics::kDeclared);
    ++cases;
  }
  EXPECT_GT(cases, 0) << "no smoke case reaches this kernel";
}

INSTANTIATE_TEST_SUITE_P(AllOps, ProgramMeaning, testing::ValuesIn(subjects()), test_name);

// Fusion is a promise: an operator that replaces others gives what they give.
TEST(FusedOperators, AgreeWithTheOperatorsTheyReplace) {
  int fused = 0;
  for (const OpDef& op : all_ops()) {
    if (!op.unfused_fn) continue;
    for (const Case& test_case : op.case_list) {
      if (!test_case.tagged("smoke")) continue;
      SCOPED_TRACE(op.name + " " + test_case.text);
      auto inputs = check::resolve_case(op, test_case);
      ASSERT_TRUE(inputs.ok()) << inputs.diag().str();
      ASSERT_TRUE(check::make_inputs(op, *inputs, kSeed).ok());
      RefCall whole = *inputs, parts = *inputs;
      op.reference_fn(whole);
      const Status ran = op.unfused_fn(parts);
      ASSERT_TRUE(ran.ok()) << ran.str();
      for (const ArgDef& arg : op.args)
        if (arg.role != ir::Role::kIn && inputs->config.has(arg.name)) {
          const check::Comparison c =
              check::compare(parts[arg.name], whole[arg.name], op.tolerance_fn(whole));
          EXPECT_TRUE(c.pass) << arg.name << ": " << c.reason << " " << c.got << " " << c.want;
        }
      ++fused;
    }
  }
  EXPECT_GT(fused, 0);
}

}  // namespace
}  // namespace rooftile
