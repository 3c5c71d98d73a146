// SPDX-License-Identifier: Apache-2.0
// A call of an operator for the known-fault tests: a case line gives sizes, dtypes and options, the
// test then changes what the fault needs, and the compiled kernel is held against the float64
// reference, guards included.
//
//   FaultCall call("gemm", "M=2 N=3 K=4 c=1 beta=0 dtype=f32");
//   call.input("c").data.assign(6, NAN);
//   call.expect_right();
//
// The ids in the names of the tests are those of the list of publicly reported faults of comparable
// libraries that the project keeps.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "rooftile/check/case_inputs.h"
#include "rooftile/check/compare.h"
#include "rooftile/check/host_tensor.h"
#include "rooftile/compile/dispatch.h"
#include "rooftile/ops/op_def.h"

namespace rooftile::known_faults {

inline constexpr double kInf = std::numeric_limits<double>::infinity();
inline constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

class FaultCall {
 public:
  // `padded`: every tensor with rows apart, guard bytes between them, and data no better aligned
  // than the contract asks.
  FaultCall(std::string_view op_name, std::string_view text, bool padded = false)
      : op_(find_op(op_name)), padded_(padded) {
    if (op_ == nullptr) {
      ADD_FAILURE() << "no operator " << op_name;
      return;
    }
    Result<Case> line = check::parse_case(text);
    if (!line.ok()) ADD_FAILURE() << line.diag().str();
    Result<RefCall> call = check::resolve_case(*op_, *line);
    if (!call.ok()) {
      ADD_FAILURE() << call.diag().str();
      return;
    }
    call_ = *call;
    call_.config = op_->complete(call_.config);
    const Status made = check::make_inputs(*op_, call_, /*seed=*/20240229);
    if (!made.ok()) ADD_FAILURE() << made.str();
  }

  NdArray& input(std::string_view tensor) { return call_[tensor]; }
  void fill(std::string_view tensor, double value) {
    call_[tensor].data.assign(call_[tensor].data.size(), value);
  }
  void set_attr(std::string_view name, double value) { call_.attrs[std::string(name)] = value; }
  const RefCall& call() const { return call_; }

  // Views are made from the inputs at the first use; change them to test other strides.
  TensorView& view(std::string_view tensor) {
    place();
    return views_.at(std::string(tensor));
  }

  Status run(const CallOptions& options = {}) {
    place();
    for (const ArgDef& arg : op_->args)
      if (arg.role == ir::Role::kOut && call_.config.has(arg.name))
        memory_.at(arg.name).poison(check::Poison::kFirst);
    std::vector<TensorView> tensors;
    for (const ArgDef& arg : op_->args)
      tensors.push_back(call_.config.has(arg.name) ? views_.at(arg.name) : TensorView());
    std::vector<Scalar> attrs;
    for (const AttrDef& attr : op_->attrs) {
      const double value = call_.attr(attr.name);
      attrs.push_back(attr.is_float ? Scalar(value) : Scalar(static_cast<int64_t>(value)));
    }
    std::vector<int64_t> flags;
    for (const FlagDef& flag : op_->flags) flags.push_back(call_.config.flag(flag.name));
    return rooftile::call(*op_, {tensors, attrs, flags}, options);
  }

  NdArray output(std::string_view tensor) { return memory_.at(std::string(tensor)).load(); }
  std::vector<std::byte> bytes(std::string_view tensor) {
    return memory_.at(std::string(tensor)).elements();
  }

  // Runs and compares every output with the reference; nothing outside the tensors may change.
  void expect_right(const CallOptions& options = {}) {
    const Status status = run(options);
    ASSERT_TRUE(status.ok()) << status.str();
    RefCall expected = call_;
    for (const ArgDef& arg : op_->args)  // values as the kernel sees them
      if (arg.role != ir::Role::kOut && call_.config.has(arg.name))
        check::quantize(expected[arg.name], call_.config.dtype(arg.name));
    op_->reference_fn(expected);
    const Tolerance tolerance = op_->tolerance_fn(expected);
    for (const ArgDef& arg : op_->args) {
      if (!call_.config.has(arg.name)) continue;
      const auto damage = memory_.at(arg.name).guard_damage();
      EXPECT_FALSE(damage.has_value()) << arg.name << ": " << *damage;
      if (arg.role == ir::Role::kIn) continue;
      const auto result = check::compare(output(arg.name), expected[arg.name], tolerance);
      EXPECT_TRUE(result.pass) << op_->name << "." << arg.name << ": " << result.reason;
    }
  }

  // The call is refused with this code, and the message names what is wrong.
  void expect_refused(ErrorCode code, const std::string& text, const CallOptions& options = {}) {
    const Status status = run(options);
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.diag().code, code) << status.str();
    EXPECT_NE(status.str().find(text), std::string::npos) << status.str();
  }

 private:
  void place() {
    if (!memory_.empty()) return;
    for (const ArgDef& arg : op_->args) {
      if (!call_.config.has(arg.name)) continue;
      const check::TensorLayout layout = {padded_, arg.align_bytes, arg.unit_inner_stride};
      check::HostTensor tensor(call_.config.dtype(arg.name), call_[arg.name].shape, layout);
      if (arg.role != ir::Role::kOut) tensor.store(call_[arg.name]);
      views_[arg.name] = tensor.view();
      memory_.emplace(arg.name, std::move(tensor));
    }
  }

  const OpDef* op_;
  bool padded_;
  RefCall call_;
  std::map<std::string, check::HostTensor> memory_;
  std::map<std::string, TensorView> views_;
};

}  // namespace rooftile::known_faults
