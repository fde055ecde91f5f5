#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/buffer.h"
#include "base/context.h"
#include "comm/mesh.h"
#include "fsdp/prefetch.h"
#include "fsdp/unit.h"
#include "fsdp/wrap.h"
#include "nn/module.h"

namespace nanofsdp::fsdp {

/// @file
/// @brief The room `fsdp`: a model that computes as ever, on parameters that come and go.
///
/// Comes in: any tree of modules, a mesh of ranks, options. Goes out: the same model, of which a
/// rank keeps a shard; gradients of shards for the optimizer (sharded_optimizer.h).
///
/// All there is to it are four hooks on each unit's module and one on each parameter:
///
///     pre_forward            unshard, prefetch what comes next, wait
///     post_forward           reshard (the root stays, and is resharded after evaluation)
///     pre_backward           unshard, prefetch what comes next, wait, take zeroed gradients
///     post_accumulate_grad   of the unit's last parameter: reshard, reduce
///     end of backward        settle what is left, order computation after all reductions
///
/// A module that recomputes its activations calls the forward hooks inside its backward, where they
/// do nothing: the unit is unsharded, and stays so.

struct Options {
  ShardingStrategy strategy = kFullShard;
  MixedPrecision precision{};
  int forward_prefetch = 1;  ///< gathers issued ahead of the unit that computes
  BackwardPrefetch backward_prefetch = BackwardPrefetch::pre;
  bool no_sync = false;  ///< accumulate whole gradients over micro-steps, and reduce once a step
  comm::ReduceOp reduction = comm::ReduceOp::average;
  std::int64_t alignment = 4;  ///< of parameters in the flat parameter, in elements: 16 bytes
  bool poison = false;         ///< NaN into discarded parameters
  bool pool = true;            ///< false: every unit has slots of its own
  /// A model that has its values: rank 0's count for all. Collective.
  bool sync_module_states = false;
  WrapPolicy wrap_policy;  ///< which modules become units
};

/// Of parameters in a layout: shards are all-reduced across groups in equal chunks, too.
std::int64_t alignment_of(const Options& options, int replicas);

/// How many units may be whole at a time, besides the root, which has slots of its own.
struct PoolSlots {
  int parameters = 0;
  int gradients = 0;
};

/// Two: a unit computes out of one slot while the next is gathered into, or the one before is
/// reduced out of, the other. More to gather further ahead; one a unit where units stay whole.
/// @param blocks units without the root
PoolSlots pool_slots(const Options& options, int blocks);

class ShardedModel {
 public:
  /// Attaches to the model's hooks. On one rank nothing is sharded, whatever the strategy. A model
  /// whose parameters have values keeps them; one without is initialised afterwards
  /// (deferred_init).
  /// @param context, model, mesh outlive this object
  /// @throws Error if a module's hooks are taken, or the mesh has groups and the strategy has none
  ShardedModel(Context& context, nn::Module& model, comm::Mesh& mesh, const Options& options);
  ~ShardedModel();
  ShardedModel(const ShardedModel&) = delete;
  ShardedModel& operator=(const ShardedModel&) = delete;

  /// The units, in the order of the model, the root last.
  std::span<Unit> units() { return units_; }
  std::span<const Unit> units() const { return units_; }
  const ShardingStrategy& strategy() const { return options_.strategy; }
  Stream& stream() { return *context_.compute; }

  Tensor forward(nn::Tape& tape, Tensor x);

  /// Backward of the whole model; afterwards the reduced gradients can be read.
  /// @param last_micro_step of the optimizer step: gradients that were kept whole are reduced now
  void backward(nn::Tape& tape, Tensor dy, bool last_micro_step = true);

  /// Forgets all gradients. Call it before the first micro-step: without it the gradients of the
  /// step before stay in the sum, as in PyTorch, or backward throws where they cannot.
  void zero_grad(bool set_to_none = true);

  /// Calls `visit` on every parameter while its unit is unsharded, one unit at a time, the same on
  /// every rank, in float32 (FSDP's summon_full_params). Read only: writes are lost. Where units
  /// compute in bfloat16 it takes memory of its own for the unit, meanwhile.
  void summon_full_parameters(const std::function<void(const nn::Parameter&)>& visit);

 private:
  // Where a unit is in training: Megatron-FSDP's training states.
  enum class TrainingState { idle, forward, pre_backward, post_backward };
  struct Progress {
    TrainingState state = TrainingState::idle;
    std::size_t learning = 0;  // parameters that get a gradient
    std::size_t missing = 0;   // those that have not got it yet
    std::size_t span = 0;      // of its computation, in the trace
  };

  std::vector<Unit> make_units(const UnitOptions& unit_options);
  UnitMemory make_memory(const PoolSlots& slots, std::int64_t numel);
  void attach(Unit& unit);
  bool is_root(const Unit& unit) const { return &unit == &units_.back(); }
  Progress& progress(const Unit& unit) {
    return progress_[static_cast<std::size_t>(&unit - units_.data())];
  }
  void go(Unit& unit, TrainingState from, TrainingState to);

  void pre_forward(Unit& unit);
  void post_forward(Unit& unit);
  void pre_backward(Unit& unit);
  void gradient_ready(Unit& unit);
  void post_backward(Unit& unit);
  void end_of_backward();
  void prefetch_in_backward(const Unit& unit, BackwardPrefetch moment);
  void begin_span(Unit& unit, const char* pass);
  void end_span(Unit& unit);

  Context& context_;
  nn::Module& model_;
  comm::Mesh& mesh_;
  Options options_;
  std::vector<std::unique_ptr<BufferPool>> pools_;
  Buffer gather_wire_;
  Buffer reduce_wire_;
  std::vector<Unit> units_;
  std::vector<Progress> progress_;  // of each unit
  ForwardOrder order_;
  bool training_ = false;
  bool last_micro_step_ = true;
};

}  // namespace nanofsdp::fsdp
