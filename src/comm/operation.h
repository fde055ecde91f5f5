#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <type_traits>

#include "base/dtype.h"
#include "comm/communicator.h"

namespace nanofsdp::comm {

/// @file
/// @brief What a rank is about to do, in bytes that its peers can compare with their own.

/// One call of a collective. All ranks of a group must make equal calls in the same order.
struct Operation {
  /// The collectives of a group; an all_reduce is two of them.
  enum class Kind : std::int32_t { all_gather, reduce_scatter, broadcast, barrier, split };

  std::uint64_t sequence = 0;       ///< position among the group's calls, from 1
  std::int64_t count = 0;           ///< elements of one rank's chunk
  Kind kind = Kind::barrier;        ///< which collective
  ReduceOp reduce = ReduceOp::sum;  ///< of a reduce_scatter
  DType dtype = DType::float32;     ///< of the elements
  std::int32_t root = 0;            ///< of a broadcast
  std::array<char, 32> unit{};      ///< Call::unit, cut to its first 31 characters

  friend bool operator==(const Operation&, const Operation&) = default;
};
static_assert(sizeof(Operation) == 64 && std::has_unique_object_representations_v<Operation>);

/// A call that has no number yet, of a collective whose chunks are like `chunk`.
Operation operation_of(Operation::Kind kind, const Tensor& chunk, const Call& call);

/// "all_gather 17 of 4097 float32 a rank for unit h.0"; without the number, if it has none yet.
std::string describe(const Operation& operation);

/// A call as a backend gets it, with operands that fit.
struct Collective {
  Operation operation{};  ///< without its number
  Tensor in{}, out{};     ///< of a broadcast both are `x`; a barrier has none
  bool control = false;   ///< as Call::control
};

/// A rank's last five calls in one group, the latest last; sequence 0 where there were fewer. Gloo
/// ranks send it to each other as it lies in memory, with every call: when they disagree it is too
/// late to ask.
using History = std::array<Operation, 5>;

/// Adds a call, with its number, and forgets the oldest one.
void append(History& history, const Operation& operation);

/// The error of a rank of the run that finds no group.
CommError setup_error(int rank, const std::string& why);

/// The error of a rank whose peer makes another call. Names both ranks and both calls, and has a
/// line for the last five calls of each, "... > all_gather 17 of 4097 float32 a rank for unit h.0".
CommError mismatch_error(int rank, const History& mine, int peer, const History& theirs);

/// The error of a rank that fails in its latest call: `what` says how, in words that follow its
/// rank. If a rank has waited for as long as its timeout, this one or another, the error has a line
/// for this rank's last five calls: any rank may be the one that went astray.
CommError operation_error(CommError::Kind kind, int rank, const History& history,
                          const std::string& what);

}  // namespace nanofsdp::comm
