#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "fsdp/grad_norm.h"
#include "fsdp/schedule.h"

namespace nanofsdp::fsdp {

/// @file
/// @brief The room `fsdp`: the model computes as before, on parameters that are gathered for it.
///
/// Comes in: any tree of modules, a mesh of ranks, options. Goes out: the same model, of which a
/// rank keeps a shard; gradients of shards for the optimizer (sharded_optimizer.h).
///
/// All there is to it are four hooks on each unit's module, and the end of the pass:
///
///     pre_forward     unshard, prefetch what comes next, wait
///     post_forward    reshard (the root stays, and is resharded after evaluation)
///     pre_backward    unshard, prefetch what comes next, wait, take zeroed gradients
///     post_backward   reshard, reduce
///     end of pass     reduce what is left, undo prefetches that no unit used
///
/// The layers below, each with one job: a unit (unit.h), the memory of its whole copies
/// (storage.h), its shards (sharded_parameters.h), the collectives (collectives.h).

/// Modules that are units.
using Modules = std::vector<const nn::Module*>;

/// A model under FSDP. fully_shard() below makes it, and shows a step. Every rank calls forward,
/// backward, clip and summon_full_parameters, in the same order: these are collective, and throw
/// comm::CommError if a rank is lost. All ranks change requires_grad and the controls alike.
///
/// Ranks may use different units in a pass that gathers nothing: under no_shard in every one, under
/// shard_optimizer and shard_gradients in all but the first after the shards were written. In any
/// other pass a rank that leaves a unit out keeps the others waiting; their error names the unit.
class ShardedModel {
 public:
  /// Attaches to the model's hooks. On one rank nothing is sharded, whatever the strategy. A model
  /// whose parameters have values keeps them; one without is initialised afterwards
  /// (deferred_init).
  /// @param context, model, mesh outlive this object
  /// @throws Error if a parameter is sharded already, or the mesh has groups and the strategy has
  ///         none
  ShardedModel(Context& context, nn::Module& model, comm::Mesh& mesh, const Options& options);
  /// The model has no values any more: save them before. It keeps the user's hooks.
  ~ShardedModel();
  ShardedModel(const ShardedModel&) = delete;
  ShardedModel& operator=(const ShardedModel&) = delete;

  /// The units, in the order of the model, the root last.
  std::span<Unit> units() { return units_; }
  std::span<const Unit> units() const { return units_; }  ///< the same, to look at
  /// Their rows, in the same order.
  std::vector<ShardedParameters*> rows();
  ShardingStrategy strategy() const { return options_.strategy; }  ///< as in the options
  Context& context() { return context_; }                          ///< of this rank
  comm::Mesh& mesh() { return mesh_; }                             ///< of all ranks
  Stream& stream() { return *context_.compute; }                   ///< where operators run

  /// Module::forward of the model. The result lives on the tape. Between a forward and its backward
  /// the model may evaluate on another tape, but not while one of the two runs.
  /// @throws Error naming those parameters that never got values, that were frozen when they were
  ///         sharded and are to train now, or whose dtype was changed since
  /// @throws CommError in the first forward, if ranks were given different values
  Tensor forward(nn::Tape& tape, Tensor x) { return model_.forward(tape, x); }

  /// Backward of the whole model, and the end of the pass; afterwards the reduced gradients can be
  /// read.
  /// @param dy of the output's shape; may be written over
  /// @param last_micro_step of the optimizer step: gradients that were kept whole are reduced now
  /// @throws Error if gradients of the step before had to be forgotten (zero_grad), or if backward
  ///         does not restore what forward saved
  void backward(nn::Tape& tape, Tensor dy, bool last_micro_step = true);

  /// PyTorch's set_is_last_backward. For a pass of several models on one tape, which call
  /// Module::backward of each and then Tape::end_backward: whether its micro-step is the last.
  void set_last_micro_step(bool last) { last_micro_step_ = last; }

