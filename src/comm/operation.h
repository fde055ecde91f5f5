#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <type_traits>

#include "comm/communicator.h"

namespace nanofsdp::comm {

/// @file
/// @brief The description of a call, in bytes that other ranks compare with their own.

/// A call of a collective. All ranks of a group must make equal calls in the same order.
struct Operation {
  /// The collectives of a group; an all_reduce is two of them.
  enum class Kind : std::int32_t { all_gather, reduce_scatter, broadcast, barrier, split };

  std::uint64_t sequence = 0;       ///< the number of the call in its group, from 1
  std::int64_t count = 0;           ///< the elements of one rank's chunk
  Kind kind = Kind::barrier;        ///< the collective
  ReduceOp reduce = ReduceOp::sum;  ///< operation of a reduce_scatter
  DType dtype = DType::float32;     ///< the dtype of the elements
  std::int32_t root = 0;            ///< the rank that broadcasts
  std::array<char, 32> unit{};      ///< Call::unit, cut to its first 31 characters

  friend bool operator==(const Operation&, const Operation&) = default;
};
static_assert(sizeof(Operation) == 64 && std::has_unique_object_representations_v<Operation>);

/// Makes a call without a number. Its chunks are like `chunk`.
Operation operation_of(Operation::Kind kind, const Tensor& chunk, const Call& call,
                       ReduceOp reduce = ReduceOp::sum, int root = 0);

/// The text of a call, such as "all_gather 17 of 4097 float32 a rank for unit h.0". If the call has
/// no number, the text has none.
std::string describe(const Operation& operation);

/// The last five calls of a rank in one group. The latest is the last one. If there were fewer, the
/// others have the sequence 0. Ranks that use Gloo send it to each other with every call, as it
/// lies in memory. When they disagree it is too late to ask.
using History = std::array<Operation, 5>;

/// Gives a call its number and adds it. The oldest one is forgotten.
void append(History& history, const Operation& operation);

/// The error of a rank for which no group could be formed. If another rank is the cause, `kind` is
/// aborted.
CommError setup_error(int rank, const std::string& why,
                      CommError::Kind kind = CommError::Kind::setup);

/// The error of a rank if another rank has made a different call. It names both ranks and both
/// calls. For each rank it has a line with its last five calls, "... > all_gather 17 of 4097
/// float32 a rank for unit h.0".
CommError mismatch_error(int rank, const History& mine, int peer, const History& theirs);

/// The error of a rank that fails in its latest call. `what` says how; it follows the words "rank
/// 0". If this rank or another one has waited for its whole timeout, the error has a line with this
/// rank's last five calls, because every rank may be the one that made a wrong call.
CommError operation_error(CommError::Kind kind, int rank, const History& history,
                          const std::string& what);

}  // namespace nanofsdp::comm
