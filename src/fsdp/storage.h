#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/buffer.h"
#include "base/context.h"
#include "fsdp/buffer_pool.h"
#include "fsdp/options.h"
#include "fsdp/sharded_parameters.h"

namespace nanofsdp::fsdp {

/// @file
/// @brief Where whole parameters and gradients of a unit lie, and how long: for good, in the
/// storage of which the shard is a slice, or in a slot that is borrowed and given back.
///
/// This is the only place that asks for the strategy. All work is ordered on streams; none blocks
/// the host on a GPU.

/// One number for whole parameters, and one for whole gradients.
struct Whole {
  std::int64_t parameters = 0;
  std::int64_t gradients = 0;
};

/// The memory that units share while they are whole. The root has slots of its own.
struct SharedMemory {
  /// @param slots units but the root that may be whole at a time
  /// @param largest elements of the largest of them  @param root of the root
  SharedMemory(Context& context, const Options& options, const Whole& slots, const Whole& largest,
               const Whole& root);

  BufferPool parameters, gradients;
  BufferPool root_parameters, root_gradients;
  Buffer gather_wire;  ///< bfloat16, as long as the largest unit, if gathered and widened
  Buffer reduce_wire;  ///< bfloat16, the same, if reduced so

  /// Frees the slots that a pass needed beyond those planned.
  void shrink();
};

/// Why parameters are gathered.
struct Purpose {
  bool control = false;         ///< not training but an evaluation, a checkpoint: counted apart
  bool full_precision = false;  ///< as the shard has them, whatever units compute with
};

/// Whole parameters of a unit. A copy knows which version of the shards it shows.
class WholeParameters {
 public:
  WholeParameters(Context& context, const Options& options, std::span<ShardedParameters> rows,
                  SharedMemory& memory, bool is_root);

  /// Whether ranks have to send each other anything for a whole copy.
  bool travel() const { return options_.sharding().optimizer; }
  /// Whether a whole copy is there that shows the shards as they are; of one row, or of all.
  bool is_fresh(std::size_t row, const Purpose& purpose) const;
  bool are_fresh(const Purpose& purpose) const;
  /// Whether a copy can be made without more memory than planned.
  bool have_room() const {
    return slot_ != nullptr || !options_.borrows_parameters() || pool_->has_free_slot();
  }
  /// A copy that is kept serves the next step too: it is training's, whoever asks first.
  bool serve_training(const Purpose& purpose) const;

  /// Finds memory for a whole copy, which `stream` is to write.
  void take(Stream& stream, const Purpose& purpose);
  /// The whole copy of a row has been written, or is on its way.
  void filled(std::size_t row) { shown_version_[row] = rows_[row].version(); }
  Tensor whole(std::size_t row) const;
  /// Memory for row `row` to travel through, bfloat16; empty if it travels as it is.
  Tensor wire(std::size_t row) const;

  /// Shows the whole copy to the model.
  void show();

  /// Whether the end of a use frees the copy.
  bool are_discarded(bool keep) const;
  /// Frees it, and shows what is stored.
  void discard();
  /// The memory of the copy that discard() gives back; empty if it was not borrowed.
  Tensor borrowed() const { return slot_ == nullptr ? Tensor() : slot_->memory; }

 private:
  bool rounded(const Purpose& purpose) const;
  std::int64_t padded_numel() const;
  Tensor of_row(const Tensor& all, std::size_t row) const;

  Context& context_;
  const Options& options_;
  std::span<ShardedParameters> rows_;
  BufferPool* pool_;
  Tensor wire_;

  BufferPool::Slot* slot_ = nullptr;         // borrowed
  Buffer exact_;                             // where slots are too narrow for what is asked for
  std::vector<std::int64_t> shown_version_;  // of each row; 0: no copy
  bool rounded_ = true;                      // it is in the numbers to compute with
};

/// Whole gradients of the row of a unit that trains.
class WholeGradients {
 public:
  WholeGradients(Context& context, const Options& options, ShardedParameters& row,
                 SharedMemory& memory, bool is_root);

  /// Whether they are to be reduced in this micro-step, once backward is over.
  bool are_due(bool last_micro_step) const;
  /// Whether something waits for a reduction: what backward added here, or what it may have added
  /// on another rank.
  bool are_pending() const;
  /// Whether the reduction leaves each rank its shard, or all of them the whole.
  bool are_scattered() const { return options_.sharding().optimizer; }

  /// Memory for them: zeros, or what is still adding up.
  /// @returns the event before which it must not be written
  Event take();
  /// Shows them to the model. @throws Error where those of the step before were not forgotten
  void show();

  Tensor whole() const;
  Tensor wire() const { return wire_; }

  /// Before a reduction: says which of them this rank does not have.
  void mark_missing();
  /// Adds what has landed in this rank's chunk of whole() to the shard.
  void land(Stream& stream, Tensor chunk);
  /// Whether the shard is to be summed across groups: once a step, when all micro-steps are in it.
  bool are_summed_across(bool last_micro_step) const;
  /// Their step is over: what is stored has been summed over all ranks.
  void complete(bool last_micro_step);
  /// Gives borrowed memory back, which is free after the event.
  void give_back(const Event& free);

  /// Forgets them. To none: the next reduction overwrites them; else they are zeros.
  void forget(bool set_to_none);
  /// After the last micro-step: a unit that no pass of the step used has no gradients.
  void settle();

 private:
  bool borrow() const { return options_.sharding().gradients; }

  Context& context_;
  const Options& options_;
  ShardedParameters* row_;
  BufferPool* pool_;
  Tensor wire_;

  BufferPool::Slot* slot_ = nullptr;  // borrowed
  bool zeroed_ = false;               // the slot has been, and holds what backward added since
  bool accumulate_ = false;           // the shard already holds a part of this step's
  bool complete_ = false;             // what is stored must not be reduced again
};

}  // namespace nanofsdp::fsdp
