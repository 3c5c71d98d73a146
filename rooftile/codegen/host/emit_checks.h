// SPDX-License-Identifier: Apache-2.0
// The checking half of a launcher, one function a stage, in the order in which the generated code
// runs them. Each stage may use the variables of those before it; nothing is written before the
// last one has passed.
//
//   t_<x>  DLTensor of x      n_<x>_<i>  its extents    s_<x>_<i>  its strides, in elements, safe
//   for extents of 1 p_<x>  first element      b_<x>      byte range     layout_<x>()  extents and
//   strides in bytes d_<D>  dim or integer attribute                     a_<attr>   float attribute
#pragma once

#include <string>
#include <vector>

#include "rooftile/codegen/host/emit_errors.h"
#include "rooftile/codegen/host/host_checks.h"
#include "rooftile/compile/arg_layout.h"
#include "rooftile/ir/ir.h"

namespace rooftile::host {

class ContractEmitter {
 public:
  // `on_gpu`: tensors live on one CUDA device, not in host memory.
  ContractEmitter(const ir::Program& program, const ArgLayout& layout, ErrorSites& sites,
                  bool on_gpu = false);

  std::string arguments();      // count, kinds, ranks, dtypes, devices
  std::string scalars();        // attributes: kind, finite, range
  std::string shapes();         // binds the dims; every other extent must agree
  std::string layouts();        // strides, alignment, null pointers, byte ranges
  std::string aliasing();       // outputs against every other argument
  std::string conditions();     // clauses over dims and attributes
  std::string index_tensors();  // clauses that walk a tensor (emit_index_checks.cc)

  const std::vector<const ir::TensorParam*>& tensors() const { return tensors_; }
  static std::string non_empty(const ir::TensorParam& tensor);  // condition text

 private:
  struct Dim {  // where a dim got its value
    std::string tensor;
    size_t axis;
  };
  std::string device_check(size_t position);
  bool listed(HostCheck::Kind kind, const ir::TensorParam& tensor) const;
  std::string require(const std::string& violated, const Site& site,
                      const std::vector<std::string>& values = {}, int indent = 2);
  std::string float_attr(const ir::ScalarParam& scalar, size_t position);
  std::string int_attr(const ir::ScalarParam& scalar, size_t position);
  std::string extent_check(const ir::TensorParam& tensor, size_t axis);
  std::string strides(const ir::TensorParam& tensor);
  std::string memory(const ir::TensorParam& tensor);
  std::string no_overlap(const ir::TensorParam& out, const ir::TensorParam& other);
  std::string element_reader(const ir::TensorParam& tensor);
  std::string index_range(const ir::Clause& clause, const ir::TensorParam& tensor);
  std::string non_decreasing(const ir::Clause& clause, const ir::TensorParam& tensor);
  std::string distinct(const ir::Clause& clause, const ir::TensorParam& tensor);
  std::string end_value(const ir::Clause& clause, const ir::TensorParam& tensor);

  const ir::Program& program_;
  const ArgLayout& layout_;
  ErrorSites& sites_;
  bool on_gpu_;
  const std::vector<HostCheck> checks_;
  std::vector<const ir::TensorParam*> tensors_;  // arguments only
  std::map<std::string, Dim> bound_;
};

bool has_index_load(const Expr& expr);
std::string shape_text(const std::vector<Expr>& shape);  // "[T, 2 * H]"

}  // namespace rooftile::host
