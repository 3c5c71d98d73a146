// SPDX-License-Identifier: Apache-2.0
// A program in the form that the machine runs: a flat list of operations on numbered registers.
//
// Loops marked kUnroll are gone, names are cells, parameters are constants of this launch, and
// structured statements are jumps that keep a stack of lane masks. A statement's operands are
// evaluated by the operations before the one that has an effect, so an instruction that must wait
// can be begun again from `start`.
#pragma once

#include <string>
#include <vector>

#include "rooftile/emulate/emulate.h"
#include "rooftile/emulate/pure.h"

namespace rooftile::emulate {

// A cell: below num_constants in Code::constants, else a register of the warp.
using CellId = int;
inline constexpr CellId kNoCell = -1;

// Where the shared window of a CTA begins, and where the rank of a peer is in an address.
inline constexpr uint32_t kWindowStart = 1024;
inline constexpr int kRankShift = 24;

enum class OpKind : uint8_t {
  kPure,    // dst <- fn(in...)
  kSelect,  // the same; only the operand that is chosen must be initialised
  kTouch,   // the registers of `list` are about to be read: none may belong to a running product
  kAssign,  // dst <- in[0] in the active lanes
  kForget,  // dst .. dst + count hold nothing (a declaration without a value)
  kInstr,   // instruction `instr`
  kIf,      // in[0]: the condition; to `target` (after its kElse, or its kEnd) if no lane takes it
  kElse,    // end of the first branch; `target`: the kEnd
  kEnd,     // of an if
  kLoop,    // a loop begins
  kLoopTest,  // in[0]: go on; else leave, to `target`
  kJump,
  kExit,
};

struct Op {
  OpKind kind = OpKind::kExit;
  bool ends_statement = false;
  bool uniform = false;
  bool wide = false;  // kAssign: 64 bits a lane
  int num_in = 0;
  CellId dst = kNoCell;
  CellId in[4] = {kNoCell, kNoCell, kNoCell, kNoCell};
  int count = 0;   // kForget
  int target = 0;  // kIf, kElse, kLoopTest, kJump
  int instr = -1;  // into Code::instrs
  int list = -1;   // into Code::lists
  int start = 0;   // first operation of the statement
  int stmt = 0;    // into Code::stmts; also what stamps call the pc
  PureFn fn = nullptr;
};

// The operands of an instruction as cells.
struct InstrCode {
  const lanes::Instr* instr = nullptr;
  CellId guard = kNoCell;
  std::vector<CellId> args, index, results, regs;
  std::vector<int> reg_starts;          // where each of Instr::regs begins in `regs`, and the end
  std::vector<lanes::Ty> result_types;  // of results
  std::vector<lanes::Ty> reg_types;     // of regs
  int alloc = -1;  // shared allocation that args[0] points into, where the text says so
  int tensor = -1, map = -1;
  bool touches_products = false;  // some of results or regs are operands of products elsewhere
};

// Values that every warp finds in its first registers.
enum SpecialCell : int {
  kTidCell,
  kLaneCell,
  kWarpCell,
  kCtaXCell,
  kCtaYCell,
  kCtaZCell,
  kRankCell,
  kNumSpecialCells,
};

struct Code {
  lanes::Program program;  // unrolled; statements are referred to below
  std::vector<Op> ops;
  std::vector<InstrCode> instrs;
  std::vector<std::vector<CellId>> lists;
  std::vector<const lanes::Stmt*> stmts;
  std::vector<Cell> constants;
  int num_registers = 0;
  std::vector<bool> product_operand;  // by register: accumulator or A fragment of some product
  struct LoopVar {
    std::string name;
    CellId cell;
  };
  std::vector<LoopVar> loops;  // kLoop: Op::list is its index here
  int64_t grid[3] = {1, 1, 1};
};

// `launch` has every tensor and scalar that the program names (see resolve in global_memory.h).
Result<Code> compile(const lanes::Program& program, const Launch& launch);

}  // namespace rooftile::emulate
