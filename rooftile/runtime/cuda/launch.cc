// SPDX-License-Identifier: Apache-2.0
#include "rooftile/runtime/cuda/launch.h"

#include "rooftile/runtime/cuda/stream.h"

namespace rooftile::cuda {

namespace {

std::string text(const Dim3& dim) {
  return "(" + std::to_string(dim.x) + ", " + std::to_string(dim.y) + ", " + std::to_string(dim.z) +
         ")";
}

std::string describe(const LaunchConfig& config) {
  std::string out = config.shapes.str();
  out += (out.empty() ? "" : ", ") + std::string("grid ") + text(config.grid) + ", block " +
         text(config.block);
  if (config.cluster.count() > 1) out += ", cluster " + text(config.cluster);
  out += ", " + std::to_string(config.dynamic_smem_bytes) + " bytes of dynamic shared memory";
  if (config.dependent_launch) out += ", dependent launch";
  return out;
}

Diag bad(const Kernel& kernel, const LaunchConfig& config, std::string message, std::string found,
         std::string expected) {
  return {.code = ErrorCode::kLaunch,
          .subject = kernel.description(),
          .message = std::move(message),
          .found = std::move(found),
          .expected = std::move(expected),
          .when = describe(config)};
}

// The reason why `valid` is false.
[[gnu::cold, gnu::noinline]] Diag explain(const Kernel& kernel, const Device& device,
                                          const LaunchConfig& config) {
  const Dim3 &grid = config.grid, &block = config.block, &cluster = config.cluster;
  const DeviceInfo& info = device.info();
  if (grid.count() == 0 || block.count() == 0 || cluster.count() == 0)
    return bad(kernel, config, "a launch of nothing", "an extent of 0", "at least 1 everywhere");
  if (block.count() > kernel.max_threads())
    return bad(kernel, config, "the block is too large for the kernel",
               std::to_string(block.count()) + " threads",
               "at most " + std::to_string(kernel.max_threads()) +
                   ", from its launch bounds and registers");
  if (config.dynamic_smem_bytes > kernel.spec().dynamic_smem_bytes)
    return bad(kernel, config, "more shared memory than the kernel was made ready for",
               std::to_string(config.dynamic_smem_bytes) + " dynamic bytes",
               "at most " + std::to_string(kernel.spec().dynamic_smem_bytes));
  if (cluster.count() > kernel.spec().cluster.count())
    return bad(kernel, config, "a larger cluster than the kernel was made ready for", text(cluster),
               "at most " + std::to_string(kernel.spec().cluster.count()) + " blocks");
  if (grid.x % cluster.x != 0 || grid.y % cluster.y != 0 || grid.z % cluster.z != 0)
    return bad(kernel, config, "the grid is not a multiple of the cluster", text(grid),
               "multiples of " + text(cluster));
  return bad(kernel, config, "the grid is too large for the device", text(grid),
             "at most (" + std::to_string(info.max_grid_x) + ", " +
                 std::to_string(info.max_grid_y) + ", " + std::to_string(info.max_grid_z) + ")");
}

bool fits(uint32_t extent, int limit) { return extent <= static_cast<uint32_t>(limit); }

// Divisions only where there is a cluster: 32-bit ones cost about as much as the other checks.
bool valid(const Kernel& kernel, const Device& device, const LaunchConfig& config) {
  const Dim3 &grid = config.grid, &block = config.block, &cluster = config.cluster;
  const DeviceInfo& info = device.info();
  const uint64_t threads = block.count(), blocks_of_cluster = cluster.count();
  const bool extents = grid.count() != 0 && threads != 0 && blocks_of_cluster != 0 &&
                       fits(grid.x, info.max_grid_x) && fits(grid.y, info.max_grid_y) &&
                       fits(grid.z, info.max_grid_z);
  const bool resources = threads <= kernel.max_threads() &&
                         config.dynamic_smem_bytes <= kernel.spec().dynamic_smem_bytes &&
                         blocks_of_cluster <= kernel.spec().cluster.count();
  if (!extents || !resources) return false;
  return blocks_of_cluster == 1 ||
         (grid.x % cluster.x == 0 && grid.y % cluster.y == 0 && grid.z % cluster.z == 0);
}

constexpr size_t kMaxAttributes = 3;

// The attributes are the caller's memory: the driver's record points to them.
abi::LaunchConfig driver_config(const LaunchConfig& config, abi::LaunchAttribute* attributes) {
  unsigned count = 0;
  if (config.cluster.count() > 1) {
    attributes[count].id = abi::kLaunchClusterDimension;
    attributes[count].value.cluster = {config.cluster.x, config.cluster.y, config.cluster.z};
    ++count;
  }
  if (config.dependent_launch) {
    attributes[count].id = abi::kLaunchProgrammaticSerialization;
    attributes[count].value.flag = 1;
    ++count;
  }
  if (config.cooperative) {
    attributes[count].id = abi::kLaunchCooperative;
    attributes[count].value.flag = 1;
    ++count;
  }
  return {.grid_x = config.grid.x,
          .grid_y = config.grid.y,
          .grid_z = config.grid.z,
          .block_x = config.block.x,
          .block_y = config.block.y,
          .block_z = config.block.z,
          .dynamic_smem_bytes = config.dynamic_smem_bytes,
          .stream = config.stream,
          .attributes = count != 0 ? attributes : nullptr,
          .num_attributes = count};
}

}  // namespace

Status launch(const Kernel& kernel, const Device& device, const LaunchConfig& config,
              void** arguments) {
  abi::Function function = kernel.function(device);
  if (function == nullptr) [[unlikely]] {
    RT_RETURN_IF_ERROR(kernel.prepare(device, config.stream));
    function = kernel.function(device);
  }
  if (!valid(kernel, device, config)) [[unlikely]]
    return explain(kernel, device, config);
  abi::LaunchAttribute attributes[kMaxAttributes];
  const abi::LaunchConfig driver = driver_config(config, attributes);
  const ContextGuard current(device);
  abi::Result error = current.result();
  if (error == abi::kSuccess)
    error = device.api().LaunchKernelEx(&driver, function, arguments, nullptr);
  if (error != abi::kSuccess) [[unlikely]]
    return device.failed(error, "launching the kernel", kernel.description(), describe(config));
  device.note_launch(&kernel);
  return {};
}

Result<int> max_active_clusters(const Kernel& kernel, const Device& device,
                                const LaunchConfig& config) {
  RT_RETURN_IF_ERROR(kernel.prepare(device, config.stream));
  if (!valid(kernel, device, config)) return explain(kernel, device, config);
  abi::LaunchAttribute attributes[kMaxAttributes];
  const abi::LaunchConfig driver = driver_config(config, attributes);
  const ContextGuard current(device);
  int clusters = 0;
  const abi::Result error =
      device.api().OccupancyMaxActiveClusters(&clusters, kernel.function(device), &driver);
  if (error == abi::kSuccess) return clusters;
  return device.failed(error, "asking how many clusters run at once", kernel.description(),
                       describe(config));
}

}  // namespace rooftile::cuda
