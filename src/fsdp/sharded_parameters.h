#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/context.h"
#include "comm/communicator.h"
#include "fsdp/layout.h"
#include "fsdp/strategy.h"
#include "nn/parameter.h"

namespace nanofsdp::fsdp {

/// @file
/// @brief The parameters of a unit as one row of elements, and the views that show them.
///
/// A rank stores either its shard or, if the strategy does not shard, the whole row. In the flat
/// layout the shard is then a slice of that row:
///
///     sharded:      storage = [ shard r ]
///     not sharded:  storage = [ shard 0 | ... | shard r | ... | shard W-1 ]
///
/// The same holds for the gradients. Under hybrid_shard_optimizer there are R replicas of each
/// group's part of the model. There are then R shards for each rank of a group: a rank stores all
/// of them, but it owns only one, which it updates.
///
///     R = 2:        storage = [ shard 2k | shard 2k + 1 ]      one of them is shard r
///
/// The functions `show_...` point the views of all parameters at whole memory, so that the model
/// can compute, or at the stored memory. There each parameter sees the piece of it that lies in
/// this rank's shard (FSDP paper, arXiv 2304.11277, section 3.2.1).
///
/// The shard holds the true values, and it has a version. Every write increases the version, so
/// that the owner of a whole copy can tell whether the copy is stale. Values that a parameter has
/// when its row is built are kept.
///
/// Either all parameters of a row train, or all are frozen. A unit with both kinds has two rows. A
/// frozen row has no gradients: it needs no memory for them, and nothing reduces or updates them.
/// All parameters of a row are stored in one dtype, so frozen parameters in bfloat16 have a row of
/// their own. A parameter that is frozen later stays in the row that trains, without a gradient.
///
/// **A gradient that does not exist is written as -0.** If backward did not use a parameter on any
/// rank, the parameter has no gradient (PyTorch's `None`), and the optimizer must not touch it. A
/// gradient of zero would make it decay. So before a reduction each rank writes -0 for every
/// gradient that it does not have. For every x, x + -0 = x, also for x = +0. So the -0 changes no
/// sum, and it remains only if all ranks wrote it. A gradient that exists is never -0 in all its
/// elements, for backward has added it to +0. (There is one exception: if all its elements are
/// negative and round to zero when they are averaged, it looks as if it did not exist.)

/// One row of a unit, on one rank.
class ShardedParameters {
 public:
  /// @param parameters in the model's order. All of them train, or none does, and all have one
  ///        dtype. They must outlive this object. Values that they have are float32; they are
  ///        rounded here if the dtype is bfloat16
  /// @param at_rest the kinds of memory that this rank stores only a shard of. In the layout per
  ///        parameter a shard is no slice of the whole; so there either all that the optimizer
  ///        reads is sharded, or nothing
  /// @param stored_shards how many neighbouring shards the rank stores of memory that is sharded:
  ///        1, or one for each replica
  /// @throws ShapeError if one of the parameters has values of another number
  ShardedParameters(Context& context, std::vector<nn::Parameter*> parameters, int rank,
                    int world_size, const Sharding& at_rest, std::int64_t alignment,
                    LayoutKind kind = LayoutKind::flat, int stored_shards = 1);
  /// Afterwards the parameters have neither values nor gradients.
  ~ShardedParameters();
  ShardedParameters(ShardedParameters&&) = default;

  const Layout& layout() const { return layout_; }
  int rank() const { return rank_; }             ///< the number of this rank's shard
  int stored_shards() const { return shards_; }  ///< how many it stores of what is sharded
  /// The dtype in which the parameters are stored.
  DType dtype() const { return stored_parameters_.all.dtype(); }
  /// The parameters, in their order in the row.
  std::span<nn::Parameter* const> parameters() const { return parameters_; }
  /// Whether the row has gradients. A row without parameters has none.
  bool trains() const { return trains_; }

  /// @throws Error if a parameter of a frozen row is to train now, or if a dtype was changed
  void require_unchanged() const;

  /// The memory that this rank stores: its shards, or the whole row.
  Tensor parameter_storage() const { return stored_parameters_.all; }
  /// The same for the gradients.
  Tensor gradient_storage() const { return stored_gradients_.all; }

