// SPDX-License-Identifier: Apache-2.0
// Emitter: walks a Plan and writes C++. Split by concern:
//   emit_cpu.cc     the whole: arguments, workspace layout, entry points
//   emit_steps.cc   parallel spaces, loops, conditions, products and their operands
//   emit_packed.cc  right operands that are packed before the phase that uses them
//   emit_gang.cc    parallel spaces whose instances run their loop in step
//   emit_direct.cc  products with an operand that is used as it lies in memory
//   emit_groups.cc  row groups and vector passes
//   emit_values.cc  the value of a node at an index: loads, arithmetic, conversions
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "rooftile/codegen/cpu/emit_cpu.h"
#include "rooftile/codegen/cpu/mma_text.h"
#include "rooftile/codegen/cpu/plan.h"
#include "rooftile/codegen/cpu/writer.h"
#include "rooftile/compile/arg_layout.h"

namespace rooftile::codegen {

// What kind of C++ variable holds an element: float, i32, u32, i64, bool, or the vector of it.
enum class Cls : uint8_t { kF, kI, kU, kL, kB };
Cls cls_of(DType dtype);
std::string scalar_type(Cls cls);
std::string vector_type(Cls cls);
std::string memory_type(DType dtype);  // as declared in the prelude

struct Val {
  std::string text;
  bool vec = false;
  Cls cls = Cls::kF;
};

// Where along an axis of a node a value is wanted: C text of the position; `lane` if the vector
// walks this axis, `text` then being the position of lane 0.
struct At {
  std::string text = "0l";
  bool lane = false;
};
using AtList = std::vector<At>;

// Name of a value at an index, for memo tables; axes of extent 1 are at position 0.
std::string key_of(const ir::Node& node, const AtList& at);

// A packed operand in scratch.
struct PackBuffer {
  std::string name;
  MmaUnit unit;
  bool is_a = true;
  Expr rows, words;  // bounds: rows of A or columns of B; words of K
  ValueId source = -1;
};

// A tensor whose blocks are right operands, packed as a whole by the kernel before it multiplies.
struct AheadTensor {
  MmaUnit unit = MmaUnit::kFmaF32;
  bool n_major = false;        // [N, K]: the product reads the transpose
  int n_dim = -1, k_dim = -1;  // dimensions of the tensor
  std::vector<int> others;     // each element of these has panels of its own
  bool operator==(const AheadTensor&) const = default;
};

class Emitter {
 public:
  Emitter(const ir::Program& program, const std::string& name, const Schedule& schedule,
          const TargetInfo& target)
      : program_(program), name_(name), schedule_(schedule), target_(target) {}
  Result<CpuKernelText> run();

 private:
  // emit_cpu.cc
  std::string entry_text(const std::string& body);
  std::vector<ScratchPart> scratch_parts() const;
  std::string layout_text(const std::vector<ScratchPart>& parts) const;
  std::string buffer_pitch(int buffer) const;

  // emit_steps.cc
  Status emit_block(const ir::Block& block, ValueId region);
  Status emit_steps(const std::vector<Step>& steps);
  Status emit_tiles(const ir::Node& node);
  Status emit_loop(const ir::Node& node);
  void emit_zero_results(const ir::Node& loop);
  Status emit_prepare(ValueId load);
  Status emit_pack_a(ValueId load, bool transposed, MmaUnit unit);
  Status emit_pack_b(ValueId source, bool transposed, MmaUnit unit);
  Status emit_product(const ir::Node& mma);
  Result<MmaUnit> unit_of(const ir::Node& mma) const;
  Status emit_fetch_next(const ir::Node& load, const std::string& row);
  std::string pack_key(ValueId source, bool is_a, bool transposed, MmaUnit unit) const;

  // emit_packed.cc
  Status place_packed_args();
  bool place_prepacked(const ir::Node& load, MmaUnit unit, bool n_major);
  bool place_ahead(const ir::Node& load, MmaUnit unit, bool n_major);
  bool is_packed_arg(const ir::Node& load) const;
  Result<std::string> packed_arg_pointer(const ir::Node& load, MmaUnit unit,
                                         std::string* panel_words);
  Status emit_pack_ahead(const ir::Node& phase);
  void emit_pack_tensor(const ir::TensorParam& tensor, const AheadTensor& ahead);

  // emit_gang.cc
  Status emit_gang(const ir::Node& phase, const Gang& gang);
  Status emit_common_ahead(const ir::Node& loop, const std::vector<Step>& common);
  void shadow_next(const std::set<int>& buffers);
  Status emit_members(const Gang& gang, const std::function<Status()>& body);
  void find_member_buffers(const Gang& gang, const std::vector<std::string>& parts);
  std::string buffer_declarations(bool of_members) const;

