// SPDX-License-Identifier: Apache-2.0
#include "rooftile/runtime/cuda/workspace.h"

#include <compare>
#include <list>
#include <map>
#include <mutex>

#include "rooftile/runtime/cuda/memory.h"
#include "rooftile/runtime/cuda/stream.h"

namespace rooftile::cuda {
namespace {

struct Key {
  int device;
  abi::Stream stream;
  uint64_t capture;  // 0: none
  GpuWorkspace kind;
  auto operator<=>(const Key&) const = default;
};

struct Blocks {
  std::mutex mutex;
  std::map<Key, DeviceBuffer> by_key;
  // Blocks that were too small stay: work that was given to a stream, or a graph, still uses them.
  std::list<DeviceBuffer> outgrown;
};

Blocks& blocks() {
  // Never destroyed: the driver may be gone when the process ends.
  static auto& kept = *new Blocks;
  return kept;
}

Result<DeviceBuffer> make_block(const Device& device, const Key& key, int64_t bytes) {
  Result<DeviceBuffer> block = key.capture == 0 ? DeviceBuffer::allocate(device, bytes, key.stream)
                                                : DeviceBuffer::allocate_for_graph(device, bytes);
  // In a capture this becomes a part of the graph, before the first kernel that needs it.
  if (block.ok() && key.kind == GpuWorkspace::kZeroed)
    RT_RETURN_IF_ERROR(fill(device, block->data(), 0, block->bytes(), key.stream));
  return block;
}

}  // namespace

Result<char*> device_workspace(const Device& device, abi::Stream stream, GpuWorkspace kind,
                               int64_t bytes) {
  const Key key = {device.ordinal(), stream, capture_id(device, stream), kind};
  std::lock_guard lock(blocks().mutex);
  auto& by_key = blocks().by_key;
  auto it = by_key.find(key);
  if (it != by_key.end() && it->second.bytes() >= bytes)
    return static_cast<char*>(it->second.data());
  Result<DeviceBuffer> grown = make_block(device, key, bytes + bytes / 2);
  if (!grown.ok()) return grown.diag();
  if (it != by_key.end()) {
    blocks().outgrown.push_back(std::move(it->second));
    by_key.erase(it);
  }
  it = by_key.emplace(key, std::move(*grown)).first;
  return static_cast<char*>(it->second.data());
}

}  // namespace rooftile::cuda
