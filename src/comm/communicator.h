#pragma once

#include <memory>
#include <string>

#include "base/tensor.h"
#include "base/traffic.h"
#include "launch/rank_error.h"

namespace nanofsdp::comm {

/// @file
/// @brief The room `comm`: what ranks send to each other. These are the collectives of a group of W
/// ranks, ordered by streams.
///
/// Comes in: tensors, of the same sizes on every rank. Goes out: gathered or summed tensors. The
/// ranks are threads (local.h), processes (gloo.h) or GPUs (nccl.h). Ranks that can read each
/// other's memory move each byte once (reading.h).
///
/// Every call enqueues work on a stream and returns an Event. When the event has passed, the
/// collective is done. All ranks of a group call the same collectives, with the same counts and in
/// the same order. A communicator serves one stream; for a second stream `split` makes another one.
/// On a CPU, a call on another stream throws an Error while the last call is under way, and the
/// Error names both calls.
///
/// Buffers must stay alive and unchanged until the event has passed. Chunks have equal sizes, for
/// which the flat layout pads. As in NCCL, `in` of an all_gather may be the rank's chunk of `out`,
/// and `out` of a reduce_scatter may be the rank's chunk of `in`. Any other overlap is an error. A
/// reduce_scatter does not change the rest of `in`.
///
/// Sums add the ranks 0, 1, ..., W - 1 in this order and in float32, also for bfloat16. This holds
/// for every backend and any timing. So one process that adds in the same order gets the same bits.
/// An average is the sum, multiplied once by 1/W. Numbers that were sent as bfloat16 may arrive as
/// a float32 sum, which is not rounded. Only NCCL's ring adds in another order and rounds at each
/// rank, if the caller asks for it.

using nanofsdp::Traffic;

/// How a reduction combines the numbers of the ranks.
enum class ReduceOp { sum, average };

/// The unit that calls, and why. Errors name the unit. Control traffic is counted apart.
struct Call {
  std::string unit{};    ///< the FSDP unit, or what the call is for
  bool control = false;  ///< norms, losses, fingerprints: not part of the training traffic
};

/// A collective that failed. The communicator is unusable afterwards.
struct CommError : launch::RankError {
  /// The kinds of failures.
  enum class Kind {
    peer_lost,  ///< another rank has ended, and the cause is there
    timeout,    ///< a rank did not come in time
    mismatch,   ///< the ranks have called different collectives
    setup,      ///< the group could not be formed, and no other rank is the cause
    failed,     ///< the library below, Gloo or NCCL, has failed
    aborted     ///< this rank has given up after an error on another rank
  };
  /// A lost peer, or an abort, is the consequence of an error elsewhere (launch::RankError).
  CommError(Kind which, const std::string& message)
      : RankError(message, which == Kind::peer_lost || which == Kind::aborted), kind(which) {}

  Kind kind;  ///< the kind of failure
};

struct Operation;  // operation.h

/// A group of ranks, as one of them sees it. One thread issues all its calls. A call throws
/// ShapeError if its operands do not fit. If the collective fails, the call throws CommError, or
/// the wait for its event does.
class Communicator {
 public:
  Communicator(int rank, int size) : rank_(rank), size_(size) {}
  /// Aborts the collectives under way, and waits for them. Afterwards their buffers may be freed.
  virtual ~Communicator() = default;

  int rank() const { return rank_; }  ///< the number of this rank in the group, from 0 to W - 1
  int size() const { return size_; }  ///< W, the number of ranks in the group
  /// The chunk of `whole` [W * n] that belongs to this rank, [n].
  Tensor own_chunk(const Tensor& whole) const {
    return whole.slice(rank_ * (whole.numel() / size_), whole.numel() / size_);
  }

  /// Writes the `in` of all ranks to `out`, in the order of the ranks. Any dtype.
  /// @param in [n]  @param out [W * n]
  Event all_gather(Stream& stream, Tensor in, Tensor out, const Call& call = {});

  /// Sums or averages the `in` of all ranks, and writes chunk rank() of the result to `out`.
  /// @param in float32 or bfloat16 [W * n]  @param out of the same dtype, or float32 [n]
  Event reduce_scatter(Stream& stream, Tensor in, Tensor out, ReduceOp op, const Call& call = {});

  /// Replaces `x` on every rank by the `x` of rank `root`. Any dtype.
  Event broadcast(Stream& stream, Tensor x, int root, const Call& call = {});

  /// The event passes when every rank has reached the barrier. Control traffic.
  Event barrier(Stream& stream, const Call& call = {});

  /// Writes the sum or average of all `in` to `out` on every rank. It consists of a reduce_scatter
  /// and an all_gather in `out`.
  /// @param in float32 or bfloat16 [W * n]  @param out `in` itself, or float32 [W * n] apart from
  /// it
  Event all_reduce(Stream& stream, Tensor in, Tensor out, ReduceOp op, const Call& call = {});
  /// The same in place: replaces `x` by the sum or average.
  Event all_reduce(Stream& stream, Tensor x, ReduceOp op, const Call& call = {}) {
    return all_reduce(stream, x, x, op, call);
  }

  /// The calls and bytes so far. A call is counted when it is issued. A group that was split off
  /// has counts of its own.
  const Traffic& traffic() const { return traffic_; }
  void reset_traffic() { traffic_ = {}; }  ///< sets all counts to 0

  /// Runs one collective. Backends implement it, and communicators that wrap another one. In a
  /// broadcast `in` and `out` are both `x`; a barrier has neither.
  /// @param operation the call, which has no number yet
  virtual Event run(Stream& stream, const Operation& operation, Tensor in, Tensor out) = 0;

  /// Makes a group of the ranks that pass the same color. They keep their order, and the group has
  /// an order of calls of its own. Collective over this group; blocks the host.
  virtual std::unique_ptr<Communicator> split(int color) = 0;

  /// Says that this rank works alone as long as the result lives: it writes a file, or evaluates.
  /// Time in which a rank works alone does not count for the timeouts of the others, if all
  /// processes answer when they are asked. The rank must not call a collective meanwhile.
  ///
  ///     if (world.rank() == 0) {
  ///       const auto busy = world.busy("compresses the log");
  ///       compress(log);
  ///     }
  ///     world.barrier(stream);
  /// @param at what the rank does, for people: the words after "rank 0"
  /// @returns an object that must not outlive this communicator
  [[nodiscard]] std::shared_ptr<void> busy(const std::string& at);

  /// Says that this rank begins to work alone (1), or that it ends (-1). busy() calls it. Does
  /// nothing in a backend without timeouts.
  virtual void work(int /*begins*/, const std::string& /*at*/) {}

  /// Ends every collective under way with CommError::aborted. Later calls throw. Any thread may
  /// call it.
  virtual void abort(const std::string& reason) noexcept = 0;

 private:
  void count(const Call& call, const Traffic& traffic);

  const int rank_, size_;
  Traffic traffic_;
};

}  // namespace nanofsdp::comm
