#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/buffer.h"
#include "base/context.h"
#include "fsdp/layout.h"
#include "fsdp/strategy.h"
#include "nn/parameter.h"

namespace nanofsdp::fsdp {

/// @file
/// @brief Parameters of one unit as one row of elements, and the views that show them.
///
/// A rank keeps for good either its shard or, where the strategy does not shard, the whole, of
/// which its shard is a slice in the flat layout:
///
///     sharded:      storage = [ shard r ]
///     not sharded:  storage = [ shard 0 | ... | shard r | ... | shard W-1 ]
///
/// The same holds for the gradients. `show` points the views of all parameters at whole memory for
/// the model to compute with, or at what is stored, where each parameter sees the piece of it that
/// lies in this rank's shard (FSDP paper, arXiv 2304.11277, section 3.2.1).
///
/// The shard is the truth, and it carries a version: every write counts it up, so that a
/// user of an unsharded copy sees whether it is stale. Values that a parameter has when its row is
/// built are kept.
///
/// All parameters of a row train, or all are frozen; a unit that has both kinds has two rows. A
/// frozen row has no gradient: it takes no memory, and nothing reduces or updates it. All of a row
/// are stored in one dtype: frozen parameters in bfloat16 have a row of their own. A parameter that
/// is frozen later stays in the row that trains, and has no gradient there.
///
/// **No gradient is written -0.** A parameter for which backward did not ask on any rank has no
/// gradient (PyTorch's `None`), and an optimizer has to leave it alone, which is not what it does
/// with a zero. Before a reduction each rank writes -0 where it has none. As x + -0 = x for every
/// x, also for x = +0, this does not change a sum, and stays only where all ranks wrote it.
/// No other gradient is -0: it was added to +0. (One that vanishes from below in all its elements,
/// when it is averaged or rounded, looks like none.)

/// One row of a unit, on one rank.
class ShardedParameters {
 public:
  /// @param parameters all of which train, or none, of one dtype, in the model's order; they
  ///        outlive this object. Values that they have are float32, and are rounded here
  /// @param kept what this rank keeps a shard of. Only the flat layout's shard is a slice of the
  ///        whole: with the other one, all that the optimizer reads is sharded, or nothing
  /// @throws Error if one of them is sharded already
  ShardedParameters(Context& context, std::vector<nn::Parameter*> parameters, int rank,
                    int world_size, const Sharding& kept, std::int64_t alignment,
                    LayoutKind kind = LayoutKind::flat);
  /// The parameters show no memory any more: neither values nor gradients.
  ~ShardedParameters();
  ShardedParameters(ShardedParameters&&) = default;

  const Layout& layout() const { return layout_; }  ///< of the row, over the ranks
  int rank() const { return rank_; }                ///< of the shard that this rank has
  /// In which it is stored.
  DType dtype() const { return stored_parameters_.all.dtype(); }
  /// The parameters, in their order in the row.
  std::span<nn::Parameter* const> parameters() const { return parameters_; }
  /// Whether it has gradients. A row of no parameters has none.
  bool trains() const { return trains_; }

  /// Throws if a parameter of a frozen row is to train, or one has another dtype than it had.
  void require_unchanged() const;

  /// What this rank keeps for good: the shard, or the whole.
  Tensor parameter_storage() const { return stored_parameters_.all; }
  Tensor gradient_storage() const { return stored_gradients_.all; }  ///< the same

  /// What this rank answers for, its optimizer and its checkpoint: its shard, [shard_numel], or,
  /// where nothing is sharded, the whole.
  Tensor parameter_shard() const { return shard_of(stored_parameters_); }
  Tensor gradient_shard() const { return shard_of(stored_gradients_); }  ///< of the same elements
  const Sharding& kept() const { return kept_; }  ///< what this rank keeps a shard of
  /// Where parameter `i` lies in what this rank answers for.
  Piece owned(std::size_t i) const { return kept_.optimizer ? layout_.piece(i, rank_) : all(i); }

  /// The shape of what this rank answers for of parameter `i`: all of it; rows of it, [rows, ...],
  /// where the layout cuts between rows; else [elements].
  Shape owned_shape(std::size_t i) const { return shape_of(i, kept_.optimizer); }

  /// Points `data` of every parameter at `whole` [whole_numel], or, if it is empty, at what is
  /// stored.
  void show_parameters(Tensor whole = {});
  /// The same for `grad`.
  void show_gradients(Tensor whole = {});

  /// Whole gradients have been zeroed: no backward has added to them yet.
  void forget_gradients();
  /// Whole gradients are about to be reduced: -0 into those to which no backward added.
  /// @param whole [whole_numel]
  void mark_missing_gradients(Stream& stream, Tensor whole);
  /// Whether the gradient shard holds sums over all ranks. Until it does there are no gradients:
  /// what a rank or a group of ranks has added up is not yet theirs.
  bool is_reduced() const { return reduced_; }
  void set_reduced(bool reduced) { reduced_ = reduced; }  ///< says so
  /// Of which parameters any rank had a gradient, since `zero_grad`, after the reduction. Waits for
  /// the stream only if this rank had none of some.
  std::vector<bool> have_gradients() const;
  /// Writes what zero_grad leaves: no gradients, or zeros, which are gradients of what trains.
  void zero_grad(bool set_to_none);

  /// Keeps what belongs to this rank of parameter `i`, given whole, in the host's memory; rounded,
  /// if it is stored so.
  void store(std::size_t i, std::span<const float> whole);

  /// Says that the stored parameters have been written: all of them, or only some that had values.
  void written(bool all = true) {
    ++version_;
    if (all) has_value_.assign(parameters_.size(), true);
  }
  std::int64_t version() const { return version_; }              ///< how often they were written
  bool has_value(std::size_t i) const { return has_value_[i]; }  ///< whether parameter `i` ever was
  /// A number that stands for all values that store() was given: the same on ranks that got the
  /// same.
  std::uint64_t fingerprint() const { return fingerprint_; }

 private:
  // Parameters, or gradients.
  struct Stored {
    bool sharded = false;
    Buffer memory{};
    Tensor all{};  // of the memory
  };
  Stored store_as(MemoryClass memory_class, bool sharded, DType dtype = DType::float32) const;
  Tensor shard_of(const Stored& stored) const;
  Piece all(std::size_t i) const;
  Shape shape_of(std::size_t i, bool sharded) const;
  Tensor view_of(std::size_t i, const Stored& stored, const Tensor& whole) const;

  Context& context_;
  std::vector<nn::Parameter*> parameters_;
  Layout layout_;
  Sharding kept_;
  int rank_;
  bool trains_;
  std::vector<bool> has_value_;
  std::uint64_t fingerprint_ = 0;
  Stored stored_parameters_;
  Stored stored_gradients_;         // none of a row that is frozen
  std::vector<bool> had_gradient_;  // on this rank, since zero_grad
  bool reduced_ = false;
  std::int64_t version_ = 0;
};

/// Names and shapes, of which a layout is made.
std::vector<ParameterSpec> specs_of(std::span<nn::Parameter* const> parameters);

}  // namespace nanofsdp::fsdp
