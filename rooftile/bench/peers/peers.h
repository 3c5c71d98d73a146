// SPDX-License-Identifier: Apache-2.0
// The libraries that one would use instead of a Rooftile kernel, called as their documentation
// advises: the best primitive for the shape, weights in the format that the library asks for, no
// allocation in the timed region.
//
// A peer computes the same operator from the same inputs; what it cannot compute exactly (a
// post-operation that it lacks, a stride) is refused with the reason rather than timed as something
// else.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "rooftile/base/diag.h"
#include "rooftile/ops/op_def.h"
#include "rooftile/runtime/tensor_view.h"

namespace rooftile::bench {

// Compact tensors of the call by name. Outputs are the peer's own.
using TensorSet = std::map<std::string, TensorView, std::less<>>;

class Peer {
 public:
  virtual ~Peer() = default;
  virtual std::string name() const = 0;                 // "oneDNN 2.6.3 matmul"
  virtual std::string prepacked() const { return ""; }  // what it prepared outside run()
  virtual void run(size_t set) = 0;
  virtual std::vector<std::pair<std::string, TensorView>> results(
      size_t set) const = 0;  // outputs by name
};

struct PeerRequest {
  const OpDef& op;
  const RefCall& call;          // dims, config, attributes
  std::vector<TensorSet> sets;  // copies of the same arguments, to rotate through
};

// Every library that has the operator in this configuration, the one that most would use first. If
// there is none, `why_none` says why.
std::vector<std::unique_ptr<Peer>> make_peers(const PeerRequest& request, std::string& why_none);

// Whether any library has the operator in some configuration.
bool has_peer(std::string_view op);

std::string onednn_version();    // "2.6.3"
std::string openblas_version();  // "0.3.21"

}  // namespace rooftile::bench
