#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace nanofsdp::launch {

/// @file
/// @brief The messages between a rank and the store.
///
///     rank                          store
///     hello  token, Member    →
///                             ←     value  kWelcome, or lost  why
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
///                             ←     value  kLeft, to every rank, when all are ready to leave

/// One message.
struct Frame {
  /// The kinds of messages.
  enum class Kind : std::uint32_t {
    hello,
    set,
    get,
    value,
    failed,
    lost,
    roll_call,
    ping,
    pong,
    leave
  };
  Kind kind = Kind::hello;  ///< kind of the message
  std::string key{};        ///< the key of a value; hello: the token; pong: idle time in ms
  std::string value{};      ///< the value; or the reason, or the work of a rank
};

/// The keys of values that only the store sets.
inline constexpr char kWelcome[] = "store/welcome", kLeft[] = "store/left";

/// A rank's description of itself, as bytes in its hello.
struct Member {
  std::uint64_t program = 0;  ///< a fingerprint of its executable
  std::int32_t rank = 0;      ///< its number
  std::int32_t size = 0;      ///< number of ranks that it expects
};

/// The bytes of a message, which take_frame() reads.
std::string encode(const Frame& frame);

/// Takes the first frame off `buffer`. Returns nothing if its bytes have not all come.
/// @throws Error for bytes that cannot become a frame: the other end is not a rank of ours
std::optional<Frame> take_frame(std::string& buffer);

}  // namespace nanofsdp::launch
