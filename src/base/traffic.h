#pragma once

#include <cstdint>

namespace nanofsdp {

/// @file
/// @brief Counts of operations and exact payload bytes: every communicator has them.
///
/// Payload bytes that one rank sends for n bytes a chunk (the direct algorithms; a ring moves the
/// same number): all_gather and reduce_scatter (W - 1) * n, all_reduce both, broadcast (W - 1) * n
/// at the root and 0 elsewhere. It receives as many, but for broadcast (n, 0 at the root). What
/// backends add to talk at all (headers, acknowledgements) does not count.

/// What one rank did. Control traffic counts in `control` only.
struct Traffic {
  std::int64_t all_gathers = 0;      ///< operations, as the next three
  std::int64_t reduce_scatters = 0;  ///< those that are not part of an all_reduce
  std::int64_t all_reduces = 0;      ///< each is one operation
  std::int64_t broadcasts = 0;       ///< also at the root
  std::int64_t bytes_sent = 0;       ///< of payload
  std::int64_t bytes_received = 0;   ///< of payload
  std::int64_t control = 0;          ///< operations

  /// Field by field.
  Traffic operator+(const Traffic& other) const { return plus(1, other); }
  /// What came since `other`.
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
