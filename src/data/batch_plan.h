#pragma once

#include <cstdint>
#include <vector>

namespace nanofsdp::data {

/// @file
/// @brief Decides which rank computes which rows of a step. A step has the same rows at every world
/// size.
///
/// A step is G micro-batches of B rows, at every number of ranks W. Ranks share them in two ways:
///
///     G % W == 0    whole micro-batches: rank r takes [r G/W, (r+1) G/W), all B rows of each
///     otherwise     rows: every rank makes all G micro-steps, with its share of the B rows
///
/// In the second way, the shares of ranks differ by at most one row. No share is larger than that
/// of rank 0, whose memory a run reports. Every rank makes the same number of micro-steps, because
/// collectives need all ranks, and every rank has rows. The gradient of the step is the sum over
/// all tokens divided by their global number, G B T, so shares may differ.
///
/// These functions only compute numbers, so they are tested without a run.

/// The size of one optimizer step.
struct StepShape {
  std::int64_t batch_size = 1;                   ///< B >= 1: rows of a micro-batch
  std::int64_t gradient_accumulation_steps = 1;  ///< G >= 1: micro-batches
  int ranks = 1;                                 ///< W >= 1

  /// The number of rows of the step, over all ranks.
  std::int64_t rows() const { return batch_size * gradient_accumulation_steps; }
};

/// Rows [first, first + count) of a micro-batch.
struct BatchRows {
  std::int64_t first = 0;  ///< first row, counted within the micro-batch from 0
  std::int64_t count = 0;  ///< number of rows

  friend bool operator==(const BatchRows&, const BatchRows&) = default;
};

/// One forward and backward pass of one rank.
struct MicroStep {
  std::int64_t index = 0;  ///< number of the micro-batch in [0, G), counted over all ranks
  BatchRows rows;          ///< at least one row

  friend bool operator==(const MicroStep&, const MicroStep&) = default;
};

/// A rank's share of B rows: [ceil(r B/W), ceil((r+1) B/W)). With B < W, some ranks have none.
BatchRows share_of(std::int64_t rows, int ranks, int rank);

/// @throws UsageError with the remedy if there are fewer rows than ranks, or if ranks must share
///   the rows of a micro-batch (G % W != 0) and there are fewer rows than ranks
void check_step(const StepShape& shape);

/// The number of micro-steps of each rank: G / W or G.
std::int64_t micro_steps_per_rank(const StepShape& shape);

/// The micro-steps of one rank in the order of their index.
/// @throws UsageError as check_step()
std::vector<MicroStep> plan_step(const StepShape& shape, int rank);

}  // namespace nanofsdp::data