  // emit_direct.cc
  bool is_direct(const ir::Node& node) const;
  Status check_direct(const ir::Node& load) const;
  Status emit_direct_product(const ir::Node& mma, const std::string& first);
  Result<std::string> emit_row_function(const ir::Node& load);
  Result<std::string> emit_ahead(const ir::Node& load);
  std::string gang_stride(const ir::Node& load) const;
  // Writes `body` with the variable of `loop` one step on and nothing remembered.
  Status in_next_iteration(const ir::Node& loop, const std::function<Status()>& body);
  const ir::Node* loop_around(const ir::Node& node) const;

  // emit_groups.cc
  Status emit_group(const Group& group);
  Status emit_scalar_item(const Item& item, const AtList& rows);
  Status emit_pass(const std::vector<Item>& items, const AtList& rows);
  struct Sink;
  Status pass_body(std::vector<Sink>& sinks, const AtList& rows, const std::string& at, bool tail,
                   const std::string& copy, std::vector<std::string>* lines);
  void masks_of(ValueId id, bool definition, std::set<ValueId>& selects) const;
  std::string nothing_hidden(const std::vector<Sink>& sinks, const AtList& rows,
                             std::set<ValueId>* open);

  // emit_values.cc
  Result<Val> value(ValueId id, AtList at, bool definition = false);
  Result<Val> load_value(const ir::Node& node, const AtList& at);
  Result<Val> buffer_value(int buffer, const ir::Node& node, const AtList& at);
  Result<Val> elementwise_value(const ir::Node& node, const AtList& at);
  Result<Val> cast(const Val& v, DType to);
  Result<std::vector<Val>> operand_values(const ir::Node& node, const AtList& at);
  // Address of an element: pointer text without the lane's part; the lane's stride and whether it
  // is 1.
  struct Address {
    std::string pointer;
    std::string lane_index;    // elements to add for the lane axis at lane 0, "" if no lane
    std::string lane_stride;   // "" contiguous
    std::string lane_offsets;  // gathered: a vector of element offsets
  };
  Result<Address> address(const ir::Node& node, const AtList& at);
  // The same outside a vector body: where a row starts and how the lane walks it.
  Result<Address> row_address(const ir::Node& node, const AtList& at);
  std::string buffer_pointer(int buffer, const ir::Node& node, const AtList& at, Address* lane);
  Val splat(const Val& v) const;
  // gives a value a C++ name in the right place
  Val name_value(const std::string& stem, const Val& v);
  std::string literal(double number, Cls cls) const;
  Diag unsupported(const ir::Node& node, std::string what, std::string fix) const;

  const ir::Program& program_;
  std::string name_;
  const Schedule& schedule_;
  const TargetInfo& target_;
  Plan plan_;
  ArgLayout args_;
  Writer w_;
  std::map<std::string, PackedArg> packed_args_;  // tensor -> how the caller packs it
  std::map<std::string, AheadTensor> ahead_;      // tensor -> how this kernel packs it
  ir::Program launched_;                          // with packed tensors' shapes
  std::map<std::string, PackBuffer> packs_;       // key -> buffer
  std::vector<std::string> pack_order_;
  std::set<MmaUnit> units_;
  std::map<ValueId, std::string> variables_;         // scalar carried values and loop results
  std::vector<std::map<std::string, Val>> memo_{1};  // scalar values named in open scopes
  size_t memo_from_ = 0;                             // scopes before this one are hidden
  std::set<ValueId> open_;           // selects whose mask hides nothing where code is being written
  bool other_iteration_ = false;     // what is stored is this iteration's: compute it anew
  const Gang* gang_ = nullptr;       // while its members are written
  std::set<std::string> of_member_;  // scratch that every member of a gang has for itself
  std::set<int> twins_;              // buffers that exist once more, for the next iteration
  std::set<int> of_next_;            // of them, those that hold it where code is being written
  bool uses_direct_ = false;
  // While a vector body is written:
  std::vector<std::string>* body_ = nullptr;
  std::map<std::string, Val>* body_memo_ = nullptr;
  bool tail_ = false;
  int copy_ = 0;                       // which copy of the body
  bool pairs_ = false;                 // copies 2i and 2i + 1 follow each other without a gap
  int level_ = 0;                      // pass of the group
  std::map<ValueId, int> last_level_;  // load -> the last pass that reads it
  std::string tile_var_;               // C name of the innermost parallel index
  std::string nt_row_;                 // variable: this row's stores bypass the caches
  bool uses_nt_ = false;
};

}  // namespace rooftile::codegen
