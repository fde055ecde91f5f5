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

/// Trains like train::Trainer, without files. A test compares the losses, bit for bit.
class Training {
 public:
  /// Builds and initialises the model. Collective.
  /// @param context, settings, dataset outlive the training
  Training(Context& context, comm::Mesh mesh, const Settings& settings,
           const data::Dataset& dataset);

  /// Makes one optimizer step, and keeps its loss and gradient norm.
  void step();

  double loss() const { return loss_; }            ///< mean loss of the last step over all tokens
  double grad_norm() const { return grad_norm_; }  ///< norm of the last step before clipping
  std::int64_t steps() const { return steps_; }    ///< number of steps so far

  /// The fingerprint of every weight, in float32, in the order of the units. Collective.
  std::uint64_t fingerprint_of_weights();
  /// Lets the model write a text. Collective.
  std::string sample(std::int64_t length);

  /// The bytes that activations take now: the tape's, and the batch. Call it after the first step,
  /// when all of them lie in one block.
  std::int64_t activations();

  /// The probe of the element that the settings name.
  Probe probe() {
    return Probe(sharded_.units(), optimizer_, settings_.parameter, settings_.element);
  }

  comm::Mesh& mesh() { return mesh_; }              ///< the mesh of all ranks
  fsdp::ShardedModel& model() { return sharded_; }  ///< the sharded model

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
  Buffer batch_;  // int32: inputs and targets
  train::LossMeter losses_;
  Address bottom_ = 0;  // address of the tape in a pass
  double loss_ = 0, grad_norm_ = 0;
  std::int64_t steps_ = 0;
};

}  // namespace nanofsdp::play