  /// The elements that this rank updates and saves: its shard, [shard_numel], or the whole row if
  /// nothing is sharded.
  Tensor parameter_shard() const { return shard_of(stored_parameters_); }
  /// The gradients of the same elements.
  Tensor gradient_shard() const { return shard_of(stored_gradients_); }
  /// The shards that this rank sends to its group. `stream` waits until they are written; and if it
  /// stores shards of other replicas, which were written since the last call, until they are
  /// received.
  Tensor shards_to_gather(Stream& stream, comm::Communicator& replicas, const std::string& unit);
  /// The kinds of memory that this rank stores only a shard of.
  const Sharding& at_rest() const { return at_rest_; }
  /// The place of the elements of parameter `i` that this rank updates.
  Piece owned(std::size_t i) const { return at_rest_.optimizer ? layout_.piece(i, rank_) : all(i); }

  /// The shape of these elements: that of the parameter if it has them all; [rows, ...] if the
  /// layout cuts between rows; otherwise [elements].
  Shape owned_shape(std::size_t i) const { return shape_of(i, at_rest_.optimizer); }

  /// Points `data` of every parameter at `whole` [whole_numel], or at the stored memory if `whole`
  /// is empty.
  void show_parameters(Tensor whole = {});
  /// The same for the gradients.
  /// @param rests whether no backward may add to them now (nn/parameter.h)
  void show_gradients(Tensor whole = {}, bool rests = false);

  /// Call it when whole gradients have been zeroed. After that, no parameter has a gradient, until
  /// backward adds one.
  void forget_gradients();
  /// Call it before whole gradients are reduced. Writes -0 for every gradient that does not exist.
  /// @param whole [whole_numel]
  void mark_missing_gradients(Stream& stream, Tensor whole);
  /// Whether the gradient shard holds sums over all ranks. Before that the optimizer sees no
  /// gradients.
  bool is_reduced() const { return reduced_; }
  void set_reduced(bool reduced) { reduced_ = reduced; }
  /// For each parameter, whether any rank has had a gradient since zero_grad. Call it after the
  /// reduction. For each parameter without a gradient on this rank it waits for the stream.
  std::vector<bool> have_gradients() const;
  /// Leaves no gradients, or gradients of zero for the parameters that train.
  void zero_grad(bool set_to_none);

  /// Stores this rank's part of parameter `i`, in the dtype of the row.
  /// @param whole all elements of the parameter, in the host's memory
  /// @throws ShapeError if their number is another
  void store(std::size_t i, std::span<const float> whole);

  /// Call it after the stored parameters were written.
  /// @param all whether all were written, so that each has a value now
  void written(bool all = true) {
    ++version_;
    written_ = context_.compute->record();
    if (all) fingerprints_.assign(parameters_.size(), 0);
  }
  std::int64_t version() const { return version_; }  ///< how often the parameters were written
  /// Whether parameter `i` has a value. One without elements needs none.
  bool has_value(std::size_t i) const { return fingerprints_[i] || layout_.in_whole(i).empty(); }
  /// The fingerprint of all that ranks of one world must have alike: the name, shape and dtype of
  /// parameter `i`, its place in the row, the size of a shard, whether the row trains, and the
  /// values that store() was last given. (They do not count if all parameters were written since.)
  std::uint64_t fingerprint(std::size_t i) const;

 private:
  // Parameters, or gradients.
  struct Stored {
    bool sharded = false;
    Buffer memory{};
    Tensor all{};  // the whole memory
  };
  Stored store_as(MemoryClass memory_class, bool sharded, DType dtype = DType::float32) const;
  Tensor shard_of(const Stored& stored) const;
  Piece all(std::size_t i) const;
  Shape shape_of(std::size_t i, bool sharded) const;
  Tensor view_of(std::size_t i, const Stored& stored, const Tensor& whole) const;

  Context& context_;
  std::vector<nn::Parameter*> parameters_;
  Layout layout_;
  Sharding at_rest_;
  int rank_;
  int shards_;
  bool trains_;
  std::vector<std::optional<std::uint64_t>> fingerprints_;  // none: there is no value
  Stored stored_parameters_;
  Stored stored_gradients_;  // empty if the row is frozen
  // Whether each parameter has had one on this rank since zero_grad.
  std::vector<bool> had_gradient_;
  bool reduced_ = false;
  std::int64_t version_ = 0, complete_version_ = 0;  // the last one: of all stored shards
  Event written_;                                    // the last write of this rank
};

/// The names and shapes from which a layout is made.
std::vector<ParameterSpec> specs_of(std::span<nn::Parameter* const> parameters);

}  // namespace nanofsdp::fsdp
