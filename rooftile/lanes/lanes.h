// SPDX-License-Identifier: Apache-2.0
// L2, the lanes: what one thread of a GPU kernel does, at the level of PTX.
//
// A Program is one kernel: its parameters, its shared memory, and a structured body that every
// thread runs. Values are registers (scalars, and arrays whose indices are constant once loops
// marked kUnroll are unrolled). What a thread computes is an expression (Val, pure_ops.def); what
// it does to memory, barriers or other threads is an instruction (Instr, instr.def), and each
// instruction has one record that says who must take part, what it reads and writes through which
// proxy, and what completes it. The emitter (codegen/cuda), the emulator (emulate) and the prover
// read the same records.
//
// Global memory is addressed by tensor and one index a dimension, never by a pointer, so that
// bounds can be stated and checked a dimension at a time. Shared memory is addressed in bytes.
//
// Nothing here knows of tiles; how a tile program becomes lanes is codegen/gpu.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "rooftile/base/diag.h"
#include "rooftile/base/dtype.h"
#include "rooftile/base/expr.h"

namespace rooftile::lanes {

// ---- registers and expressions -----------------------------------------------------------------

enum class Ty : uint8_t { kPred, kI32, kU32, kI64, kU64, kF32 };
std::string_view ty_name(Ty type);

enum class Fn : uint8_t {
#define RT_LANE_FN(e, text, arity, meaning) e,
#include "rooftile/lanes/pure_ops.def"
#undef RT_LANE_FN
};
struct FnInfo {
  Fn fn;
  std::string_view name;
  int arity;
};
const FnInfo& fn_info(Fn fn);

// Registers that the hardware provides. All but kTid and kLane are the same in every lane of a
// warp.
enum class Special : uint8_t {
  kTid,   // threadIdx.x
  kLane,  // 0..31
  kWarp,  // threadIdx.x / 32, in a uniform register
  kCtaX,
  kCtaY,
  kCtaZ,
  kGridX,
  kGridY,
  kGridZ,
  kClusterRank,  // rank of the CTA in its cluster
};

class Val;
enum class ValKind : uint8_t {
  kInt,    // `integer`, of type `type`
  kFloat,  // `number`; -0.0, infinities and NaN included
  kVar,    // register `name`
  kElem,   // element args[0] of register array `name`
  kSpecial,
  kParam,   // scalar parameter `name` (dims, strides "x.s0", attributes)
  kShared,  // u32: address of shared allocation `name`, in this CTA's window
  kFn,      // fn(args)
};

struct ValNode {
  ValKind kind = ValKind::kInt;
  Ty type = Ty::kI32;
  int64_t integer = 0;
  double number = 0;
  std::string name;
  Special special = Special::kTid;
  Fn fn = Fn::kAdd;
  std::vector<Val> args;
};

class Val {
 public:
  Val() = default;  // absent
  Val(int value);   // NOLINT: implicit by intent: an i32 constant
  explicit Val(std::shared_ptr<const ValNode> node) : node_(std::move(node)) {}
  bool present() const { return node_ != nullptr; }
  const ValNode& operator*() const { return *node_; }
  const ValNode* operator->() const { return node_.get(); }
  Ty type() const { return node_->type; }
  bool is_int(int64_t value) const {
    return present() && node_->kind == ValKind::kInt && node_->integer == value;
  }

