// SPDX-License-Identifier: Apache-2.0
// The libraries that one would use instead of a Rooftile kernel on a GPU. As peers.h: a peer
// computes the same operator from the same inputs, or is refused with the reason.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "rooftile/base/diag.h"
#include "rooftile/bench/peers/peers.h"
#include "rooftile/runtime/cuda/device.h"

namespace rooftile::bench {

class DevicePeer {
 public:
  virtual ~DevicePeer() = default;
  virtual std::string name() const = 0;    // "cuBLASLt 13.0.2"
  virtual Status enqueue(size_t set) = 0;  // on the stream it was made for
  virtual std::vector<std::pair<std::string, TensorView>> results(size_t set) const = 0;
};

struct DevicePeerRequest {
  const OpDef& op;
  const RefCall& call;
  std::vector<TensorSet> sets;  // compact, on the device
  const cuda::Device& device;
  cuda::abi::Stream stream;
};

// As make_peers.
std::vector<std::unique_ptr<DevicePeer>> make_device_peers(const DevicePeerRequest& request,
                                                           std::string& why_none);
bool has_device_peer(std::string_view op);

}  // namespace rooftile::bench
