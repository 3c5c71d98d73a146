// SPDX-License-Identifier: Apache-2.0
// Every way to break an operator's contract that can be read off its OpDef, as a table: what is
// done to a correct call, which codes may answer, and which arguments the answer may name.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "rooftile/check/host_tensor.h"
#include "rooftile/compile/dispatch.h"
#include "rooftile/ops/op_def.h"

namespace rooftile::bad_input {

// A correct call in memory of its own, to be broken.
struct Call {
  const OpDef* op = nullptr;
  RefCall ref;
  std::vector<check::HostTensor> memory;  // one an argument; empty for absent ones
  std::vector<TensorView> tensors;
  std::vector<Scalar> attrs;
  std::vector<int64_t> flags;
  OpArgs args() const { return {tensors, attrs, flags}; }
};

struct Violation {
  std::string name;
  std::set<ErrorCode> codes;
  std::set<std::string> arguments;  // empty: none in particular
  std::function<void(Call&)> apply;
};

// The call that `ref` describes, in fresh memory.
Call fresh_call(const OpDef& op, const RefCall& ref);

// Every violation of this operator under this call's config.
std::vector<Violation> violations(const Call& call);

}  // namespace rooftile::bad_input
