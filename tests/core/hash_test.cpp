#include "attune/core/hash.h"

#include <gtest/gtest.h>

#include <span>
#include <string>

namespace attune::hash_test {

std::uint64_t fnv1a(std::string_view text) {
  Fnv1a hash;
  hash.add(text);
  return hash.value();
}

// Published values of Fowler, Noll and Vo (test_fnv.c of their reference distribution).
TEST(Fnv1a, MatchesPublishedValues) {
  EXPECT_EQ(fnv1a(""), 0xcbf29ce484222325u);
  EXPECT_EQ(fnv1a("a"), 0xaf63dc4c8601ec8cu);
  EXPECT_EQ(fnv1a("foobar"), 0x85944171f73967e8u);
}

TEST(Fnv1a, PiecesHashLikeTheWhole) {
  Fnv1a hash;
  hash.add("foo");
  hash.add("");
  hash.add("bar");
  EXPECT_EQ(hash.value(), fnv1a("foobar"));
}

TEST(Fnv1a, NumbersAreEightLittleEndianBytes) {
  Fnv1a number;
  number.add(std::uint64_t{0x0807060504030201u});
  Fnv1a bytes;
  bytes.add(std::as_bytes(std::span("\1\2\3\4\5\6\7\10", 8)));
  EXPECT_EQ(number.value(), bytes.value());
}

TEST(ToHex, WritesSixteenDigits) {
  EXPECT_EQ(to_hex(0), "0000000000000000");
  EXPECT_EQ(to_hex(0x0123456789abcdefu), "0123456789abcdef");
  EXPECT_EQ(to_hex(~std::uint64_t{0}), "ffffffffffffffff");
}

// FIPS 180-4 example values (NIST, "SHA256.pdf" and the long message of a million a).
TEST(Sha256, MatchesPublishedValues) {
  EXPECT_EQ(sha256(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(sha256(std::string(1000000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

// Around the ends of a block, where the padding changes; expected values from Python's hashlib.
TEST(Sha256, PadsAtEveryBlockBoundary) {
  EXPECT_EQ(sha256(std::string(55, 'x')),
            "d5e285683cd4efc02d021a5c62014694958901005d6f71e89e0989fac77e4072");
  EXPECT_EQ(sha256(std::string(56, 'x')),
            "04c26261370ee7541549d16dee320c723e3fd14671e66a099afe0a377c16888e");
  EXPECT_EQ(sha256(std::string(63, 'x')),
            "75220b47218278e656f2013bb8f0c455a25eaf01e86c64924e9d48d89776d6f2");
  EXPECT_EQ(sha256(std::string(64, 'x')),
            "7ce100971f64e7001e8fe5a51973ecdfe1ced42befe7ee8d5fd6219506b5393c");
  EXPECT_EQ(sha256(std::string(65, 'x')),
            "9537c5fdf120482f7d58d25e9ed583f52c02b4e304ea814db1633ad565aed7e9");
  EXPECT_EQ(sha256(std::string(119, 'x')),
            "000b48d4edf0fa7bee3c6236ecd2785baa5db4eeb8bb54341b029e0d9fa5fb0c");
  EXPECT_EQ(sha256(std::string(120, 'x')),
            "13f05a0b594787f5ecd315edc96141bd3243203d1b7d4f0836f37308b276ba98");
}

}  // namespace attune::hash_test
