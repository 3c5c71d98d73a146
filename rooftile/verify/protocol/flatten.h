// SPDX-License-Identifier: Apache-2.0
// A kernel cut down to its protocol: a flat list of operations on the registers that address or
// steer.
//
// Loops marked kUnroll are gone. A register is kept if a condition, an address, a guard or a parity
// of something that matters depends on it; what only computes numbers is dropped, but for which
// registers of running products it touches. Branches and loops without an event inside are one
// operation each.
#pragma once

#include <string>
#include <vector>

#include "rooftile/base/diag.h"
#include "rooftile/lanes/lanes.h"
#include "rooftile/verify/protocol/terms.h"

namespace rooftile::verify::protocol {

using NodeId = int32_t;
inline constexpr NodeId kNoNode = -1;
// Shared addresses: where the window of a CTA begins, and where mapa puts the rank of a peer.
inline constexpr int64_t kWindow = 1024;
inline constexpr int kRankShift = 24;

struct Node {
  enum Kind : uint8_t { kValue, kSlot, kSpecial, kFn, kUnknown } kind = kUnknown;
  lanes::Ty type = lanes::Ty::kI32, from = lanes::Ty::kI32;
  lanes::Fn fn = lanes::Fn::kAdd;
  lanes::Special special = lanes::Special::kTid;
  ValueId value = kUnknownValue;
  int slot = -1;
  int allocation = -1;  // whose address `value` is
  std::vector<NodeId> args;
};

enum class OpKind : uint8_t {
  kAssign,     // slot <- node
  kLoad,       // slot <- an element of a tensor
  kTouch,      // registers of products are used by the warp
  kForget,     // `slots` hold nothing known
  kUndeclare,  // `slots` hold nothing
  kIf,         // node; to `target` (after its kElse, or its kEnd) where no lane takes it
  kElse,       // to `target`: the kEnd
  kEnd,        // of an if
  kLoop,       // for slot = begin .. end by step; loop `loop`
  kLoopTest,   // leave to `target`
  kLoopNext,   // to `target`: the test
  kInstr,      // an event
  kExit,
  kRefuse,  // what the exploration does not model
};

struct Op {
  OpKind kind = OpKind::kExit;
  bool uniform = false;
  int target = 0;
  int slot = -1;
  NodeId node = kNoNode;
  NodeId begin = kNoNode, end = kNoNode, step = kNoNode;
  NodeId guard = kNoNode;
  std::vector<NodeId> args;  // of an instruction; of a load: the indices
  std::vector<int> slots;
  uint64_t touched = 0;              // groups of product registers
  uint64_t sums = 0, fragments = 0;  // of a wgmma
  int loop = -1;
  bool local = false;  // kLoop: no event inside but accesses to shared memory
  const lanes::Stmt* stmt = nullptr;
  std::string why;  // kRefuse
};

struct Flat {
  lanes::Program program;  // unrolled; statements are referred to
  std::vector<Op> ops;
  std::vector<Node> nodes;
  std::vector<std::string> slot_names;
  std::vector<std::string> group_names;  // of product registers
  std::vector<ValueId> facts;            // of every launch: >= 0
  int num_loops = 0;
  bool async_shared = false;  // the async proxy meets shared memory
};

// `terms` gets the symbols of the kernel; `facts` bound them.
Result<Flat> flatten(const lanes::Program& program, const std::vector<Expr>& facts, Terms& terms);

}  // namespace rooftile::verify::protocol
