// SPDX-License-Identifier: Apache-2.0
// What becomes of each value of a tile program on a CPU.
//
// A block is turned into steps. Most steps are *row groups*: loops over the leading axes of a tile
// whose body makes one or more vector passes over the last axis. Values are, by fixed rules:
//   inline   recomputed where used (loads, cheap element-wise work)
//   local    a C++ variable: scalars, and one number a row inside a group
//   buffer   scratch of the thread: products, loop-carried tiles, and what would be expensive to
//   recompute
// Items join the group before them when their leading axes are equal and all they need from it is
// in the same row. Inside a group an item's level is the number of reductions that must be finished
// before it; items of one level and width share a pass.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "rooftile/base/diag.h"
#include "rooftile/compile/schedule.h"
#include "rooftile/compile/target.h"
#include "rooftile/ir/ir.h"

namespace rooftile::codegen {

using ir::ValueId;

struct Use {
  ValueId user;
  int operand;  // position in operands; -1 - k: yield k of the loop `user`; 100 + d: index tile of
                // dimension d
};

struct Buffer {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<Expr> extents;  // upper bounds, free of loop variables
  bool product = false;       // C of a product: room for whole register tiles
  bool a_operand = false;     // rows are zero padded to 64 bytes
};

enum class ItemKind : uint8_t { kLocal, kReduce, kColumnReduce, kScan, kKeep, kStore };

struct Item {
  ItemKind kind = ItemKind::kKeep;
  ValueId id = -1;
  int buffer = -1;  // where it is also or only stored
  int level = 0;
  int commit = -1;  // local: buffer of a carried value, written when the row is done
};

struct Group {
  std::vector<Expr> outer;  // leading extents; empty: straight-line code
  std::vector<Item> items;
};

struct Step {
  enum Kind : uint8_t { kGroup, kPrepare, kMma, kLoop, kWhen, kCopy } kind = kGroup;
  Group group;
  ValueId id = -1;         // kPrepare: the load; kMma, kLoop, kWhen: the node
  int from = -1, to = -1;  // kCopy: buffers
};

// How the operands and the accumulator of a product are provided.
struct Product {
  ValueId a = -1, b = -1;  // loads or kept values, transposes removed
  bool a_transposed = false, b_transposed = false;
  bool zero_first =
      false;          // accumulator starts from zero when the loop variable is at its beginning
  ValueId loop = -1;  // that loop; -1 with zero_first: always from zero
  int buffer = -1;
};

// Instances of one parallel dimension that run their serial loop in step (Schedule::gang).
struct Gang {
  std::string var;
  int64_t width = 0;
  ValueId loop = -1;
};

// One iteration of a gang's loop: what is the same for every member, then what each does by itself.
struct GangBody {
  std::vector<Step> common, own;
};

struct LoopPlan {
  std::vector<int> buffers;     // of each carried value; -1: a C++ variable
  std::vector<bool> skip_init;  // the first product writes it
};

class Plan {
 public:
  static Result<Plan> make(const ir::Program& program, const Schedule& schedule);

  std::vector<Step> steps(const ir::Block& block, ValueId region) const;

  // --- queries for the emitter
  bool is_scalar(ValueId id) const;      // every extent is 1
  bool is_row_scalar(ValueId id) const;  // last extent is 1, another is not
  int buffer_of(ValueId id) const;       // -1: none
  const std::vector<Use>& users(ValueId id) const { return users_[static_cast<size_t>(id)]; }
  const std::vector<Buffer>& buffers() const { return buffers_; }
  const Product& product(ValueId mma) const { return products_.at(mma); }
  const LoopPlan& loop(ValueId id) const { return loops_.at(id); }
  const Gang* gang(ValueId phase) const;  // nullptr: none
  GangBody gang_body(const Gang& gang) const;
  ValueId strip_transpose(ValueId id, bool* transposed = nullptr) const;
  std::vector<Expr> outer_of(
      const std::vector<Expr>& shape) const;  // leading extents, {} when all are 1
  std::vector<ValueId> inline_loads(
      ValueId id) const;    // loads that computing an item's value touches
  std::string str() const;  // stage "scheduled"

 private:
  Status analyse();
  Status plan_region(const ir::Block& block, ValueId region);
  Status plan_loop(const ir::Node& loop);
  Status plan_gang(const std::string& var, int64_t width);
  Status check_gang(const ir::Node& phase, const Gang& gang) const;
  bool is_common(ValueId id, const std::string& var, const std::set<ValueId>& done) const;
  Status plan_product(const ir::Node& mma, ValueId region);
  std::vector<Item> items_of(ValueId id) const;
  bool joins(const Group& group, const Item& item) const;
  void finish_group(Group* group) const;
  bool moves_before_product(std::vector<Step>* steps, const Item& item) const;
  void inputs_of(ValueId id,
                 std::vector<ValueId>* out) const;  // direct inputs, index tiles included
  // Items of `inside` that `id` reads through inline values.
  void reach(ValueId id, const std::set<ValueId>& inside, std::set<ValueId>* out,
             bool* transposed) const;
  bool reads(ValueId id, ValueId what) const;  // through inline values
  int weight(ValueId id) const;
  bool operand_only(ValueId id) const;
  bool is_bounded(const std::vector<Expr>& shape) const;
  int new_buffer(const std::string& name, DType dtype, const std::vector<Expr>& shape);
  Status keep_expensive(const ir::Block& block, ValueId region);
  void keep_overwritten(const ir::Block& block, ValueId region);
  bool read_in_time(ValueId load, const std::vector<Step>& steps) const;
  std::vector<Step> group_block(const ir::Block& block, ValueId region) const;

  const ir::Program* program_ = nullptr;
  Schedule schedule_;
  std::vector<std::vector<Use>> users_;
  std::vector<ValueId> region_;          // enclosing region node, -1 at the top
  std::set<std::string> eager_tensors_;  // read and written: loads are taken at once
  std::map<ValueId, int> buffer_;        // value -> buffer
  std::set<ValueId> keep_;               // element-wise values and loads stored in their buffer
  std::map<ValueId, Product> products_;
  std::map<ValueId, LoopPlan> loops_;
  std::map<ValueId, Gang> gangs_;   // phase -> its gang
  std::map<ValueId, int> commits_;  // row-scalar yield -> carried buffer
  std::map<ValueId, std::vector<std::pair<int, int>>>
      copies_;  // loop -> buffers to copy when the body is done
  std::vector<Buffer> buffers_;
  std::set<std::string> free_;  // loop variables: not known when the kernel starts
};

// An upper bound without loop variables; nullopt if none is evident (min() with one bounded side,
// sums, products).
std::optional<Expr> upper_bound(const Expr& e, const std::set<std::string>& free);

}  // namespace rooftile::codegen
