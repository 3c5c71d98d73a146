// SPDX-License-Identifier: Apache-2.0
// Vectors: FIPS 180-4 examples (NIST "SHA256.pdf" and the long-message example), and the empty
// message.
#include "rooftile/base/hash.h"

#include <gtest/gtest.h>

namespace rooftile {
namespace {

TEST(Sha256, FipsVectors) {
  EXPECT_EQ(sha256_hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256_hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256_hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(sha256_hex(std::string(1'000'000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, PiecesGiveTheSameAsTheWhole) {
  std::string text;
  for (int i = 0; i < 300; ++i) text += static_cast<char>('a' + i % 26);
  for (size_t length : {55u, 56u, 63u, 64u, 65u, 119u, 128u, 300u}) {
    const std::string message = text.substr(0, length);
    for (size_t piece : {1u, 7u, 64u, 100u}) {
      Sha256 hash;
      for (size_t at = 0; at < length; at += piece) hash.update(message.substr(at, piece));
      EXPECT_EQ(hash.hex(), sha256_hex(message)) << length << " in pieces of " << piece;
    }
  }
}

TEST(Sha256, FieldsDoNotRunIntoOneAnother) {
  EXPECT_NE(Sha256().field("ab").field("c").hex(), Sha256().field("a").field("bc").hex());
}

}  // namespace
}  // namespace rooftile
