// SPDX-License-Identifier: Apache-2.0
// What a launcher checks of a call, as data: the list that the text is printed from, and that the
// proofs read when they ask whether everything they assume is checked.
//
// Kinds, ranks, dtypes, devices and null pointers are checked besides, of every argument.
#pragma once

#include <string>
#include <vector>

#include "rooftile/ir/ir.h"

namespace rooftile::host {

struct HostCheck {
  enum Kind : uint8_t {
    kExtents,     // of `tensor`: none negative, all below 2^48
    kExtentIs,    // extent `axis` of `tensor` is what its shape says
    kUnitStride,  // the innermost stride of `tensor` is 1
    kAligned,     // data of `tensor`, and its rows where it asks for more than its elements need
    kReach,       // of `tensor`: no element lies 2^58 elements or more from the first
    kApart,       // elements of the output `tensor` share no byte
    kNoOverlap,   // the output `tensor` shares no byte with `other`, unless it may be the same
    kAttrRange,   // of the integer attribute `scalar`
    kCondition,   // `clause` holds
    kIndex,       // `clause` about the values of an index tensor holds
  } kind = kExtents;
  const ir::TensorParam* tensor = nullptr;
  const ir::TensorParam* other = nullptr;
  const ir::ScalarParam* scalar = nullptr;
  const ir::Clause* clause = nullptr;
  size_t axis = 0;
};

inline constexpr int kExtentBits = 48;  // extents are below 2^48
inline constexpr int kReachBits = 58;   // offsets in elements are below 2^58

// In the order of the text. Pointers into `program`. `on_gpu`: index tensors lie in device memory
// and are not looked into; what the contract says of their values is the caller's promise.
std::vector<HostCheck> host_checks(const ir::Program& program, bool on_gpu);

// Where each dim gets its value: the first argument that has it as a bare extent.
struct DimSource {
  std::string dim;
  const ir::TensorParam* tensor = nullptr;
  size_t axis = 0;
};
std::vector<DimSource> dim_sources(const ir::Program& program);

bool is_output(const ir::TensorParam& tensor);
// Bytes that data must be aligned to: what it asks for, and at least an element.
int required_alignment(const ir::TensorParam& tensor);

}  // namespace rooftile::host
