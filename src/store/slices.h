#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "fsdp/layout.h"
#include "fsdp/sharded_optimizer.h"
#include "fsdp/unit.h"

namespace nanofsdp::store {

/// @file
/// @brief What a rank saves and loads of parameters and Adam's moments: any world size to any
/// other.
///
/// A rank saves its shard of every unit, parameter by parameter, and leaves the padding out. Where
/// a piece begins and ends is counted from the start of its parameter. The root of our GPT, 16,640
/// elements, saved by 4 ranks and loaded by 3:
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
/// Names and ranges know nothing of the number of ranks, of units, of the strategy. So a rank of
/// any other run asks for the ranges that it needs, and copies from each saved one what overlaps:
/// to load is to intersect intervals. (PyTorch's distributed checkpoint makes the same plan for
/// DTensors.) No rank ever sees a whole parameter, and nothing is sent.
///
/// Over the ranks of a shard group every element is saved exactly once, whatever the strategy:
/// where a rank has more than its shard (no_shard), it saves the shard only. Replicas
/// (hybrid_shard) hold the same, so the first shard group saves for all.
///
/// This file knows no file format; store has one.

/// Neighbouring elements of one parameter, with what the optimizer remembers of them, as they lie
/// in a rank's memory.
struct StateSlice {
  fsdp::ParameterSpec parameter;  ///< whose elements these are
  fsdp::Range range;              ///< of the parameter's elements, row-major; not empty
  Tensor values;                  ///< float32 [range.size()], a view, as the next ones
  std::vector<Tensor> state{};    ///< none if the parameter is frozen
  std::span<const std::string> state_names{};  ///< of as many (sharded_optimizer.h)
  std::int64_t* steps = nullptr;  ///< that the parameter has made; null if it is frozen
};

/// What this rank saves.
/// @param units whose state `optimizer` keeps
std::vector<StateSlice> slices_to_save(std::span<fsdp::Unit> units,
                                       fsdp::ShardedOptimizer& optimizer);

/// What this rank needs, to be overwritten in place: what its optimizer updates, a shard or all.
/// @throws Error if a unit is not at rest
std::vector<StateSlice> slices_to_load(std::span<fsdp::Unit> units,
                                       fsdp::ShardedOptimizer& optimizer);

/// Says that those have been overwritten: whole copies of the old parameters are stale.
/// @param steps that the optimizer has made
void finish_loading(std::span<fsdp::Unit> units, fsdp::ShardedOptimizer& optimizer,
                    std::int64_t steps);

/// One copy from a saved range to a wanted one.
struct ReadItem {
  std::size_t saved = 0;  ///< which range
  fsdp::Range in_saved;   ///< from its start
  fsdp::Range in_wanted;  ///< from the start of the wanted one, same size

  friend bool operator==(const ReadItem&, const ReadItem&) = default;
};

/// The copies that fill `wanted`, in the order of its elements.
/// @param saved ranges of the same parameter, in any order
/// @returns nothing if they leave a gap in it, or have an element of it twice
std::optional<std::vector<ReadItem>> plan_reads(fsdp::Range wanted,
                                                std::span<const fsdp::Range> saved);

}  // namespace nanofsdp::store
