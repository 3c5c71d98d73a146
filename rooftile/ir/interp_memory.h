// SPDX-License-Identifier: Apache-2.0
// The tensors of an interpreted call, with everything that an access may do wrong: see interp.h.
#pragma once

#include <string>
#include <vector>

#include "rooftile/ir/interp.h"
#include "rooftile/ir/tile_value.h"

namespace rooftile::ir {

class InterpMemory {
 public:
  // `env` is the interpreter's own, with the indices of the moment; dims are added to it by bind().
  InterpMemory(const Program& program, Env& env, InterpTensors& tensors)
      : program_(program), env_(env), tensors_(tensors) {}

  Status bind();  // dims from shapes, shapes checked, outputs and workspaces created
  Status check_outputs_complete() const;

  void begin_phase() { ++phase_; }
  void begin_tile(int64_t tile, const std::vector<std::string>& vars) {
    tile_ = tile;
    indices_ = vars;
  }
  void end_phase() { indices_.clear(); }
  void push_index(const std::string& var) { indices_.push_back(var); }
  void pop_index() { indices_.pop_back(); }

  // `index_tiles`: for each dimension of the region, its index tile or null.
  Status load(const Node& n, const std::vector<const TileValue*>& index_tiles, TileValue& value);
  Status store(const Node& n, const std::vector<const TileValue*>& index_tiles,
               const TileValue& value, bool declared);

  Result<int64_t> value_of(const Expr& expr, const Node& n);
  Result<std::vector<int64_t>> shape_of(const std::vector<Expr>& shape, const Node& n);

  std::string indices() const;  // "row = 3, kb = 1"
  Diag problem(const Node& n, ErrorCode code, std::string message, std::string found,
               std::string expected) const;

 private:
  // Who touched an element: phase and tile in one number, -1 for nobody.
  struct Cell {
    int64_t writer = -1;
    int64_t reader = -1;
    bool added = false;  // the last store was a store_add
    bool written = false;
  };
  struct Tensor {
    const TensorParam* param = nullptr;
    NdArray* array = nullptr;
    std::vector<int64_t> strides;
    std::vector<Cell> cells;  // empty for inputs
  };
  using Offsets = std::vector<size_t>;

  Status bind_dims();
  Status bind_tensor(const TensorParam& param);
  Result<Offsets> address(const Node& n, const std::vector<int64_t>& tile_shape,
                          const std::vector<const TileValue*>& index_tiles);
  Status check_read(const Node& n, const Tensor& tensor, size_t offset, Cell& cell) const;
  Status check_write(const Node& n, const Tensor& tensor, size_t offset, Cell& cell) const;
  Diag out_of_bounds(const Node& n, const Tensor& tensor, size_t dim, int64_t index) const;
  std::string position(const Tensor& tensor, size_t offset) const;
  Diag contract(const TensorParam& param, std::string message, std::string found,
                std::string expected) const;

  int64_t stamp() const { return phase_ * kTilesOfPhase + tile_; }
  bool other_tile_now(int64_t who) const {
    return who != stamp() && who / kTilesOfPhase == phase_ && who >= 0;
  }
  static constexpr int64_t kTilesOfPhase = int64_t{1} << 40;
  static constexpr int64_t kSeveral = kTilesOfPhase - 1;  // as a tile: more than one

  const Program& program_;
  Env& env_;
  InterpTensors& tensors_;
  InterpTensors workspaces_;
  std::map<std::string, Tensor, std::less<>> bound_;
  int64_t phase_ = 0;  // counted from 1; 0 before the first
  int64_t tile_ = 0;
  std::vector<std::string> indices_;
};

}  // namespace rooftile::ir
