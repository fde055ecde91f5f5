#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace nanofsdp::launch {

/// @file
/// @brief What a rank and the store say to each other.
///
///     rank                          store
///     hello  token, Member    →
///                             ←     welcome, or refused  why
///     set    key, value       →
///     get    key              →
///                             ←     value  key, value (as soon as there is one)
///     failed why              →
///                             ←     lost   rank, when and how, to every rank, once
///     roll_call               →           (which rank does not move?)
///                             ←     ping, to every rank
///     pong   idle, work       →           (or be lost)
///                             ←     pong   the least idle, to every rank: all have answered
///     leave                   →
///                             ←     left, to every rank, when all want to leave

/// One message.
struct Frame {
  /// The messages above, each from a rank or from the store.
  enum class Kind : std::uint32_t {
    hello,
    welcome,
    refused,
    set,
    get,
    value,
    failed,
    lost,
    roll_call,
    ping,
    pong,
    leave,
    left
  };
  Kind kind = Kind::hello;  ///< which message
  std::string key{};        ///< the key of a value; hello: the token; pong: idle time in ms
  std::string value{};      ///< or why, or what a rank works at
};

/// What a rank claims to be, in the bytes of its hello.
struct Member {
  std::uint64_t program = 0;  ///< a fingerprint of its executable
  std::int32_t rank = 0;      ///< that it claims
  std::int32_t size = 0;      ///< ranks that it expects
};

/// The bytes of a message, which take_frame() reads.
std::string encode(const Frame& frame);

/// Takes the first frame off `buffer`; none if it has not come as a whole.
/// @throws Error for bytes that cannot become one: the other end is no rank of ours
std::optional<Frame> take_frame(std::string& buffer);

}  // namespace nanofsdp::launch
