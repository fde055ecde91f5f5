#pragma once

#include <span>

/// One rank's place in the ring: a mailbox to the next rank, and one from the rank before.
class Neighbours {
 public:
  virtual ~Neighbours() = default;

  /// Puts a copy of `chunk` into the next rank's mailbox. Does not wait.
  virtual void send(std::span<const float> chunk) = 0;

  /// Waits for the oldest message of the rank before. It stays readable until the next receive.
  virtual std::span<const float> receive() = 0;
};

/// The exercise of lesson 04: an all-reduce as one rank runs it, while the other W - 1 do the same.
///
/// @param x    this rank's row, a multiple of W floats; becomes the sum of all ranks' rows
/// @param ring takes and gives chunks of x.size() / W floats, 2 (W - 1) of them each way
void ring_all_reduce(int rank, int W, std::span<float> x, Neighbours& ring);
