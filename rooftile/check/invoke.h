// SPDX-License-Identifier: Apache-2.0
// The arguments of a call in memory, and calling a compiled kernel's launcher with them, as any
// TVM-FFI caller would.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "rooftile/base/diag.h"
#include "rooftile/check/host_tensor.h"
#include "rooftile/compile/kernel.h"
#include "rooftile/ops/op_def.h"
#include "rooftile/runtime/call.h"
#include "rooftile/runtime/cpu/pack.h"

namespace rooftile::check {

struct Arguments {
  std::map<std::string, HostTensor, std::less<>> tensors;
  std::map<std::string, double, std::less<>> attrs;
  // output -> input whose memory it uses instead of its own
  std::map<std::string, std::string, std::less<>> aliases;

  HostTensor& tensor(std::string_view name);
};

// Memory for every tensor of the call, inputs filled in. `padded`: rows apart and as badly aligned
// as the contract and `align_bytes` admit; otherwise compact and aligned to a cache line.
Arguments place(const OpDef& op, const RefCall& call, bool padded, int align_bytes = 0);

// Where the tensors of a call lie, by name. An output in place has its input's view.
using Views = std::map<std::string, TensorView, std::less<>>;
Views views_of(Arguments& arguments);

// A launcher with its arguments bound: call() costs what a C++ caller pays.
class BoundCall {
 public:
  // The arguments must outlive the call. Operands that the kernel wants packed are packed here.
  static Result<BoundCall> bind(const CompiledKernel& kernel, Arguments& arguments);
  // The same for memory of any device, which must outlive the call.
  static Result<BoundCall> bind(const CompiledKernel& kernel, const Views& views,
                                const std::map<std::string, double, std::less<>>& attrs);
  Status call() const;  // the launcher's own Diag if it refuses

 private:
  BoundCall() = default;
  TVMFFISafeCall launch_ = nullptr;
  std::vector<TensorView> tensors_;
  std::vector<PackedTensor> packed_;
  std::vector<Scalar> scalars_;
};

}  // namespace rooftile::check
