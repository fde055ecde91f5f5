#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/buffer.h"
#include "base/context.h"
#include "fsdp/flat_layout.h"
#include "fsdp/strategy.h"
#include "nn/parameter.h"

namespace nanofsdp::fsdp {

/// @file
/// @brief Parameters of one unit as one row of elements, and the views that show them.
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
/// holds a whole copy can tell whether it is stale. Values that a parameter has when its row is
/// built are kept.
///
/// All parameters of a row train, or all are frozen; a unit that has both kinds has two rows. A
/// frozen row has no gradient: it takes no memory, and nothing reduces or updates it.
///
/// **No gradient is written -0.** A parameter for which backward did not ask on any rank has no
/// gradient (PyTorch's `None`), and an optimizer has to leave it alone, which is not what it does
/// with a zero. Before a reduction each rank writes -0 where it has none. As x + -0 = x for every
/// x, also for x = +0, this counts for nothing in a sum, and stays only where all ranks wrote it.
/// No other gradient is -0: it was added to +0. (One that vanishes from below in all its elements,
/// when it is averaged or rounded, looks like none.)

/// One row of a unit, on one rank.
class ShardedParameters {
 public:
  /// @param parameters all of which train, or none, in the model's order, all float32; they outlive
  ///        this object
  /// @param kept what this rank keeps a shard of
  ShardedParameters(Context& context, std::vector<nn::Parameter*> parameters, int rank,
                    int world_size, const Sharding& kept, std::int64_t alignment);

  const FlatLayout& layout() const { return layout_; }  ///< of the row, over the ranks
  /// The parameters, in their order in the row.
  std::span<nn::Parameter* const> parameters() const { return parameters_; }
  /// Whether it has gradients. A row of no parameters has none.
  bool trains() const { return !parameters_.empty() && parameters_[0]->requires_grad; }

  /// The elements of the row that are this rank's shard, kept alone or not.
  Range shard_range() const { return layout_.shard_of(rank_); }
  /// The part of the row that this rank answers for, its optimizer and its checkpoint.
  Range optimizer_range() const { return kept_.optimizer ? shard_range() : layout_.whole(); }

  /// What this rank keeps for good: the shard, or the whole row.
  Tensor parameter_storage() const { return all_of(parameters_memory_); }
  Tensor gradient_storage() const { return all_of(gradients_memory_); }  ///< the same

  /// This rank's shard: [shard_numel].
  Tensor parameter_shard() const { return part_of(parameter_storage(), shard_range()); }
  /// As for parameters.
  Tensor gradient_shard() const { return part_of(gradient_storage(), shard_range()); }

  /// What this rank answers for.
  Tensor optimizer_parameters() const { return part_of(parameter_storage(), optimizer_range()); }
  /// The gradients of the same elements.
  Tensor optimizer_gradients() const { return part_of(gradient_storage(), optimizer_range()); }

  /// Points `data` of every parameter at the row `memory`: the whole of it [padded_numel], or what
  /// is stored.
  void show_parameters(Tensor memory);
  /// The same for `grad`.
  void show_gradients(Tensor memory);

  /// Whole gradients have been zeroed: none of them has been asked for yet.
  void forget_gradients();
  /// Whole gradients are about to be reduced: -0 into those that backward did not ask for.
  /// @param full [padded_numel]
  void mark_missing_gradients(Stream& stream, Tensor full);
  /// Whether any rank had a gradient of parameter `i`, since `zero_grad`, after the reduction.
  /// Waits for the stream only if this rank had none.
  bool has_gradient(std::size_t i) const;
  /// What zero_grad leaves: no gradients, or zeros, which are gradients.
  void zero_grad(bool set_to_none);

  /// Keeps what belongs to this rank of parameter `i`, given whole, in the host's memory.
  void store(std::size_t i, std::span<const float> whole);

  /// Says that the stored parameters have been written.
  void written() { ++version_; }
  std::int64_t version() const { return version_; }  ///< 0: never written

 private:
  static Tensor all_of(const Buffer& memory);
  Range range_of(const Tensor& memory) const;
  Tensor part_of(const Tensor& memory, Range range) const;
  Tensor view_of(std::size_t i, const Tensor& memory) const;

  Context& context_;
  std::vector<nn::Parameter*> parameters_;
  FlatLayout layout_;
  Sharding kept_;
  int rank_;
  Buffer parameters_memory_;
  Buffer gradients_memory_;
  std::vector<bool> had_gradient_;  // on this rank, since zero_grad
  std::int64_t version_ = 0;
};

/// The rows of a unit: the parameters that train, which may be none; then those that are frozen, if
/// there are any. The arguments are those of a row.
std::vector<ShardedParameters> shard(Context& context, std::span<nn::Parameter* const> parameters,
                                     int rank, int world_size, const Sharding& kept,
                                     std::int64_t alignment);

/// Names and shapes, of which a layout is made.
std::vector<ParameterSpec> specs_of(std::span<nn::Parameter* const> parameters);

}  // namespace nanofsdp::fsdp
