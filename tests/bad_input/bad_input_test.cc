// SPDX-License-Identifier: Apache-2.0
// Bad input, over every operator of the library: each violation that violations.h derives from the
// contract gets the right code and a text that names the operator and the argument, leaves every
// output and every guard byte as it was, and does not keep a correct call from working afterwards.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "rooftile/api.h"
#include "rooftile/check/case_inputs.h"
#include "tests/bad_input/violations.h"

namespace rooftile::bad_input {
namespace {

using ::testing::HasSubstr;

constexpr size_t kCasesPerOp = 2;
constexpr int64_t kMaxElements =
    1 << 18;  // of all tensors of a case together: these tests are about contracts

// A few small cases of an operator, of different configs where there are.
std::vector<Call> correct_calls(const OpDef& op) {
  std::vector<Call> calls;
  std::set<std::string> configs;
  for (const Case& test_case : op.case_list) {
    if (calls.size() == kCasesPerOp) break;
    Result<RefCall> ref = check::resolve_case(op, test_case);
    if (!ref.ok() || configs.count(ref->config.str()) > 0) continue;
    int64_t elements = 0, smallest = kMaxElements;
    for (const ArgDef& arg : op.args) {
      if (!ref->config.has(arg.name)) continue;
      Result<std::vector<int64_t>> shape = check::shape_of(op, arg, *ref);
      int64_t count = shape.ok() ? 1 : 0;
      for (int64_t extent : shape.ok() ? *shape : std::vector<int64_t>()) count *= extent;
      elements += count;
      smallest = std::min(smallest, count);
    }
    if (elements > kMaxElements || smallest == 0) continue;
    if (!check::make_inputs(op, *ref, 7).ok()) continue;
    configs.insert(ref->config.str());
    calls.push_back(fresh_call(op, *ref));
  }
  return calls;
}

std::vector<std::string> op_names() {
  std::vector<std::string> names;
  for (const OpDef& op : all_ops()) names.push_back(op.name);
  return names;
}

std::string code_list(const std::set<ErrorCode>& codes) {
  std::string out;
  for (ErrorCode code : codes) out += (out.empty() ? "" : " or ") + std::string(code_text(code));
  return out;
}

using Bytes = std::vector<std::vector<std::byte>>;
Bytes contents(const Call& call) {
  Bytes bytes;
  for (const check::HostTensor& tensor : call.memory) bytes.push_back(tensor.elements());
  return bytes;
}

void expect_refused(const Status& status, const std::string& op, const std::set<ErrorCode>& codes,
                    const std::set<std::string>& arguments) {
  ASSERT_FALSE(status.ok()) << "accepted";
  const Diag& diag = status.diag();
  EXPECT_EQ(codes.count(diag.code), 1u) << "expected " << code_list(codes) << "\n" << status.str();
  EXPECT_EQ(diag.subject, op) << status.str();
  EXPECT_FALSE(diag.message.empty()) << status.str();
  if (arguments.empty()) return;
  EXPECT_EQ(arguments.count(diag.argument), 1u) << "names the wrong argument\n" << status.str();
  EXPECT_THAT(status.str(), HasSubstr(diag.argument));
}

void expect_untouched(const Call& call, const Bytes& before) {
  const Bytes after = contents(call);
  for (size_t i = 0; i < after.size(); ++i) {
    if (!call.ref.config.has(call.op->args[i].name)) continue;
    EXPECT_TRUE(after[i] == before[i]) << "`" << call.op->args[i].name << "` was written";
    EXPECT_EQ(call.memory[i].guard_damage().value_or(""), "");
  }
}

class BadInput : public ::testing::TestWithParam<std::string> {
 protected:
  const OpDef& op = *find_op(GetParam());
  const std::vector<Call> correct = correct_calls(op);
  void SetUp() override { ASSERT_FALSE(correct.empty()) << "no small case in the operator's list"; }
};

TEST_P(BadInput, EveryViolationIsRefusedAndNothingWritten) {
  size_t count = 0;
  for (const Call& example : correct) {
    SCOPED_TRACE(example.ref.config.str());
    Call first = fresh_call(op, example.ref);
    ASSERT_EQ(rooftile::call(op, first.args()).str(), "ok");
    for (const Violation& violation : violations(example)) {
      SCOPED_TRACE(violation.name);
      Call call = fresh_call(op, example.ref);
      violation.apply(call);
      const Bytes before = contents(call);
      expect_refused(rooftile::call(op, call.args()), op.name, violation.codes,
                     violation.arguments);
      expect_untouched(call, before);
      ++count;
    }
    Call last = fresh_call(op, example.ref);
    ASSERT_EQ(rooftile::call(op, last.args()).str(), "ok");
    EXPECT_TRUE(contents(last) == contents(first)) << "the result of a correct call changed";
  }
  std::printf("%s: %zu violations\n", op.name.c_str(), count);
}

// What a caller that is not C++ can get wrong: arguments of the wrong kind and number.
TEST_P(BadInput, ForeignCallsAreRefusedAndNothingWritten) {
  Call call = fresh_call(op, correct.front().ref);
  Result<std::shared_ptr<const CompiledKernel>> kernel = kernel_for(op, call.args());
  ASSERT_TRUE(kernel.ok()) << kernel.diag().str();
  std::vector<DLTensor> tensors;
  std::vector<std::string> names;
  for (size_t i = 0; i < op.args.size(); ++i) {
    if (!call.ref.config.has(op.args[i].name)) continue;
    TensorView& view = call.tensors[i];
    const DTypeInfo& dtype = info(view.dtype);
    tensors.push_back({view.data,
                       {1, 0},
                       view.rank,
                       {dtype.dlpack_code, dtype.dlpack_bits, 1},
                       view.shape.data(),
                       nullptr,
                       0});
    names.push_back(op.args[i].name);
  }
  std::vector<TVMFFIAny> args(tensors.size() + op.attrs.size());
  for (size_t i = 0; i < args.size(); ++i) {
    args[i] = {};
    if (i < tensors.size()) {
      args[i].type_index = abi::kDLTensorPtr;
      args[i].v_ptr = &tensors[i];
    } else if (const Scalar& scalar = call.attrs[i - tensors.size()]; scalar.is_float) {
      args[i].type_index = abi::kFloat;
      args[i].v_float64 = scalar.number;
    } else {
      args[i].type_index = abi::kInt;
      args[i].v_int64 = scalar.integer;
    }
  }
  const Bytes before = contents(call);
  auto refused = [&](std::span<const TVMFFIAny> given, ErrorCode code,
                     const std::set<std::string>& arguments) {
    expect_refused(invoke((*kernel)->launch, given), op.name, {code}, arguments);
    expect_untouched(call, before);
  };
  refused(std::span(args).first(args.size() - 1), ErrorCode::kArgCount, {});
  refused({}, ErrorCode::kArgCount, {});
  std::vector<TVMFFIAny> more = args;
  more.push_back(args.back());
  refused(more, ErrorCode::kArgCount, {});
  for (size_t i = 0; i < args.size(); ++i) {
    constexpr int32_t kString = 65;
    const std::string& name = i < tensors.size() ? names[i] : op.attrs[i - tensors.size()].name;
    std::vector<TVMFFIAny> wrong = args;
    for (int32_t kind : {int32_t{abi::kNone}, kString}) {
      wrong[i].type_index = kind;
      refused(wrong, ErrorCode::kArgKind, {name});
    }
    if (i >= tensors.size()) continue;
    wrong[i] = args[i];
    wrong[i].v_ptr = nullptr;
    refused(wrong, ErrorCode::kArgKind, {name});
    tensors[i].dtype.lanes = 4;
    refused(args, ErrorCode::kDType, {name});
    tensors[i].dtype.lanes = 1;
    ++tensors[i].ndim;
    refused(args, ErrorCode::kRank, {name});
    --tensors[i].ndim;
    tensors[i].ndim = -tensors[i].ndim;
    if (tensors[i].ndim != 0) refused(args, ErrorCode::kRank, {name});
    tensors[i].ndim = -tensors[i].ndim;
  }
  EXPECT_EQ(invoke((*kernel)->launch, args).str(), "ok");
}

// The reference route checks the same contract.
TEST_P(BadInput, ReferenceRouteRefusesToo) {
  const CallOptions reference = {.route = Route::kReference};
  size_t output = 0;
  while (op.args[output].role == ir::Role::kIn) ++output;
  for (int what = 0; what < 3; ++what) {
    Call call = fresh_call(op, correct.front().ref);
    TensorView& view = call.tensors[output];
    ErrorCode code = ErrorCode::kNullPointer;
    if (what == 0) view.data = nullptr;
    if (what == 1) view.device = DeviceKind::kCuda, code = ErrorCode::kDevice;
    if (what == 2) view.shape[0] = -1, code = ErrorCode::kExtent;
    const Bytes before = contents(call);
    expect_refused(rooftile::call(op, call.args(), reference), op.name, {code},
                   {op.args[output].name});
    expect_untouched(call, before);
  }
}

INSTANTIATE_TEST_SUITE_P(AllOps, BadInput, ::testing::ValuesIn(op_names()),
                         [](const auto& param) { return param.param; });

TEST(BadInputTable, HasAtLeastTwoHundredViolations) {
  size_t count = 0;
  for (const OpDef& op : all_ops())
    for (const Call& call : correct_calls(op)) count += violations(call).size();
  std::printf("%zu violations over %zu operators\n", count, all_ops().size());
  EXPECT_GE(count, 200u);
}

// ---- calls by name ------------------------------------------------------------------------------

class NamedCall : public ::testing::Test {
 protected:
  float x_data[8] = {1, 2, 3, 4, 5, 6, 7, 8}, weight_data[4] = {1, 1, 1, 1}, out_data[8] = {};
  TensorView x{x_data, DType::kF32, {2, 4}}, weight{weight_data, DType::kF32, {4}},
      out{out_data, DType::kF32, {2, 4}};
  void expect_code(const Status& status, ErrorCode code, const std::string& text) {
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(code_text(status.diag().code), code_text(code)) << status.str();
    EXPECT_THAT(status.str(), HasSubstr(text));
    for (float value : out_data) EXPECT_EQ(value, 0.0f);
  }
};

TEST_F(NamedCall, UnknownNamesAreRefusedWithTheKnownOnes) {
  expect_code(call("rms_nrom", {{"out", out}}), ErrorCode::kUsage, "rms_norm");
  expect_code(call("rms_norm", {{"out", out}, {"x", x}, {"wieght", weight}}),
              ErrorCode::kUnsupported, "wieght");
  expect_code(call("rms_norm", {{"out", out}, {"x", x}, {"weight", weight}}, {{"epsilon", 1e-6}}),
              ErrorCode::kUnsupported, "eps");
  expect_code(call("rms_norm", {{"out", out}, {"x", x}, {"weight", weight}, {"x", x}}),
              ErrorCode::kArgCount, "twice");
  expect_code(call("rms_norm", {{"out", out}, {"weight", weight}}), ErrorCode::kArgCount,
              "`x` is missing");
}

TEST_F(NamedCall, ValuesOfTheWrongKindAreRefused) {
  const auto tensors = [&](const NamedValue& eps) {
    return call("rms_norm", {{"out", out}, {"x", x}, {"weight", weight}}, {{"eps", eps}});
  };
  expect_code(tensors("small"), ErrorCode::kArgKind, "eps");
  expect_code(tensors(double{NAN}), ErrorCode::kNonFinite, "eps");
}

TEST_F(NamedCall, KernelsAndSchedulesThatDoNotExistAreRefused) {
  const NamedTensors tensors = {{"out", out}, {"x", x}, {"weight", weight}};
  expect_code(call("rms_norm", tensors, {}, {.kernel = "no_such_kernel"}), ErrorCode::kUnsupported,
              "no_such_kernel");
  Schedule schedule{.name = "wrong"};
  schedule.keep = {"no_such_label"};
  expect_code(call("rms_norm", tensors, {}, {.schedule = &schedule}), ErrorCode::kSchedule,
              "no_such_label");
  schedule.keep.clear();
  schedule.tile["NO_SUCH"] = 4;
  expect_code(call("rms_norm", tensors, {}, {.schedule = &schedule}), ErrorCode::kSchedule,
              "NO_SUCH");
}

TEST_F(NamedCall, CountsOfPositionalArgumentsAreChecked) {
  const OpDef& op = *find_op("rms_norm");
  const TensorView two[] = {out, x};
  expect_code(call(op, OpArgs{two, {}, {}}), ErrorCode::kArgCount, "tensors");
}

TEST_F(NamedCall, ACorrectCallWorks) {
  EXPECT_EQ(call("rms_norm", {{"out", out}, {"x", x}, {"weight", weight}}, {{"eps", 1e-6}}).str(),
            "ok");
  EXPECT_NEAR(out_data[0], 1 / std::sqrt(7.5f), 1e-5);
}

}  // namespace
}  // namespace rooftile::bad_input
