#include "launch/frame.h"

#include <cstring>

#include "base/check.h"

namespace nanofsdp::launch {
namespace {

struct Header {
  std::uint32_t magic = 0x6e667334;  // changes with the protocol
  Frame::Kind kind = Frame::Kind::hello;
  std::uint32_t key_bytes = 0;
  std::uint32_t value_bytes = 0;
};

constexpr std::uint32_t kMostBytes = 1 << 20;  // the largest key or value; ours are far smaller

}  // namespace

std::string encode(const Frame& frame) {
  const Header header{.kind = frame.kind,
                      .key_bytes = static_cast<std::uint32_t>(frame.key.size()),
                      .value_bytes = static_cast<std::uint32_t>(frame.value.size())};
  std::string bytes(reinterpret_cast<const char*>(&header), sizeof header);
  return bytes += frame.key + frame.value;
}

std::optional<Frame> take_frame(std::string& buffer) {
  Header header;
  if (buffer.size() < sizeof header) return std::nullopt;
  std::memcpy(&header, buffer.data(), sizeof header);
  NANOFSDP_CHECK(header.magic == Header{}.magic && header.kind <= Frame::Kind::leave &&
                     header.key_bytes <= kMostBytes && header.value_bytes <= kMostBytes,
                 .what = "message between ranks", .got = "bytes that are none");
  const std::size_t size = sizeof header + header.key_bytes + header.value_bytes;
  if (buffer.size() < size) return std::nullopt;
  Frame frame{.kind = header.kind,
              .key = buffer.substr(sizeof header, header.key_bytes),
              .value = buffer.substr(sizeof header + header.key_bytes, header.value_bytes)};
  buffer.erase(0, size);
  return frame;
}

}  // namespace nanofsdp::launch
