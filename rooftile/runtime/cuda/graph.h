// SPDX-License-Identifier: Apache-2.0
// Graphs of launches: captured from a stream once, launched many times at the cost of one launch.
//
// Arguments, hence addresses and tensor maps, freeze at capture; update() exchanges them for those
// of a later capture of the same work. Kernels must be ready before (Kernel::prepare): run the work
// once outside capture. Owners are move-only; a launched graph must have ended before it is
// destroyed.
#pragma once

#include <cstddef>
#include <utility>

#include "rooftile/base/diag.h"
#include "rooftile/runtime/cuda/device.h"

namespace rooftile::cuda {

class Graph {
 public:
  Graph(Graph&& other) noexcept { *this = std::move(other); }
  Graph& operator=(Graph&& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Graph();
  abi::Graph get() const { return handle_; }
  const Device& device() const { return *device_; }
  Result<size_t> num_nodes() const;

 private:
  friend class Capture;
  Graph() = default;
  const Device* device_ = nullptr;
  abi::Graph handle_ = nullptr;
};

// Everything that is given to `stream` from begin() to end() goes into a graph and does not run. A
// capture that goes out of scope without end() is given up.
class Capture {
 public:
  // The stream must not be the default one. Other threads may allocate meanwhile; on this thread
  // and stream it is refused. RT-R007 if the stream is being captured already.
  static Result<Capture> begin(const Device& device, abi::Stream stream);
  Capture(Capture&& other) noexcept { *this = std::move(other); }
  Capture& operator=(Capture&& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(stream_, other.stream_);
    return *this;
  }
  ~Capture();
  // RT-R007 if something forbidden has spoilt the capture. Ends it in any case.
  Result<Graph> end();

 private:
  Capture() = default;
  const Device* device_ = nullptr;  // null: not capturing
  abi::Stream stream_ = nullptr;
};

// A graph made ready to launch.
class GraphExec {
 public:
  static Result<GraphExec> instantiate(const Graph& graph);
  GraphExec(GraphExec&& other) noexcept { *this = std::move(other); }
  GraphExec& operator=(GraphExec&& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~GraphExec();
  Status launch(abi::Stream stream) const;
  // Takes over the arguments of `graph`, for launches after this. RT-R005 if it is not the same
  // work: then instantiate it.
  Status update(const Graph& graph);

 private:
  GraphExec() = default;
  const Device* device_ = nullptr;
  abi::GraphExec handle_ = nullptr;
};

}  // namespace rooftile::cuda
