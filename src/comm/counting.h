#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "comm/communicator.h"

namespace nanofsdp::comm {

/// @file
/// @brief Counts operations and exact payload bytes of another communicator.
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

  Traffic operator+(const Traffic& other) const;  ///< field by field
  Traffic operator-(const Traffic& other) const;  ///< what came since `other`
  friend bool operator==(const Traffic&, const Traffic&) = default;
};

/// Does what `inner` does and counts each call when it is issued. For the thread that issues.
class CountingCommunicator final : public Communicator {
 public:
  /// Takes the communicator over; counts begin at 0.
  explicit CountingCommunicator(std::unique_ptr<Communicator> inner)
      : Communicator(inner->rank(), inner->size()), inner_(std::move(inner)) {}

  const Traffic& traffic() const { return traffic_; }  ///< since the last reset()
  void reset() { traffic_ = {}; }                      ///< all counts to 0

  Event run(Stream& stream, const Collective& collective) override;
  Event all_reduce(Stream& stream, Tensor x, ReduceOp op, const Call& call = {}) override;

  /// The new group counts for itself.
  std::unique_ptr<Communicator> split(int color) override {
    return std::make_unique<CountingCommunicator>(inner_->split(color));
  }
  void abort(const std::string& reason) noexcept override { inner_->abort(reason); }

 private:
  void count(bool control, std::int64_t Traffic::*operations, std::int64_t sent,
             std::int64_t received);

  std::unique_ptr<Communicator> inner_;
  Traffic traffic_;
};

}  // namespace nanofsdp::comm
