#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/buffer.h"
#include "base/context.h"
#include "fsdp/flat_layout.h"
#include "fsdp/sharding_strategy.h"
#include "nn/parameter.h"

namespace nanofsdp::fsdp {

/// @file
/// @brief The parameters of one unit as one row of elements, and the views that show them.
///
/// A rank keeps for good either its shard of the row or, where the strategy does not shard, the
/// whole row, of which its shard is a slice:
///
///     sharded:      storage = [ shard r ]
///     not sharded:  storage = [ shard 0 | ... | shard r | ... | shard W-1 ]
///
/// The same holds for the gradients. `show` points the views of all parameters at a row: at the
/// whole of it for the model to compute with, or at this rank's shard, where each parameter sees
/// the piece that lies in it (FSDP paper, arXiv 2304.11277, section 3.2.1).
///
/// The shard is the truth, and it carries a version: every write counts it up, so that whoever
/// holds a whole copy can tell whether it is stale. Values that a parameter has when its flat
/// parameter is built are kept. A frozen parameter lies in the row as any other and is gathered
/// with it, but shows no gradient.
class FlatParameter {
 public:
  /// @param parameters of one unit, in the model's order, all float32; they outlive this object
  FlatParameter(Context& context, std::vector<nn::Parameter*> parameters, int rank, int world_size,
                const ShardingStrategy& strategy, std::int64_t alignment);

  const FlatLayout& layout() const { return layout_; }
  std::span<nn::Parameter* const> parameters() const { return parameters_; }

  /// The elements of the row that are this rank's shard, kept alone or not.
  Range shard_range() const { return layout_.shard_of(rank_); }

  /// This rank's shard: [shard_numel].
  Tensor parameter_shard() const { return shard_of(parameter_storage()); }
  Tensor gradient_shard() const { return shard_of(gradient_storage()); }

  /// What this rank keeps for good: the shard, or the whole row.
  Tensor parameter_storage() const { return parameters_memory_.tensor({parameter_range_.size()}); }
  Tensor gradient_storage() const { return gradients_memory_.tensor({gradient_range_.size()}); }

  /// The part of the row that the optimizer of this rank updates, and these elements of it.
  Range optimizer_range() const { return optimizer_range_; }
  Tensor optimizer_parameters() const;
  Tensor optimizer_gradients() const;

  /// Points `data` of every parameter at the whole row `full` [padded_numel].
  void show_parameters(Tensor full);
  /// Points `grad` of every parameter at the whole row `full` [padded_numel].
  void show_gradients(Tensor full);

  /// Points the views back at what this rank keeps.
  void show_stored_parameters();
  void show_stored_gradients();

  /// Keeps what belongs to this rank of parameter `i`, given whole, in the host's memory.
  void store(std::size_t i, std::span<const float> whole);

  /// Says that the stored parameters have been written.
  void written() { ++version_; }
  std::int64_t version() const { return version_; }  ///< 0: never written

 private:
  Tensor shard_of(const Tensor& storage) const;

  Context& context_;
  std::vector<nn::Parameter*> parameters_;
  FlatLayout layout_;
  int rank_;
  Range parameter_range_;  // of the row: what is kept
  Range gradient_range_;
  Range optimizer_range_;
  Buffer parameters_memory_;
  Buffer gradients_memory_;
  std::int64_t version_ = 0;
};

/// Names and shapes, of which a layout is made.
std::vector<ParameterSpec> specs_of(std::span<nn::Parameter* const> parameters);

}  // namespace nanofsdp::fsdp
