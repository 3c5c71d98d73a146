// SPDX-License-Identifier: Apache-2.0
#include "rooftile/verify/lanes/places.h"

#include <algorithm>

namespace rooftile::verify {

using K = ExprKind;

namespace {

constexpr std::string_view kPrefix = "shared.";

bool mentions_shared(const Expr& e) {
  if (e.kind() == K::kSym) return e.name().starts_with(kPrefix);
  return std::any_of(e.args().begin(), e.args().end(), mentions_shared);
}

// The sum without its one term that is the start of an allocation.
bool split(const lanes::Program& program, const Expr& e, SharedPlace& out) {
  if (e.kind() == K::kSym && e.name().starts_with(kPrefix)) {
    if (out.alloc != nullptr) return false;
    out.alloc = alloc_named(program, e.name().substr(kPrefix.size()));
    return out.alloc != nullptr;
  }
  if (!mentions_shared(e)) {
    out.offset = out.offset + e;
    return true;
  }
  if (e.kind() == K::kSub && !mentions_shared(e.args()[1])) {
    out.offset = out.offset - e.args()[1];
    return split(program, e.args()[0], out);
  }
  return e.kind() == K::kAdd && split(program, e.args()[0], out) &&
         split(program, e.args()[1], out);
}

template <class T>
const T* named(const std::vector<T>& all, const std::string& name) {
  const auto it = std::find_if(all.begin(), all.end(), [&](const T& t) { return t.name == name; });
  return it == all.end() ? nullptr : &*it;
}

}  // namespace

const lanes::TensorUse* tensor_named(const lanes::Program& program, const std::string& name) {
  return named(program.tensors, name);
}
const lanes::TensorMapUse* map_named(const lanes::Program& program, const std::string& name) {
  return named(program.maps, name);
}
const lanes::SharedAlloc* alloc_named(const lanes::Program& program, const std::string& name) {
  return named(program.shared, name);
}

int align_of(const lanes::Program& program, const LaneContract& contract,
             const std::string& tensor) {
  const lanes::TensorUse* use = tensor_named(program, tensor);
  const auto it = contract.align_bytes.find(tensor);
  return std::max(use == nullptr ? 1 : use->align_bytes,
                  it == contract.align_bytes.end() ? 1 : it->second);
}

int64_t box_bytes(const lanes::Program& program, const lanes::TensorMapUse& map) {
  const lanes::TensorUse* tensor = tensor_named(program, map.tensor);
  int64_t bytes = tensor == nullptr ? 1 : size_bytes(tensor->dtype);
  for (int extent : map.box) bytes *= extent;
  return bytes;
}

void for_places(Walk& walk, const Expr& address,
                const std::function<void(const SharedPlace&)>& with) {
  if (address.kind() == K::kSelect && mentions_shared(address)) {
    for (const bool taken : {true, false}) {
      walk.questions().push();
      walk.questions().assume(taken ? address.args()[0] : !address.args()[0]);
      if (!walk.symbols().dead()) for_places(walk, address.args()[taken ? 1 : 2], with);
      walk.questions().pop();
    }
    return;
  }
  SharedPlace place;
  if (!split(walk.program(), address, place)) place.alloc = nullptr;
  with(place);
}

}  // namespace rooftile::verify
