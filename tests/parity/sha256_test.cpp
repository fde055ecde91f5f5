#include "support/sha256.h"

#include <gtest/gtest.h>

#include <string>

namespace nanofsdp {
namespace {

// These are FIPS 180-4's examples: an empty message, one block, and a message that needs a second
// block.
TEST(Sha256, KnownDigests) {
  const auto digest = [](const std::string& s) {
    return testing::sha256(std::span<const char>(s));
  };
  EXPECT_EQ(digest(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(digest("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(digest("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

}  // namespace
}  // namespace nanofsdp
