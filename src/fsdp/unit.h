#pragma once

#include <cstdint>
#include <string>

#include "base/context.h"
#include "comm/mesh.h"
#include "fsdp/buffer_pool.h"
#include "fsdp/flat_parameter.h"
#include "fsdp/mixed_precision.h"
#include "fsdp/sharding_strategy.h"
#include "fsdp/wrap.h"

namespace nanofsdp::fsdp {

/// @file
/// @brief One FSDP unit: gather, compute, discard; and reduce.
///
///     sharded -> gathering -> unsharded -> reducing -> sharded
///                     (forward: unsharded -> sharded)
///
/// Every step of the way is enqueued on streams, none blocks the host on a GPU. The states are the
/// same for every strategy; what differs is where a whole copy of the parameters lies and how long
/// it is kept: in a borrowed slot until reshard, or for good in the storage of which the shard is a
/// slice. A copy knows which version of the shard it shows, and is gathered when that is not the
/// last: after the optimizer's step where it is kept, at every use where it is not.

/// The memory that units share while they are unsharded. Unused parts of a strategy are null.
struct UnitMemory {
  BufferPool* parameters = nullptr;
  BufferPool* gradients = nullptr;
  Tensor gather_wire{};  ///< bfloat16 [padded_numel of the largest unit], if gathered and widened
  Tensor reduce_wire{};  ///< bfloat16, the same, if reduced so
};

struct UnitOptions {
  ShardingStrategy strategy = kFullShard;
  MixedPrecision precision;
  comm::ReduceOp reduction = comm::ReduceOp::average;  ///< of gradients over ranks
  bool no_sync = false;  ///< gradients stay whole until the last micro-step
  bool poison = false;   ///< fill discarded parameters with NaN: a stale pointer shows at once
};

/// Whether units borrow memory for their whole parameters: they are not stored whole, or not in the
/// numbers to compute with.
bool borrows_parameters(const ShardingStrategy& strategy, const MixedPrecision& precision);

/// Why parameters are gathered.
struct Purpose {
  bool control = false;  ///< not training, but an evaluation, a checkpoint: counted apart, unless
                         ///< the copy is kept, for then the next step needs no other
  bool full_precision = false;  ///< as the shard has them, whatever units compute with
};

class Unit {
 public:
  enum class State {
    sharded,    ///< at rest: nobody reads whole parameters
    gathering,  ///< a whole copy is on its way, or there
    unsharded,  ///< the views show whole parameters
    reducing    ///< the reduction of the gradients is under way
  };

  /// @param context, mesh outlive the unit, as do the pools and the parameters
  Unit(Context& context, comm::Mesh& mesh, const UnitOptions& options, WrappedModule wrapped,
       FlatParameter flat, UnitMemory memory);

  const std::string& name() const { return wrapped_.name; }
  nn::Module& module() const { return *wrapped_.module; }
  State state() const { return state_; }
  FlatParameter& flat() { return flat_; }
  const FlatParameter& flat() const { return flat_; }

  /// Issues the all-gather of the parameters, unless a fresh whole copy is there or on its way.
  /// @throws Error if they were never initialised
  void unshard(const Purpose& purpose = {});

  /// Orders computation after the all-gather and shows the whole parameters to the model.
  void wait_for_unshard();

  /// Ends the use of whole parameters, and gives borrowed memory back.
  /// @param keep the whole copy for the next use; if the shard has changed by then it is gathered
  ///        anew
  void reshard(bool keep = false);

  /// Shows whole gradients to the model: borrowed and zeroed, or those that are still adding up.
  /// @throws Error where those of the step before are whole or replicated and were not forgotten
  void prepare_gradients();

  /// Issues the reduction of the gradients, after reshard(): its result is added to the shard. What
  /// is not reduced in every micro-step keeps adding up until the last.
  /// @param last_micro_step of the optimizer step
  void reduce_gradients(bool last_micro_step);

  /// Orders computation after the reduction. Does nothing if none is under way.
  void wait_for_reduction();

  /// Forgets the gradients. As PyTorch's: to none, the next reduction overwrites them; else they
  /// are zeros that can be read.
  void zero_grad(bool set_to_none);

  /// Throws unless the shard may be written.
  void require_at_rest(const char* why) const;

 private:
  void go(State from, State to, const char* verb);
  void trace(const char* event) { context_.tracer.issue(event + name()); }
  bool borrows() const { return borrows_parameters(options_.strategy, options_.precision); }
  bool in_compute_precision(const Purpose& purpose) const;
  Tensor whole_parameters() const;
  bool is_fresh(const Purpose& purpose) const;
  std::int64_t bytes_received(const Tensor& wire) const;
  std::int64_t bytes_received_across() const;
  void add_to_shard(Stream& stream, Tensor full);

  Context& context_;
  comm::Mesh& mesh_;
  UnitOptions options_;
  WrappedModule wrapped_;
  FlatParameter flat_;
  UnitMemory memory_;

  State state_ = State::sharded;
  std::int64_t shown_version_ = 0;          // of the shard, that the whole copy shows; 0: no copy
  BufferPool::Slot* parameters_ = nullptr;  // borrowed
  Buffer full_precision_;                   // where slots are too narrow for what is asked for
  BufferPool::Slot* gradients_ = nullptr;   // borrowed
  Event gathered_;
  Event reduced_;
  bool rounded_ = true;       // the whole copy is in the precision of computation
  bool accumulates_ = false;  // the stored gradients already hold a part of this step's
  bool complete_ = false;  // what is stored has been summed over all ranks, and must not be again
};

}  // namespace nanofsdp::fsdp
