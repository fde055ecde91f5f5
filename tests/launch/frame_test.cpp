#include "launch/frame.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <string>

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