 private:
  std::shared_ptr<const ValNode> node_;
};

Val int_val(Ty type, int64_t value);
Val f32(double value);
Val pred(bool value);
Val var(Ty type, std::string name);
Val elem(Ty type, std::string array, Val index);
Val special(Special s);
Val param(Ty type, std::string name);
Val shared(std::string name);
// Folds constants and drops identities (x + 0, x * 1, 0 * x of integers, select of a constant, and
// division of a constant), so that texts stay readable. Never reassociates floats.
Val fn(Fn f, std::vector<Val> args);           // type by rule: see pure_ops.def
Val fn(Fn f, Ty type, std::vector<Val> args);  // for casts, whose result type is not implied

Val operator+(const Val& a, const Val& b);
Val operator-(const Val& a, const Val& b);
Val operator*(const Val& a, const Val& b);
Val operator<(const Val& a, const Val& b);
Val operator<=(const Val& a, const Val& b);
Val operator&&(const Val& a, const Val& b);
Val operator||(const Val& a, const Val& b);
Val operator!(const Val& a);
Val equal(const Val& a, const Val& b);
Val select(const Val& cond, const Val& then, const Val& otherwise);
Val floor_div(const Val& a, const Val& b);  // rounds down; shifts where b is a power of two
Val floor_mod(const Val& a, const Val& b);
Val min(const Val& a, const Val& b);
Val max(const Val& a, const Val& b);
Val cast(Ty type, const Val& a);  // integers: truncates or extends by the sign of a's type
std::string str(const Val& value);

// ---- instructions ------------------------------------------------------------------------------

enum class Ins : uint8_t {
#define RT_INSTR(e, text, who, reads, writes, proxy, completes) e,
#include "rooftile/lanes/instr.def"
#undef RT_INSTR
};

// Who must execute an instruction together, converged.
enum class Who : uint8_t { kThread, kWarp, kWarpgroup, kCta, kCluster };
// Memory spaces, as bits.
enum Space : uint8_t { kNone = 0, kGlobal = 1, kShared = 2, kPeer = 4, kBarrier = 8, kMap = 16 };
enum class Proxy : uint8_t { kGeneric, kAsync };
// What tells that an asynchronous instruction is over.
enum class Completes : uint8_t {
  kAtOnce,
  kTxBytes,     // bytes counted on an mbarrier
  kCpGroup,     // cp.async groups of the thread
  kBulkGroup,   // bulk groups of the thread
  kWgmmaGroup,  // wgmma groups of the warpgroup
};
struct InsInfo {
  Ins ins;
  std::string_view name;
  Who who;
  uint8_t reads, writes;  // Space bits
  Proxy proxy;
  Completes completes;
};
const InsInfo& ins_info(Ins ins);

// An element or a run of elements of a register array, or a scalar register (count 1, no index).
struct RegRef {
  std::string name;
  Val first;      // absent: scalar register
  int count = 1;  // registers
};

// One dimension a tensor dimension, outermost first; `width` consecutive elements along the last.
struct GlobalRef {
  std::string tensor;
  std::vector<Val> index;  // i32 or i64
  int width = 1;
};

enum class Cache : uint8_t { kPlain, kEvictFirst, kEvictLast, kNoL1, kStream };

struct Instr {
  Ins ins = Ins::kLdGlobal;
  Val guard;  // absent: always. Per lane where `who` is kThread, else uniform
  std::vector<RegRef> results;
  std::vector<RegRef> regs;  // register operands (stored values, accumulators, A fragments)
  std::vector<Val> args;     // addresses, descriptors, coordinates, parities; order in instr.def
  GlobalRef global;
  DType dtype = DType::kF32;  // of elements in memory; of a wgmma's operands
  Cache cache = Cache::kPlain;
  std::string map;  // tensor map
  // immediates
  int n = 0;      // wgmma, mma: N; shuffles: width; waits: groups left; setmaxnreg: count
  int bytes = 0;  // copies
  bool trans_a = false, trans_b = false;
  Fn op = Fn::kAdd;  // redux, atomics
};

// ---- statements --------------------------------------------------------------------------------

enum class StmtKind : uint8_t { kDecl, kAssign, kInstr, kIf, kFor, kWhile, kComment };
enum class Unroll : uint8_t { kNo, kYes };

struct Stmt;
using Body = std::vector<Stmt>;

struct Stmt {
  StmtKind kind = StmtKind::kComment;
  // kDecl: register `name` of `type`, an array when count > 0; `value` present: its initial value
  std::string name;
  Ty type = Ty::kI32;
  int count = 0;
  Val value;      // kDecl, kAssign: the value; kIf, kWhile: the condition
  RegRef target;  // kAssign: count 1
  Instr instr;
  Val begin, end, step;  // kFor: register `name`, i32
  Unroll unroll = Unroll::kNo;
  bool uniform = false;   // kIf, kFor, kWhile: the condition is the same in every lane of a warp
  bool unlikely = false;  // kIf
  Body body, orelse;
  std::string text;  // kComment
  SourceLoc loc;     // of the tile program
};

Stmt decl(Ty type, std::string name, Val initial = {});
Stmt decl_array(Ty type, std::string name, int count);
Stmt assign(std::string name, Val value);
Stmt assign(std::string array, Val index, Val value);
Stmt instr(Instr i);
Stmt if_(Val condition, Body then, Body orelse = {}, bool uniform = false);
Stmt for_(std::string name, Val begin, Val end, Val step, Body body, Unroll unroll = Unroll::kNo,
          bool uniform = true);
Stmt while_(Val condition, Body body);
Stmt comment(std::string text);

// ---- the kernel --------------------------------------------------------------------------------

struct SharedAlloc {
  std::string name;
  int64_t bytes = 0;
  int align = 16;
  int64_t offset = -1;    // from the window's start, which is aligned to 1024; set by plan_shared
  bool barriers = false;  // holds mbarriers, 8 bytes each
};

// How a tensor map is to be encoded: dimensions innermost first, one a dimension of the tensor.
enum class Swizzle : uint8_t { kNone, k32, k64, k128 };
struct TensorMapUse {
  std::string name, tensor;
  std::vector<int> box;  // elements, innermost first; 1 for dimensions that are indexed by a point
  Swizzle swizzle = Swizzle::kNone;
  int l2_promotion = 0;  // bytes
};

struct TensorUse {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<Expr> shape;
  bool written = false, read = false;
  bool workspace = false;  // allocated by the launcher
  bool zeroed = false;     // workspace: zeros when the kernel starts, and when it ends
  // No other argument overlaps it, by contract: while only read, it may go through the read-only
  // cache, which does not see the writes of others.
  bool unaliased = false;
  int align_bytes = 1;  // of the data and of every stride but the innermost, by contract
};
struct ScalarUse {
  std::string name;
  Ty type = Ty::kI32;
};

struct Program {
  std::string name;
  std::vector<TensorUse> tensors;  // passed as pointers, in this order, then the strides used
  std::vector<TensorMapUse> maps;
  std::vector<ScalarUse> scalars;  // dims (i32), "x.s0" strides in elements (i64), attributes (f32)
  std::vector<SharedAlloc> shared;
  Body body;
  // launch
  int threads = 128;
  int cluster = 1;                          // CTAs, along x
  Expr grid_x = 1, grid_y = 1, grid_z = 1;  // over dims and "SMS", the device's multiprocessors
  int min_ctas_per_sm = 1;                  // __launch_bounds__
  bool dependent_launch = false;
  int64_t shared_bytes = 0;        // dynamic; set by plan_shared
  std::vector<std::string> ptxas;  // further options
};

// Places the allocations in order, aligned; fails (RT-P002) beyond `limit` bytes (232,448 on
// sm_90).
Status plan_shared(Program& program, int64_t limit = 232448);
// Structural rules: every register declared before use and in scope, array indices constant after
// unrolling and in range, types agree, operand counts as instr.def says, names resolve.
Status verify(const Program& program);
// Readable form, for people and for tests; one statement a line.
std::string print(const Program& program);

// Replaces unrolled loops by their copies and folds constants; the emulator and the prover run on
// this form, the emitter prints the loops with a pragma.
Program unrolled(const Program& program);

}  // namespace rooftile::lanes