  /// Switches gradient synchronisation on or off: of the unit `module`, or of all units. While it
  /// is off, backward adds up whole gradients; the first backward with it on reduces them. Call it
  /// alike on all ranks, as the two below (FSDP2 has all three).
  /// @throws Error if the module is not a unit
  void set_requires_gradient_sync(bool sync, const nn::Module* module = nullptr) {
    const std::span<Unit> named = module == nullptr ? units() : std::span(&unit_of(*module), 1);
    for (Unit& unit : named) unit.requires_gradient_sync = sync;
  }
  /// Says which units are gathered ahead when forward comes to the unit `module`, as far as there
  /// are slots. Without it these are the units that came next in the pass before.
  /// @throws Error if a module is not a unit
  void set_modules_to_forward_prefetch(const nn::Module& module, const Modules& ahead) {
    unit_of(module).ahead_in_forward = units_of(ahead);
  }
  /// The same for backward.
  void set_modules_to_backward_prefetch(const nn::Module& module, const Modules& ahead) {
    unit_of(module).ahead_in_backward = units_of(ahead);
  }

  /// Forgets all gradients. Call it before the first micro-step: without it the gradients of the
  /// step before stay in the sum, as in PyTorch, or backward throws where they cannot. A pass that
  /// was given up in its backward may have left a part of its gradients: this forgets them, too.
  /// @throws Error in the middle of a pass
  void zero_grad(bool set_to_none = true) {
    for (const Unit& unit : units_) unit.require_at_rest("zero_grad", /*or_under_way=*/true);
    for (Unit& unit : units_) unit.zero_grad(set_to_none);
  }

  /// The norm of all gradients after their reduction, and what clips it: pass what this returns to
  /// the optimizer's step (grad_norm.h).
  /// @param max_norm 0 or less: no clipping
  /// @returns float32 [1], on the rank's device: min(1, max_norm / norm)
  Tensor clip(double max_norm) {
    if (!norm_) norm_.emplace(context_, mesh_);
    norm_->compute(units_, max_norm);
    return norm_->coefficient();
  }
  /// The norm that the last clip() computed: float32 [1], before clipping.
  /// @throws Error before the first clip()
  Tensor grad_norm() const;

  /// Calls `visit` on every parameter while it is whole, one unit at a time, the same on every
  /// rank, in float32 (FSDP's summon_full_params). Read only: writes are lost. Where units compute
  /// with rounded parameters it takes memory of its own, meanwhile. What `visit` throws passes
  /// through, and the model can go on, if all ranks throw alike; else the others wait for this one.
  /// It runs no pass of the model.
  /// @throws Error while a forward or a backward of the model runs
  void summon_full_parameters(const std::function<void(const nn::Parameter&)>& visit);

 private:
  void make_units();
  void agree_on_values();
  Buffer gather_exactly(ShardedParameters& row, const std::string& unit);
  void attach(Unit& unit);
  void begin_pass(nn::Tape& tape);
  Unit& unit_of(const nn::Module& module);
  std::vector<Unit*> units_of(const Modules& modules);
  void prefetch_in_forward(const Unit& unit, Purpose purpose);
  void prefetch_in_backward(const Unit& unit, BackwardPrefetch moment);
  void reduce(Unit& unit);
  void end_pass(bool backward);
  bool keeps_after_backward() const;

  Context& context_;
  nn::Module& model_;
  comm::Mesh& mesh_;
  Options options_;
  std::optional<GradNorm> norm_;
  WholeMemory whole_parameters_, whole_gradients_;
  std::vector<Unit> units_;
  std::vector<Unit*> backward_order_;  // in which backward ends with units that are used once
  Schedule schedule_;
  std::shared_ptr<nn::Tape::EndOfPass> end_of_pass_;
  bool last_micro_step_ = true;
  bool agreed_ = false;  // on the first values
};

/// PyTorch's name for it. All of a step, of a model that takes a tensor and gives one:
///
///     auto sharded = fully_shard(context, model, mesh, {.wrap_policy = is_a<Layer>});
///     AdamW optimizer(context, sharded.units(), {});
///     ...
///     sharded.zero_grad();
///     tape.begin(/*training=*/true);
///     Tensor y = sharded.forward(tape, x);  // and the gradient dy of the loss, by y
///     sharded.backward(tape, dy);
///     optimizer.step(1e-3, sharded.clip(1.0));
///
/// @throws Error as the constructor of ShardedModel; and if two units use one parameter (wrap.h)
inline ShardedModel fully_shard(Context& context, nn::Module& model, comm::Mesh& mesh,
                                const Options& options = {}) {
  return ShardedModel(context, model, mesh, options);
}

}  // namespace nanofsdp::fsdp
