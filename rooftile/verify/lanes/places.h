// SPDX-License-Identifier: Apache-2.0
// Where instructions touch memory, as the walk sees it: elements of tensors, ranges of shared
// memory. Read by the proofs about bounds, alignment and the copy engine.
#pragma once

#include <functional>
#include <string>

#include "rooftile/lanes/lanes.h"
#include "rooftile/verify/lanes/walk.h"

namespace rooftile::verify {

// A place in shared memory: an allocation and an offset in it.
struct SharedPlace {
  const lanes::SharedAlloc* alloc = nullptr;  // null: the address is not one of an allocation
  Expr offset;
};

// Calls `with` for every allocation that the address may point into; the condition of it is among
// the facts then.
void for_places(Walk& walk, const Expr& address,
                const std::function<void(const SharedPlace&)>& with);

const lanes::TensorUse* tensor_named(const lanes::Program& program, const std::string& name);
const lanes::TensorMapUse* map_named(const lanes::Program& program, const std::string& name);
const lanes::SharedAlloc* alloc_named(const lanes::Program& program, const std::string& name);
// Of the data and of all strides but the innermost.
int align_of(const lanes::Program& program, const LaneContract& contract,
             const std::string& tensor);
int64_t box_bytes(const lanes::Program& program, const lanes::TensorMapUse& map);
// Bytes of a row of a swizzle's pattern; 16 without one.
constexpr int span_bytes(lanes::Swizzle swizzle) { return 16 << static_cast<int>(swizzle); }

}  // namespace rooftile::verify
