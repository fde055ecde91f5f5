#pragma once

#include <cstdint>
#include <vector>

#include "base/context.h"
#include "comm/mesh.h"
#include "fsdp/adamw.h"
#include "fsdp/fully_shard.h"
#include "nn/tape.h"

namespace nanofsdp::plan {

/// @file
/// @brief A training of any language model without text and without first values. On a real or
/// simulated device, the engine allocates, issues and sends as in a training.

/// The work of one rank in an optimizer step, and between steps. Evaluations and samples are left
/// out, because they take less memory than a step.
struct Work {
  std::vector<std::int64_t> rows{};  ///< rows of each of the rank's micro-steps
  std::int64_t tokens = 1;           ///< tokens of a row
  std::int64_t batch_rows = 0;       ///< rows for which it has memory; 0: the most of `rows`
  int sums = 0;                      ///< sums of losses that the program keeps for every rank
  bool draws = true;                 ///< whether the first values are drawn, not loaded
  /// How many units, the last ones before the root, stay unsharded until backward; all at most.
  int unsharded_units = 0;
};

/// One rank of a training. The model takes tokens [B, T] and returns logits [B, T, V].
class Rehearsal {
 public:
  /// Shards the model, and allocates all memory that lasts for the whole run.
  /// @param context, mesh, model outlive this object
  Rehearsal(Context& context, comm::Mesh& mesh, nn::Module& model, const fsdp::Options& options,
            const Work& work);

  /// Makes one optimizer step: all micro-steps, the norm, AdamW. The first step sizes the tape.
  void step();

  fsdp::ShardedModel& model() { return sharded_; }  ///< the sharded model
  fsdp::AdamW& optimizer() { return optimizer_; }   ///< its optimizer
  nn::Tape& tape() { return tape_; }                ///< its activations

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
