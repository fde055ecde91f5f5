#pragma once

#include <string>

#include "base/context.h"
#include "comm/mesh.h"
#include "fsdp/buffer_pool.h"
#include "fsdp/flat_parameter.h"
#include "fsdp/sharding_strategy.h"
#include "fsdp/wrap.h"

namespace nanofsdp::fsdp {

/// @file
/// @brief One FSDP unit: gather, compute, discard; and reduce.
///
///     sharded -> gathering -> unsharded -> reducing -> sharded
///                     (forward: unsharded -> sharded)
///
/// Every step of the way is enqueued on streams, none blocks the host on a GPU. Where the strategy
/// keeps parameters whole, the states are the same and nothing moves.

/// The memory that units borrow while they are unsharded. Unused parts of a strategy are null.
struct UnitPools {
  BufferPool* parameters = nullptr;
  BufferPool* gradients = nullptr;
};

struct UnitOptions {
  ShardingStrategy strategy = kFullShard;
  comm::ReduceOp reduction = comm::ReduceOp::average;  ///< of gradients over ranks
  bool poison = false;  ///< fill discarded parameters with NaN: a stale pointer shows at once
};

class Unit {
 public:
  enum class State {
    sharded,    ///< at rest: the views show what the rank keeps
    gathering,  ///< the all-gather is under way
    unsharded,  ///< the views show whole parameters
    reducing    ///< parameters discarded, the reduction of the gradients is under way
  };

  /// @param context, mesh outlive the unit, as do the pools and the parameters
  Unit(Context& context, comm::Mesh& mesh, const UnitOptions& options, WrappedModule wrapped,
       FlatParameter flat, UnitPools pools);

  const std::string& name() const { return wrapped_.name; }
  nn::Module& module() const { return *wrapped_.module; }
  State state() const { return state_; }
  FlatParameter& flat() { return flat_; }
  const FlatParameter& flat() const { return flat_; }

  /// Issues the all-gather of the parameters. Does nothing if that was done before.
  /// @param control not for training: an evaluation, a checkpoint; counted apart
  void unshard(bool control = false);

  /// Orders computation after the all-gather and shows the whole parameters to the model.
  void wait_for_unshard();

  /// Shows the stored parameters again and gives the borrowed memory back.
  void reshard();

  /// Borrows zeroed memory for the whole gradients, and shows it to the model. Where gradients are
  /// not sharded they stay where they are, and keep adding up.
  void prepare_gradients();

  /// Issues the reduction of the gradients, after reshard(): its result is added to the shard.
  /// Where gradients are not sharded, they are all-reduced in place, once a step.
  /// @param last_micro_step of the optimizer step
  void reduce_gradients(bool last_micro_step);

  /// Orders computation after the reduction. Does nothing if none is under way.
  void wait_for_reduction();

  /// Forgets the gradients: the next reduction starts from zero.
  void zero_grad();

  /// Throws unless the shard may be written: whole copies of it would go stale.
  void require_at_rest(const char* why) const;

 private:
  void go(State from, State to, const char* verb);
  void trace(const char* event) { context_.tracer.issue(event + name()); }

  Context& context_;
  comm::Mesh& mesh_;
  UnitOptions options_;
  WrappedModule wrapped_;
  FlatParameter flat_;
  UnitPools pools_;

  State state_ = State::sharded;
  BufferPool::Slot* parameters_ = nullptr;  // borrowed
  BufferPool::Slot* gradients_ = nullptr;   // borrowed
  Event gathered_;
  Event reduced_;
  bool accumulates_ = false;  // the stored gradients already hold a part of this step's
};

}  // namespace nanofsdp::fsdp
