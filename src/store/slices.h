#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "fsdp/sharded_optimizer.h"
#include "store/whole.h"

namespace nanofsdp::store {

/// @file
/// @brief Which elements of parameters and of Adam's moments a rank saves and loads. A model that
/// was saved at one world size can be loaded at any other.
///
/// A rank saves its shard of every unit, parameter by parameter, without the padding. The range of
/// a piece counts from the start of its parameter. This is the root of our GPT, 16,640 elements,
/// saved by 4 ranks and loaded by 3:
///
///     rank 0 of 4 saves   wte [0, 4160)
///     rank 1 of 4 saves   wte [4160, 8320)
///     rank 2 of 4 saves   wpe [0, 4160)
///     rank 3 of 4 saves   wpe [4160, 8192), ln_f [0, 128)
///
///     rank 0 of 3 loads   wte [0, 5548)                      from rank 0 and rank 1
///     rank 1 of 3 loads   wte [5548, 8320), wpe [0, 2776)    from rank 1 and rank 2
///     rank 2 of 3 loads   wpe [2776, 8192), ln_f [0, 128)    from rank 2 and rank 3
///
/// Names and ranges do not depend on the number of ranks, on units or on the strategy. So a rank of
/// any other run looks for the ranges that it needs, and copies from each saved range the part that
/// overlaps: to load is to intersect intervals. (PyTorch's distributed checkpoint makes the same
/// plan for DTensors.) No rank ever sees a whole parameter, and nothing is sent.
///
/// The ranks of a shard group together save every element exactly once, under every strategy. A
/// rank that holds more than its shard (no_shard) saves only the shard. Replicas (hybrid_shard)
/// hold the same elements, so only the first shard group saves. If replicas split the update
/// (hybrid_shard_optimizer), every rank saves the shard that it updates.
///
/// If the model is divided over tensor groups, each part is saved by the shard group that has it,
/// with its place in the whole parameter (whole.h). The first rank of a tensor group saves the
/// parameters that all its ranks have.
///
/// This file knows no file format.

/// Neighbouring elements of one parameter, with the optimizer's state of them, as they lie in a
/// rank's memory.
struct StateSlice {
  fsdp::ParameterSpec parameter;  ///< the parameter of the whole model
  /// Range of the elements of the part that this rank's tensor group gives it, row-major; not
  /// empty. Without tensor groups the part is the parameter.
  fsdp::Range range;
  /// Views into the shard, float32 [range.size()]. The first has the parameter's name. If the
  /// parameter is not frozen, the optimizer's states follow (sharded_optimizer.h) as NAME.STATE.
  std::vector<std::pair<std::string, Tensor>> tensors{};
  std::int64_t* steps = nullptr;  ///< steps that the parameter has made; null if it is frozen
  Blocks blocks{};                ///< the place of the part in the whole parameter
};

/// The purpose for which a rank asks for its slices.
enum class Slices { to_save, to_load };

/// The slices of this rank. It saves its shard alone. It loads, in place, all elements that its
/// optimizer updates, which are a shard or whole parameters.
/// @param units whose state `optimizer` keeps
/// @throws Error if a rank loads and a unit is not at rest
std::vector<StateSlice> slices_of(std::span<fsdp::Unit> units, fsdp::ShardedOptimizer& optimizer,
                                  Slices purpose);

/// Tells the units that their parameters have been overwritten, so whole copies of them are stale.
/// @param steps that the optimizer has made
void finish_loading(std::span<fsdp::Unit> units, fsdp::ShardedOptimizer& optimizer,
                    std::int64_t steps);

/// One copy of elements that were saved.
struct ReadItem {
  std::size_t saved = 0;  ///< index of the saved range
  fsdp::Range in_saved;   ///< the elements, counted from its start

  friend bool operator==(const ReadItem&, const ReadItem&) = default;
};

/// The copies that fill the wanted ranges, one behind the other.
/// @param saved ranges of the same parameter, in any order
/// @returns nothing if the saved ranges lack an element that is wanted, or hold any element twice
std::optional<std::vector<ReadItem>> plan_reads(std::span<const fsdp::Range> wanted,
                                                std::span<const fsdp::Range> saved);

}  // namespace nanofsdp::store
