#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "comm/mesh.h"
#include "fsdp/buffer_pool.h"
#include "fsdp/collectives.h"
#include "fsdp/options.h"
#include "fsdp/sharded_parameters.h"

namespace nanofsdp::fsdp {

/// @file
/// @brief The memory of the whole parameters and gradients of a unit. Some strategies keep it: then
/// the shard is a slice of the whole. The others borrow a slot for them, and give it back.
///
/// All work is ordered on streams. On a GPU the host does not wait for the device.

/// How many slots the units without the root share.
struct SlotCounts {
  std::int64_t parameters = 0;  ///< slots for whole parameters
  std::int64_t gradients = 0;   ///< slots for whole gradients
};

/// How many units, without the root, may be whole at a time. Usually two: while one unit computes
/// in a slot, the next one is gathered into the other slot, or the last one is reduced from it.
/// Units that are gathered further ahead need more slots, and so do units inside other units. Each
/// unit that stays unsharded has a slot of its own.
/// @param blocks the number of units without the root
/// @param depth the largest number of units that lie inside each other
/// @param staying the number of units that stay unsharded
SlotCounts pool_slots(const Options& options, std::int64_t blocks, int depth, std::int64_t staying);

/// Memory that the units share for their whole parameters, or for their whole gradients. When a
/// unit is made it says how much it needs.
struct WholeMemory {
  /// The slots of the units without the root, and the root's slot. Neither exists if the strategy
  /// stores whole copies.
  std::optional<BufferPool> units{}, root{};
  std::int64_t unit_numel = 0, root_numel = 0;  ///< elements of a slot: those of the largest unit
  /// The size of the longest row that is cast or copied before it is sent, in bytes.
  std::int64_t wire_bytes = 0;
  Buffer wire{};  ///< memory for that row

  /// Allocates the memory. Call it once, when all units have been made.
  /// @param slots the number of slots for the units without the root
  /// @param whole the dtype of whole parameters, or of whole gradients
  void allocate(Context& context, MemoryClass of, std::int64_t slots, DType whole);
  /// The memory that a collective sends from or receives into, if it cannot use the row itself.
  /// Before the memory is allocated, each unit calls this for all its collectives, so that the wire
  /// becomes long enough.
  /// @param whole the dtype of whole parameters, or of whole gradients
  /// @param near whether the collective gathers slices in a smaller group, which needs no copy
  Wire wire_for(DType sent_as, const Options& options, const Layout& layout,
                DType whole = DType::float32, bool near = false);
  /// Frees slots that a pass has needed in addition to the planned ones.
  void shrink();
};

/// The whole parameters of a unit. They know which version of the shards they show.
class WholeParameters {
 public:
  /// @param context, options, mesh, rows, memory must outlive this object; `memory` is allocated
  /// later
  WholeParameters(Context& context, const Options& options, comm::Mesh& mesh,
                  std::span<ShardedParameters> rows, WholeMemory& memory, bool is_root);

  /// Whether there is a whole copy, and no shard has been written since it was made.
  bool are_fresh() const;
  /// Whether the ranks send each other their shards. Otherwise each rank stores all parameters.
  bool needs_all_gather() const { return options_.sharding().optimizer; }
  /// Whether a copy can be made in the planned memory: a slot is free, or none is needed.
  bool have_room() const { return !pool_ || slot_ != nullptr || pool_->has_free_slot(); }

  /// Borrows a slot for the whole copy. `stream` will write it, so it waits until the slot is free.
  void take(Stream& stream);
  /// Writes those rows of the copy that are not fresh, from the shards of all ranks. Between
  /// forward and backward a smaller group may have kept the unit; then it gathers the slices of
  /// that group.
  void gather(Stream& stream, const comm::Call& call);

  /// Shows the whole copy to the module.
  void show();

  /// `stream` copies this rank's slice of the whole parameters, for the smaller group that keeps
  /// them until backward. Does nothing if there is no such group.
  void keep_slice(Stream& stream);
  /// The next copy is made from the shards again, not from slices.
  void forget_slice() {
    for (Part& part : parts_) part.slice_version = 0;
  }

