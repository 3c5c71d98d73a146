// SPDX-License-Identifier: Apache-2.0
#include "rooftile/base/hash.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace rooftile {

namespace {

// FIPS 180-4, section 4.2.2: the first 32 bits of the fractional parts of the cube roots of the
// first 64 primes.
constexpr std::array<uint32_t, 64> kRoundConstants = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

void put_big_endian(uint64_t value, size_t num_bytes, uint8_t* out) {
  for (size_t i = 0; i < num_bytes; ++i)
    out[i] = static_cast<uint8_t>(value >> (8 * (num_bytes - 1 - i)));
}

}  // namespace

void Sha256::compress(const uint8_t* block) {
  std::array<uint32_t, 64> w;
  for (size_t t = 0; t < 16; ++t)
    w[t] = uint32_t{block[4 * t]} << 24 | uint32_t{block[4 * t + 1]} << 16 |
           uint32_t{block[4 * t + 2]} << 8 | uint32_t{block[4 * t + 3]};
  for (size_t t = 16; t < 64; ++t) {
    uint32_t s0 = std::rotr(w[t - 15], 7) ^ std::rotr(w[t - 15], 18) ^ (w[t - 15] >> 3);
    uint32_t s1 = std::rotr(w[t - 2], 17) ^ std::rotr(w[t - 2], 19) ^ (w[t - 2] >> 10);
    w[t] = w[t - 16] + s0 + w[t - 7] + s1;
  }
  auto [a, b, c, d, e, f, g, h] = state_;
  for (size_t t = 0; t < 64; ++t) {
    uint32_t big_s1 = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
    uint32_t t1 = h + big_s1 + ((e & f) ^ (~e & g)) + kRoundConstants[t] + w[t];
    uint32_t big_s0 = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
    uint32_t t2 = big_s0 + ((a & b) ^ (a & c) ^ (b & c));
    h = g, g = f, f = e, e = d + t1;
    d = c, c = b, b = a, a = t1 + t2;
  }
  const std::array<uint32_t, 8> sum = {a, b, c, d, e, f, g, h};
  for (size_t i = 0; i < 8; ++i) state_[i] += sum[i];
}

Sha256& Sha256::update(std::string_view bytes) {
  num_bytes_ += bytes.size();
  while (!bytes.empty()) {
    if (num_pending_ == 0 && bytes.size() >= 64) {
      compress(reinterpret_cast<const uint8_t*>(bytes.data()));
      bytes.remove_prefix(64);
      continue;
    }
    size_t n = std::min(bytes.size(), 64 - num_pending_);
    std::memcpy(pending_.data() + num_pending_, bytes.data(), n);
    num_pending_ += n;
    bytes.remove_prefix(n);
    if (num_pending_ < 64) break;
    compress(pending_.data());
    num_pending_ = 0;
  }
  return *this;
}

Sha256& Sha256::field(std::string_view bytes) {
  std::array<uint8_t, 8> length;
  put_big_endian(bytes.size(), length.size(), length.data());
  update({reinterpret_cast<const char*>(length.data()), length.size()});
  return update(bytes);
}

std::string Sha256::hex() {
  // Padding: one bit, zeros up to 56 bytes in the last block, then the length in bits.
  std::array<uint8_t, 72> tail = {0x80};
  size_t num_zeros = (55 - num_bytes_ % 64 + 64) % 64;
  put_big_endian(num_bytes_ * 8, 8, tail.data() + 1 + num_zeros);
  update({reinterpret_cast<const char*>(tail.data()), 1 + num_zeros + 8});

  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out;
  for (uint32_t word : state_)
    for (int shift = 28; shift >= 0; shift -= 4) out += kDigits[(word >> shift) & 15];
  return out;
}

std::string sha256_hex(std::string_view bytes) { return Sha256().update(bytes).hex(); }

}  // namespace rooftile
