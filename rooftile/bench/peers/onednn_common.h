// SPDX-License-Identifier: Apache-2.0
// What the oneDNN peers share. Includes the library's header: for the files of this folder only.
#pragma once

#include <oneapi/dnnl/dnnl.hpp>
#include <string>
#include <unordered_map>
#include <vector>

#include "rooftile/bench/peers/peers.h"

namespace rooftile::bench::onednn {

using Args = std::unordered_map<int, dnnl::memory>;

dnnl::engine& engine();
dnnl::stream& stream();
Diag refusal(const PeerRequest& request, std::string why);
Result<dnnl::memory::data_type> data_type(const PeerRequest& request, DType dtype);
// Memory over a caller's compact tensor.
dnnl::memory wrap(const dnnl::memory::desc& desc, const TensorView& view);
// The same values in the format that a primitive chose; `from` itself if it is in it already.
dnnl::memory in_format(dnnl::memory from, const dnnl::memory::desc& wanted);
dnnl::memory::desc row_major(const dnnl::memory::dims& dims, dnnl::memory::data_type type);

// A chain of primitives with the arguments of each set bound.
class Chain : public Peer {
 public:
  struct Step {
    dnnl::primitive primitive;
    std::vector<Args> args;  // one a set
  };
  Chain(std::string what, std::string output, DType output_dtype, std::vector<int64_t> output_shape)
      : what_(std::move(what)),
        output_(std::move(output)),
        dtype_(output_dtype),
        shape_(std::move(output_shape)) {}

  std::string name() const override { return "oneDNN " + onednn_version() + " " + what_; }
  std::string prepacked() const override { return prepacked_; }
  void run(size_t set) override;
  std::vector<std::pair<std::string, TensorView>> results(size_t set) const override;

  void add(Step step) { steps_.push_back(std::move(step)); }
  void set_prepacked(std::string what) { prepacked_ = std::move(what); }

 private:
  std::string what_, output_, prepacked_;
  DType dtype_;
  std::vector<int64_t> shape_;
  std::vector<Step> steps_;
};

}  // namespace rooftile::bench::onednn
