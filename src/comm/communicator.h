#pragma once

#include <memory>
#include <string>

#include "base/device.h"
#include "base/tensor.h"
#include "comm/traffic.h"
#include "launch/rank_error.h"

namespace nanofsdp::comm {

/// @file
/// @brief The room `comm`: what ranks say to each other. Collectives of a group of W ranks, ordered
/// by streams.
///
/// Comes in: tensors, the same sizes on every rank. Goes out: gathered or summed tensors, over
/// threads (local.h), processes (gloo.h) or GPUs (nccl.h). Ranks that can read each other's memory
/// move each byte once: reading.h says why that is the least.
///
/// Every call enqueues work on a stream and returns an Event: the collective is done when the event
/// has passed. All ranks of a group call the same collectives with the same counts in the same
/// order, on one stream a communicator; use two communicators (`split`) for two streams. Where
/// ranks are on the CPU, a call on another stream is refused while the call before is under way: an
/// Error names both.
///
/// Buffers stay alive and untouched until the event has passed. Chunks are equal (the flat layout
/// pads). In-place as NCCL defines it: all_gather with `in` the rank's chunk of `out`,
/// reduce_scatter with `out` the rank's chunk of `in`; any other overlap is an error. A
/// reduce_scatter leaves the rest of `in` as it was.
///
/// Sums run over ranks 0, 1, ..., W - 1 in this order, in float32 (bfloat16 too), whatever the
/// backend and whatever the timing: one process that adds in the same order gets the same bits. An
/// average is the sum times 1/W, once. Only NCCL's ring, if a caller asks for it, adds otherwise.

/// What a reduction makes of the ranks' numbers.
enum class ReduceOp { sum, average };

/// The unit that asks, and why: named in errors. Control traffic is counted apart.
struct Call {
  std::string unit{};    ///< the FSDP unit, or what the call is for
  bool control = false;  ///< norms, losses, fingerprints: not part of the training traffic
};

/// A collective that failed. The communicator is unusable afterwards.
class CommError : public launch::RankError {
 public:
  /// What went wrong.
  enum class Kind {
    peer_lost,  ///< another rank went away: the cause lies there
    timeout,    ///< a rank did not come in time
    mismatch,   ///< ranks called different collectives
    setup,      ///< the group could not be formed
    failed,     ///< the library underneath, for reasons of its own
    aborted     ///< this rank gave up after an error elsewhere
  };
  /// A lost peer, or an abort, is the consequence of an error elsewhere (launch::RankError).
  CommError(Kind kind, const std::string& message)
      : RankError(message, kind == Kind::peer_lost || kind == Kind::aborted), kind_(kind) {}
  Kind kind() const { return kind_; }  ///< what went wrong

 private:
  Kind kind_;
};

struct Collective;  // operation.h

/// One rank's end of a group. One thread issues all its calls. They throw ShapeError for operands
/// that do not fit, and CommError where the collective fails: here, or where a caller waits for its
/// event.
class Communicator {
 public:
  Communicator(int rank, int size) : rank_(rank), size_(size) {}  ///< of `size` ranks
  /// Work in flight is aborted and waited for: after this, buffers may go.
  virtual ~Communicator() = default;

  int rank() const { return rank_; }  ///< in the group, 0 ... W - 1
  int size() const { return size_; }  ///< W

  /// out = the ranks' `in`, concatenated in rank order. Any dtype.
  /// @param in [n]  @param out [W * n]
  Event all_gather(Stream& stream, Tensor in, Tensor out, const Call& call = {});

  /// out = chunk `rank()` of the sum (or average) of the ranks' `in`. float32 or bfloat16.
  /// @param in [W * n]  @param out [n]
  Event reduce_scatter(Stream& stream, Tensor in, Tensor out, ReduceOp op, const Call& call = {});

  /// Every rank's `x` becomes rank `root`'s. Any dtype.
  Event broadcast(Stream& stream, Tensor x, int root, const Call& call = {});

  /// The event passes when every rank has reached the barrier. Control traffic.
  Event barrier(Stream& stream, const Call& call = {});

  /// Every rank's `x` becomes the sum (or average) of all: a reduce_scatter and an all_gather, both
  /// in place.
  /// @param x [W * n]
  Event all_reduce(Stream& stream, Tensor x, ReduceOp op, const Call& call = {});

  /// What the calls moved, each counted when it was issued. A group that was split off counts for
  /// itself.
  const Traffic& traffic() const { return traffic_; }
  void reset_traffic() { traffic_ = {}; }  ///< all counts to 0

  /// Does one of the four above. For backends, and for communicators that wrap another.
  virtual Event run(Stream& stream, const Collective& collective) = 0;

  /// The ranks that pass the same color, in the order of their ranks here, as a group of their own
  /// with its own order of calls. Collective over this group; blocks the host.
  virtual std::unique_ptr<Communicator> split(int color) = 0;

  /// While the result lives, this rank works at something alone: it writes a file, or evaluates.
  /// Ranks that wait for it, or for one that waits for it, go on waiting when their timeout is
  /// over. They do so as long as the processes of all ranks answer. The rank calls no collective
  /// meanwhile.
  ///
  ///     if (world.rank() == 0) {
  ///       const auto busy = world.busy("compresses the log");
  ///       compress(log);
  ///     }
  ///     world.barrier(stream);
  /// @param at what, after the words "rank 0", for people
  [[nodiscard]] std::shared_ptr<void> busy(const std::string& at);

  /// This rank begins to work alone (1), or ends (-1). For busy(), and for communicators that wrap
  /// another; nothing where no rank waits for a limited time.
  virtual void work(int /*begins*/, const std::string& /*at*/) {}

  /// Wakes every operation in flight with CommError::aborted; further calls throw. From any thread.
  virtual void abort(const std::string& reason) noexcept = 0;

 private:
  Event issue(Stream& stream, const Collective& collective);

  const int rank_, size_;
  Traffic traffic_;
};

}  // namespace nanofsdp::comm
