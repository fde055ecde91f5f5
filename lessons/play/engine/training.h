#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/context.h"
#include "base/rng.h"
#include "comm/mesh.h"
#include "data/batch_plan.h"
#include "data/dataset.h"
#include "engine/probe.h"
#include "engine/settings.h"
#include "fsdp/adamw.h"
#include "fsdp/fully_shard.h"
#include "fsdp/grad_norm.h"
#include "gpt/gpt.h"
#include "nn/tape.h"
#include "train/loss_meter.h"

namespace nanofsdp::play {

/// @file
/// @brief One rank of a training, on a real device or a simulated one.

/// As train::Trainer, without files: the same losses to the bit, which a test holds.
class Training {
 public:
  /// Builds and initialises the model. Collective.
  /// @param context, settings, dataset outlive the training
  Training(Context& context, comm::Mesh mesh, const Settings& settings,
           const data::Dataset& dataset);

  /// One optimizer step; its loss and gradient norm are kept.
  void step();

  double loss() const { return loss_; }            ///< of the last step, mean over all tokens
  double grad_norm() const { return grad_norm_; }  ///< of the last step, before clipping
  std::int64_t steps() const { return steps_; }    ///< so far

  /// Of every weight, in float32, in the order of the units. Collective.
  std::uint64_t fingerprint_of_weights();
  /// What the model writes. Collective.
  std::string sample(std::int64_t length);

  /// Bytes that activations take now: the tape's, and the batch. After the first step only, when
  /// all of them lie in one block.
  std::int64_t activations();

  /// Of the element that the settings name.
  Probe probe() {
    return Probe(sharded_.units(), optimizer_, settings_.parameter, settings_.element);
  }

  comm::Mesh& mesh() { return mesh_; }              ///< of all ranks
  fsdp::ShardedModel& model() { return sharded_; }  ///< as it is sharded

 private:
  void initialise();
  void micro_step(const data::MicroStep& micro_step, bool last);
  Tensor batch(int half, std::int64_t rows) const;

  Context& context_;
  const Settings& settings_;
  const data::Dataset& dataset_;
  comm::Mesh mesh_;
  Generator generator_;
  gpt::GPT model_;
  fsdp::ShardedModel sharded_;
  nn::Tape tape_;
  fsdp::GradNorm norm_;
  fsdp::AdamW optimizer_;
  data::StepShape shape_;
  std::vector<data::MicroStep> plan_;
  std::vector<std::int32_t> drawn_;
  Buffer batch_;  // int32, inputs and targets
  train::LossMeter losses_;
  Address bottom_ = 0;  // of the tape, in a pass
  double loss_ = 0, grad_norm_ = 0;
  std::int64_t steps_ = 0;
};

}  // namespace nanofsdp::play
