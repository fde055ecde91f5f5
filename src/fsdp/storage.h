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
/// @brief Where whole parameters and gradients of a unit lie, and how long: for good, in the
/// storage of which the shard is a slice, or in a slot that is borrowed and given back.
///
/// All work is ordered on streams; none blocks the host on a GPU.

/// One number for whole parameters, and one for whole gradients.
struct Whole {
  std::int64_t parameters = 0;  ///< slots, or elements
  std::int64_t gradients = 0;   ///< slots, or elements
};

/// How many units but the root may be whole at a time. Two: a unit computes out of one slot while
/// the next is gathered into, or the one before is reduced out of, the other. More to gather
/// further ahead, and where units are nested; all where units stay unsharded.
/// @param blocks units without the root  @param depth how many of them are around each other, at
///        most
Whole pool_slots(const Options& options, int blocks, int depth = 1);

/// Memory that units share while they are whole: for their parameters, or for their gradients.
/// Each unit says what it needs when it is made.
struct WholeMemory {
  /// Slots of the units but the root, and of the root. None where what is whole is stored.
  std::optional<BufferPool> units{}, root{};
  std::int64_t unit_numel = 0, root_numel = 0;  ///< of a slot: what the largest unit borrows
  /// The longest row that is cast or copied on its way, in words of 2 bytes.
  std::int64_t wire_words = 0;
  Buffer wire{};  ///< as long as that

  /// Makes all of it, where units need any. Once, when all units are known.
  /// @param slots for units but the root
  /// @param whole the dtype of what is whole
  void allocate(Context& context, MemoryClass of, std::int64_t slots, DType whole);
  /// What a collective sends from and receives into: nothing of its own, or the wire. Each unit
  /// asks for all that it needs before the memory is allocated, so that it is long enough.
  /// @param whole the dtype of what is whole  @param near among ranks that need no copy
  Wire wire_for(DType sent_as, const Options& options, const Layout& layout,
                DType whole = DType::float32, bool near = false);
  /// Frees the slots that a pass needed beyond those planned.
  void shrink();
};

/// Whole parameters of a unit. A copy knows which version of the shards it shows.
class WholeParameters {
 public:
  /// @param context, options, mesh, rows, memory outlive this object; `memory` is allocated later
  WholeParameters(Context& context, const Options& options, comm::Mesh& mesh,
                  std::span<ShardedParameters> rows, WholeMemory& memory, bool is_root);

  /// Whether a whole copy is there that shows the shards as they are.
  bool are_fresh() const;
  /// Whether ranks send each other what a copy is made from, or each has it.
  bool needs_all_gather() const { return options_.sharding().optimizer; }
  /// Whether a copy can be made without more memory than planned.
  bool have_room() const { return !pool_ || slot_ != nullptr || pool_->has_free_slot(); }

  /// Finds memory for a whole copy, which `stream` is to write.
  void take(Stream& stream);
  /// Writes what is not fresh of it, from the shards of all ranks; or, from forward to backward,
  /// from the slices of a smaller group, if the mesh has one.
  void gather(Stream& stream, const comm::Call& call);

  /// Shows the whole copy to the model.
  void show();

  /// Keeps a slice of the whole copy, of which the post-forward group has all; `stream` copies it.
  /// Nothing without such a group.
  void keep_slice(Stream& stream);
  /// Whole copies are made from the shards again.
  void forget_slice() {
    for (Part& part : parts_) part.slice_version = 0;
  }

  /// Whether the end of a use frees the copy.
  bool are_discarded(bool keep) const;
  /// Shows what is stored, and frees the copy, which `stream` has read: poisoned, if options say
  /// so.
  void discard(Stream& stream);

 private:
  // A row's part of the copy.
  struct Part {
    ShardedParameters* row = nullptr;
    bool borrows = false;            // or it lies where it is stored
    DType sent_as = DType::float32;  // or read as, where each rank has what it is made from
    std::int64_t begin = 0;          // in the slot, of those that borrow
    std::int64_t shown_version = 0;  // of the row; 0: no copy
    std::int64_t slice_version = 0;  // of the row; 0: there is nothing in its slice
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
  Buffer slice_;  // of all rows, one after the other
  Event slice_written_;
};

/// Whole gradients of the row of a unit that trains.
class WholeGradients {
 public:
  /// @param context, options, row, memory outlive this object; `memory` is allocated later
  WholeGradients(Context& context, const Options& options, ShardedParameters& row,
                 WholeMemory& memory, bool is_root);

  /// Whether they are to be reduced after backward: because of what backward added here, or may
  /// have added on another rank, or because groups of ranks are to add up what they have.
  /// @param synchronise false: what adds up whole goes on to
  bool are_due(bool synchronise, bool last_micro_step) const;

  /// Memory for them: zeros, or what is still adding up.
  /// @returns the event before which it must not be written
  Event take();
  /// Shows them to the model.
  void show();
  /// Backward begins, here or on another rank: where they are stored whole, none is reduced yet.
  /// @throws Error where those of the step before are sums that cannot be added to
  void begin_backward();

  /// Before a reduction: says which of them this rank does not have.
  void mark_missing() { row_->mark_missing_gradients(*context_.compute, whole()); }
  /// The reduction, which adds to the shard, where `synchronise` asks for it; and after the last
  /// micro-step the sum across groups.
  void reduce(Stream& stream, comm::Mesh& mesh, bool synchronise, bool last_micro_step,
              const comm::Call& call);
  /// Gives borrowed memory back, which is free after the event.
  void give_back(const Event& free);

  /// Forgets them: to none, or else to zeros.
  void forget(bool set_to_none);

 private:
  Tensor whole() const;  // [whole_numel of the row]
  // Adds what has landed in this rank's chunk of whole() to the shard.
  void land(Stream& stream, Tensor chunk);

  Context& context_;
  const Options& options_;
  ShardedParameters* row_;
  std::optional<BufferPool>& pool_;
  WholeMemory& memory_;
  BufferPool::Slot* slot_ = nullptr;
  bool zeroed_ = false;    // the slot has been, and holds what backward added since
  bool landed_ = false;    // the shard already holds a part of this step's
  bool complete_ = false;  // what is stored must not be reduced again
};

}  // namespace nanofsdp::fsdp
