// SPDX-License-Identifier: Apache-2.0
// For the tests of references: a call from a case line, its inputs to be replaced by the test.
#pragma once

#include <gtest/gtest.h>

#include "rooftile/check/case_inputs.h"
#include "rooftile/ops/op_def.h"

namespace rooftile::ops {

inline RefCall reference_case(std::string_view op_name, std::string_view text) {
  const OpDef* op = find_op(op_name);
  Result<Case> line = check::parse_case(text);
  EXPECT_TRUE(op != nullptr && line.ok()) << op_name << " " << text;
  Result<RefCall> call = check::resolve_case(*op, *line);
  EXPECT_TRUE(call.ok()) << (call.ok() ? "" : call.diag().str());
  const Status made = check::make_inputs(*op, *call, /*seed=*/1);
  EXPECT_TRUE(made.ok()) << made.str();
  call->config = op->complete(call->config);
  return *call;
}

inline RefCall& run_reference(std::string_view op_name, RefCall& call) {
  find_op(op_name)->reference_fn(call);
  return call;
}

}  // namespace rooftile::ops
