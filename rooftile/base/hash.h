// SPDX-License-Identifier: Apache-2.0
// SHA-256 (FIPS 180-4): names cache entries by their content and tells damaged files from sound
// ones.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace rooftile {

class Sha256 {
 public:
  Sha256& update(std::string_view bytes);
  // Length first, then the bytes: fields hashed in sequence cannot run into one another.
  Sha256& field(std::string_view bytes);
  std::string hex();  // 64 lower-case digits; ends the computation

 private:
  void compress(const uint8_t* block);

  std::array<uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                    0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<uint8_t, 64> pending_{};
  size_t num_pending_ = 0;
  uint64_t num_bytes_ = 0;
};

std::string sha256_hex(std::string_view bytes);

}  // namespace rooftile
