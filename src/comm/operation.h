#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "base/dtype.h"
#include "comm/communicator.h"

namespace nanofsdp::comm {

/// @file
/// @brief What a rank is about to do, in 64 bytes that its peers can compare with their own.

/// One call of a collective. All ranks of a group must make equal calls in the same order.
/// Trivially copyable: Gloo ranks send it to each other ahead of the payload.
struct Operation {
  enum class Kind : std::uint8_t { all_gather, reduce_scatter, broadcast, barrier, split };

  std::uint64_t sequence = 0;  ///< position among the group's calls, from 1
  std::int64_t count = 0;      ///< elements of one rank's chunk
  std::int32_t root = 0;       ///< of a broadcast
  Kind kind = Kind::barrier;
  ReduceOp reduce = ReduceOp::sum;
  DType dtype = DType::float32;
  std::array<char, 28> unit{};  ///< Call::unit, cut to its first 27 characters

  friend bool operator==(const Operation&, const Operation&) = default;
};
static_assert(sizeof(Operation) == 64);

/// "all_gather 17 of 4097 float32 a rank for unit h.0"
std::string describe(const Operation& operation);

/// The error of a rank whose peer makes another call. Names both ranks and both calls.
CommError mismatch_error(int rank, const Operation& mine, int peer, const Operation& theirs);

/// The error of a rank that fails in `operation`: `what` says how, in words that follow its rank.
CommError operation_error(CommError::Kind kind, int rank, const Operation& operation,
                          const std::string& what);

}  // namespace nanofsdp::comm
