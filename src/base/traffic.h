#pragma once

#include <cstdint>

namespace nanofsdp {

/// @file
/// @brief Counts of operations and of payload bytes. Every communicator keeps them.
///
/// For chunks of n bytes, a rank sends (W - 1) * n bytes in an all_gather, the same in a
/// reduce_scatter, and twice that in an all_reduce. These are the direct algorithms; a ring sends
/// the same number. In a broadcast the root sends (W - 1) * n bytes and the others none. A rank
/// receives the same number of bytes as it sends, except in a broadcast: the root receives 0 and
/// the others n. Bytes that a backend adds, such as headers and acknowledgements, do not count.

/// The operations and bytes of one rank. Control traffic counts in `control` only.
struct Traffic {
  std::int64_t all_gathers = 0;  ///< number of operations
  /// Number of operations; those inside an all_reduce do not count.
  std::int64_t reduce_scatters = 0;
  std::int64_t all_reduces = 0;     ///< number of operations
  std::int64_t broadcasts = 0;      ///< number of operations, at the root too
  std::int64_t bytes_sent = 0;      ///< payload bytes
  std::int64_t bytes_received = 0;  ///< payload bytes
  std::int64_t control = 0;         ///< number of operations

  /// The sum, field by field.
  Traffic operator+(const Traffic& other) const { return plus(1, other); }
  /// The difference, field by field: the traffic since `other`.
  Traffic operator-(const Traffic& other) const { return plus(-1, other); }
  friend bool operator==(const Traffic&, const Traffic&) = default;

 private:
  Traffic plus(std::int64_t sign, const Traffic& other) const {
    return {.all_gathers = all_gathers + sign * other.all_gathers,
            .reduce_scatters = reduce_scatters + sign * other.reduce_scatters,
            .all_reduces = all_reduces + sign * other.all_reduces,
            .broadcasts = broadcasts + sign * other.broadcasts,
            .bytes_sent = bytes_sent + sign * other.bytes_sent,
            .bytes_received = bytes_received + sign * other.bytes_received,
            .control = control + sign * other.control};
  }
};

}  // namespace nanofsdp
