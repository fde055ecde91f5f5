#pragma once

#include <cstdint>
#include <vector>

#include "base/buffer.h"
#include "base/context.h"
#include "comm/mesh.h"
#include "fsdp/adamw.h"
#include "fsdp/fully_shard.h"
#include "nn/tape.h"

namespace nanofsdp::plan {

/// @file
/// @brief A training of any language model without text and without first values: what the engine
/// allocates, issues and sends, on a device that is real or simulated.

/// What one rank does in an optimizer step, and beside its steps. An evaluation and a sample are
/// not told of: they take less than a step.
struct Work {
  std::vector<std::int64_t> rows{};  ///< of each of its micro-steps
  std::int64_t tokens = 1;           ///< of a row
  std::int64_t batch_rows = 0;       ///< for which its memory for batches is; 0: the most of `rows`
  int sums = 0;                      ///< that the program keeps of every rank: of losses
  bool draws = true;                 ///< the first values, rather than load them
  bool saves = false;                ///< the weights, at some time
};

/// One rank of a training. The model takes tokens [B, T] and gives logits [B, T, V].
class Rehearsal {
 public:
  /// Shards the model, and takes all memory that lasts.
  /// @param context, mesh, model outlive this object
  Rehearsal(Context& context, comm::Mesh& mesh, nn::Module& model, const fsdp::Options& options,
            const Work& work);

  /// One optimizer step: all micro-steps, the norm, AdamW. The first sizes the tape.
  void step();

  /// A look at all weights, one unit after the other, as for a file: if there is any.
  void save();

  fsdp::ShardedModel& model() { return sharded_; }  ///< as it is sharded

 private:
  Context& context_;
  Work work_;
  fsdp::ShardedModel sharded_;
  nn::Tape tape_;
  fsdp::AdamW optimizer_;
  Buffer batch_;  // int32, inputs and targets
  Buffer sums_;   // float64
};

}  // namespace nanofsdp::plan
