#include "launch/frame.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "base/check.h"

namespace nanofsdp::testing {
namespace {

using launch::Frame;

// The header of a frame that announces these numbers of bytes for key and value.
std::string header(std::uint32_t key_bytes, std::uint32_t value_bytes) {
  std::string bytes = launch::encode({.kind = Frame::Kind::hello});
  std::memcpy(bytes.data() + 8, &key_bytes, sizeof key_bytes);
  std::memcpy(bytes.data() + 12, &value_bytes, sizeof value_bytes);
  return bytes;
}

// Bytes that do not begin like a frame may be many, so they are refused before all have come.
TEST(Frame, BeginsWithTheWordOfThisProtocol) {
  const std::string good = launch::encode({.kind = Frame::Kind::leave});
  for (std::size_t bit = 0; bit < 32; ++bit) {
    std::string bytes = good;
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << bit % 8));
    EXPECT_THROW(launch::take_frame(bytes), Error) << bit;
  }
  std::string bytes = good;
  EXPECT_TRUE(launch::take_frame(bytes));
  bytes = good;
  ++bytes[4];  // a kind that does not exist
  EXPECT_THROW(launch::take_frame(bytes), Error);
}

// Frames come in pieces of any length, and several of them may come together.
TEST(Frame, IsTakenAsItWasSentHoweverItsBytesCome) {
  std::mt19937 words(3);
  const auto some_text = [&] {
    std::string text(words() % 4 == 0 ? words() % 300 : words() % 4, '\0');
    for (char& c : text) c = static_cast<char>(words());
    return text;
  };
  for (int run = 0; run < 100; ++run) {
    std::vector<Frame> sent, taken;
    std::string bytes, buffer;
    for (std::size_t i = 0; i <= words() % 8; ++i) {
      sent.push_back({static_cast<Frame::Kind>(words() % 10), some_text(), some_text()});
      bytes += launch::encode(sent.back());
    }
    while (!bytes.empty()) {
      const std::size_t come = std::min<std::size_t>(bytes.size(), 1 + words() % 200);
      buffer += bytes.substr(0, come);
      bytes.erase(0, come);
      while (const auto frame = launch::take_frame(buffer)) taken.push_back(*frame);
    }
    EXPECT_TRUE(buffer.empty());
    ASSERT_EQ(taken.size(), sent.size());
    for (std::size_t i = 0; i < sent.size(); ++i) {
      EXPECT_EQ(taken[i].kind, sent[i].kind);
      EXPECT_EQ(taken[i].key, sent[i].key);
      EXPECT_EQ(taken[i].value, sent[i].value);
    }
  }
}

// A process that announces more bytes than ranks ever send is refused by the header alone.
// Otherwise its bytes would be collected before its token is checked.
TEST(Frame, OfMoreThanAMegabyteIsRefusedByItsHeader) {
  for (const std::uint32_t bytes : {1u, 1000u, 1u << 20}) {
    std::string key = header(bytes, 0), value = header(0, bytes);
    EXPECT_FALSE(launch::take_frame(key)) << bytes;
    EXPECT_FALSE(launch::take_frame(value)) << bytes;
  }
  for (const std::uint32_t bytes : {(1u << 20) + 1, 1u << 24, 1u << 31, 0xffffffffu}) {
    std::string key = header(bytes, 0), value = header(0, bytes);
    EXPECT_THROW(launch::take_frame(key), Error) << bytes;
    EXPECT_THROW(launch::take_frame(value), Error) << bytes;
  }
}

}  // namespace
}  // namespace nanofsdp::testing
