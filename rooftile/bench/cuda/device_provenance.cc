// SPDX-License-Identifier: Apache-2.0
#include "rooftile/bench/cuda/device_provenance.h"

#include "rooftile/bench/cuda/cublaslt.h"

namespace rooftile::bench {

DeviceProvenance device_provenance(const cuda::Device& device) {
  DeviceProvenance out;
  out.name = device.info().name;
  out.driver = gpu_driver_version();
  const int version = device.driver().version();
  out.cuda = std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
  if (const auto library = CublasLt::load()) out.cublaslt = (*library)->version();
  return out;
}

}  // namespace rooftile::bench