  /// Whether the end of a use frees the copy.
  bool are_discarded(bool keep) const;
  /// Shows the module its shards again, and frees the copy when `stream` has read it. With
  /// Options::poison the memory is filled with NaN.
  void discard(Stream& stream);

 private:
  // The part of the copy that belongs to one row.
  struct Part {
    ShardedParameters* row = nullptr;
    bool borrows = false;            // if false, the whole row lies in the rank's own storage
    DType sent_as = DType::float32;  // dtype in which the row is sent, or read if nothing is sent
    std::int64_t begin = 0;          // first element in the slot, among rows that borrow
    std::int64_t shown_version = 0;  // version of the row that the copy shows; 0: there is no copy
    std::int64_t slice_version = 0;  // version of the row that is in the slice; 0: there is none
  };
  bool is_fresh(const Part& part) const;
  Tensor whole(const Part& part) const;  // [whole_numel of the row]
  Tensor slice(const Part& part) const;

  const Options& options_;
  comm::Mesh& mesh_;
  DType computed_;
  std::optional<BufferPool>& pool_;
  WholeMemory& memory_;
  BufferPool::Slot* slot_ = nullptr;
  std::vector<Part> parts_;
  Buffer slice_;  // the slices of all rows, one after the other
  Event slice_written_;
};

/// The sums of a reduction: over the ranks of a group that shards the parameters, and then across
/// the groups.
struct Reduction {
  bool in_group = false, across = false;
};

/// The whole gradients of a unit's parameters that train.
class WholeGradients {
 public:
  /// @param context, options, row, memory must outlive this object; `memory` is allocated later
  WholeGradients(Context& context, const Options& options, ShardedParameters& row,
                 WholeMemory& memory, bool is_root);

  /// Whether there is something to reduce in this way. If the strategy keeps whole parameters, a
  /// rank that has not used the unit takes part as well, for another rank may have used it.
  bool are_due(Reduction how) const;

  /// For a backward: whether they are the sums of an earlier step. They stay only if all parameters
  /// are frozen by now, or begin_backward() has thrown.
  bool stay() const { return complete_; }
  /// Borrows a slot for them, unless they have one.
  /// @returns an event that passes when the slot may be written
  Event take();
  /// Shows them to the module. In a slot that was just borrowed they are zeros.
  void show();
  /// The first backward of a pass begins. @throws Error if they are sums over the ranks already,
  /// and zero_grad has not been called
  void begin_backward();

  /// Marks the gradients that this rank does not have. Call it before a reduction.
  void mark_missing() { row_->mark_missing_gradients(*context_.compute, whole()); }
  /// Computes the sums that `how` names: that of a group is added to the shard, and that across
  /// groups replaces the shard.
  void reduce(Stream& stream, comm::Mesh& mesh, Reduction how, const comm::Call& call);
  /// The module does not see them any more. Gives the slot back, if there is one; it is free when
  /// the event has passed.
  void give_back(const Event& free);

  /// Forgets them. With `set_to_none` there are none; without it they are zeros.
  void forget(bool set_to_none);

 private:
  Tensor whole() const;  // [numel()]
  // The elements of the whole. With much padding, the sums for this rank's shards may be more.
  std::int64_t numel() const {
    return std::max(row_->layout().whole_numel(), row_->gradient_storage().numel());
  }
  // Adds the sum in this rank's chunk of whole() to the shard.
  void land(Stream& stream, Tensor chunk);

  Context& context_;
  const Options& options_;
  ShardedParameters* row_;
  std::optional<BufferPool>& pool_;
  WholeMemory& memory_;
  BufferPool::Slot* slot_ = nullptr;
  // Whether the slot has been zeroed, and holds only what backward has added since.
  bool zeroed_ = false;
  bool landed_ = false;    // whether the shard already holds a part of this step's gradients
  bool complete_ = false;  // whether stored gradients must not be reduced again
};

}  // namespace nanofsdp::fsdp
