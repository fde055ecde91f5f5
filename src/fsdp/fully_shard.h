#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "fsdp/grad_norm.h"
#include "fsdp/schedule.h"

namespace nanofsdp::fsdp {

/// @file
/// @brief The room `fsdp`: the model computes as before, on parameters that are gathered for it.
///
/// Comes in: any tree of modules, a mesh of ranks, and options. Goes out: the same model, but each
/// rank keeps only a shard of it. Backward leaves the gradients of the shard, which the optimizer
/// reads (sharded_optimizer.h).
///
/// FSDP consists of four hooks on the module of each unit, and of the end of the pass:
///
///     pre_forward     unshard, prefetch the next unit, wait
///     post_forward    reshard (the root stays, and is resharded after evaluation)
///     pre_backward    unshard, prefetch the next unit, wait, take zeroed gradients
///     post_backward   reshard, reduce
///     end of pass     reduce the remaining gradients, undo prefetches that no unit used
///
/// Each layer below has one job. A unit knows in which state it is (unit.h). Its storage knows
/// where whole copies lie (storage.h), and its rows know their shards (sharded_parameters.h). The
/// collectives move both (collectives.h).

/// A list of modules. Each of them is a unit.
using Modules = std::vector<const nn::Module*>;

/// A model under FSDP. fully_shard() below makes it, and shows a step. The calls forward, backward,
/// clip and summon_full_parameters are collective: all ranks make them in the same order. If a rank
/// is lost they throw comm::CommError. All ranks must also change requires_grad and the controls in
/// the same way.
///
/// In a pass that gathers nothing, ranks may use different units. Under no_shard no pass gathers.
/// Under shard_optimizer and shard_gradients only the first pass gathers after the shards were
/// written. In every other pass all ranks must use the same units. If one leaves a unit out, the
/// others wait for it, and their error names the unit.
class ShardedModel {
 public:
  /// Shards the model and attaches to its hooks. On one rank nothing is sharded, whatever the
  /// strategy. Parameters that have values keep them, until deferred_init draws others.
  /// @param context, model, mesh must outlive this object
  /// @throws Error if a parameter is sharded already, has values of another shape (ShapeError), or
  ///         is a part for which the mesh has no tensor group; or if the mesh has groups and the
  ///         strategy does not use groups
  ShardedModel(Context& context, nn::Module& model, comm::Mesh& mesh, const Options& options);
  /// Afterwards the model has no values, so save them before. It keeps the user's hooks. If an
  /// exception destroys the model, this rank leaves the collectives of its mesh: the other ranks
  /// may wait for it. Catch an error that all ranks get before it leaves the model's scope;
  /// otherwise mesh and context cannot be used any more.
  ~ShardedModel();

  /// The units, in the order of the model. The root is the last one.
  std::span<Unit> units() { return units_; }
  std::span<const Unit> units() const { return units_; }
  /// The rows of all units, in the same order.
  std::vector<ShardedParameters*> rows();
  ShardingStrategy strategy() const { return options_.strategy; }
  Context& context() { return context_; }
  comm::Mesh& mesh() { return mesh_; }
  Stream& stream() { return *context_.compute; }  ///< the stream on which operators run

  /// Module::forward of the model. The result lives on the tape. Between a forward and its backward
  /// the model may evaluate on another tape, but not while one of the two runs.
  /// @throws Error naming those parameters that never got values, that were frozen when they were
  ///         sharded and are to train now, or whose dtype was changed since
  /// @throws CommError in the first forward, or in the first one after all ranks were given new
  ///         values, if parameters have other names, layouts or values on other ranks
  Tensor forward(nn::Tape& tape, Tensor x) { return model_.forward(tape, x); }

  /// Runs the backward of the whole model and ends the pass. Then the reduced gradients can be
  /// read.
  /// @param dy the gradient of the output, in its shape; backward may overwrite it
  /// @param last_micro_step whether the optimizer steps next. Then gradients that were kept whole
  ///        are reduced now. If it is not given, as LastMicroStep says, or else true
  /// @throws Error if zero_grad should have been called since the last step, or if backward does
  ///         not restore what forward saved
  void backward(nn::Tape& tape, Tensor dy, std::optional<bool> last_micro_step = {});

  // The controls of FSDP2. Each is set for the unit `module`, or for all units. Call them between
  // two passes, and in the same way on all ranks. They throw an Error if the module is not a unit.

  /// Switches gradient synchronisation on or off. While it is off, backward adds up whole
  /// gradients. The first backward after it is on again reduces them. Do not step before that: the
  /// optimizer would find no gradients, or under a strategy that shards gradients the zeros of
  /// zero_grad(false).
  void set_requires_gradient_sync(bool on, const nn::Module* module = nullptr) {
    for (Unit& unit : units(module)) unit.requires_gradient_sync = on;
  }
  /// Under a hybrid strategy: while it is off, gradients are reduced inside each group of ranks
  /// only, and the optimizer sees none. When it is on again, the next backward of a last micro-step
  /// adds up the groups. Under hybrid_shard_optimizer this is a reduce-scatter.
  void set_requires_all_reduce(bool on, const nn::Module* module = nullptr) {
    for (Unit& unit : units(module)) unit.requires_all_reduce = on;
  }
  /// Says whether the unit is resharded after its forward, and gathered again for its backward. At
  /// first this is as the strategy says; the root is not resharded.
  void set_reshard_after_forward(bool on, const nn::Module* module = nullptr) {
    for (Unit& unit : units(module)) unit.reshard_after_forward = on;
  }
  /// While it is off, the unit stays unsharded after its backward. Then the next micro-step does
  /// not gather it. After an optimizer step it is gathered again.
  void set_reshard_after_backward(bool on, const nn::Module* module = nullptr) {
    for (Unit& unit : units(module)) unit.reshard_after_backward = on;
  }
  /// Switch it off if the backward of the unit reads no parameters, as that of an embedding, which
  /// only adds up gradients. Then backward does not gather the unit. If an operator reads the
  /// parameters all the same, it finds the rank's piece of them. It throws unless the shape fits.
  void set_unshard_in_backward(bool on, const nn::Module* module = nullptr) {
    for (Unit& unit : units(module)) unit.unshard_in_backward = on;
  }
  /// Says which units are gathered ahead when forward reaches the unit `module`, as long as slots
  /// are free. Without this call these are the units that came next in the last pass.
  /// @throws Error if a module is not a unit
  void set_modules_to_forward_prefetch(const nn::Module& module, const Modules& ahead) {
    unit_of(module).ahead_in_forward = units_of(ahead);
  }
  /// The same for backward.
  void set_modules_to_backward_prefetch(const nn::Module& module, const Modules& ahead) {
    unit_of(module).ahead_in_backward = units_of(ahead);
  }

  /// Forgets all gradients. Call it before the first micro-step of each step. Without it the last
  /// step's gradients stay in the sum, as in PyTorch; if the strategy cannot add to them, backward
  /// throws. It also forgets the gradients of a backward that was given up half-way.
  /// @throws Error while a forward or a backward of the model runs
  void zero_grad(bool set_to_none = true) {
    for (const Unit& unit : units_) unit.require_at_rest("zero_grad", /*or_under_way=*/true);
    for (Unit& unit : units_) unit.zero_grad(set_to_none);
  }

  /// Computes the norm of all reduced gradients, and the factor that clips it. Pass the factor to
  /// the optimizer's step (grad_norm.h).
  /// @param max_norm the longest norm that is allowed; 0 or less: any
  /// @returns min(1, max_norm / norm), as float32 [1] on the rank's device
  /// @throws Error while a forward or a backward of the model runs, or gradients are being reduced
  Tensor clip(double max_norm) {
    for (const Unit& unit : units_) unit.require_at_rest("clip", /*or_under_way=*/true);
    if (!norm_) norm_.emplace(context_, mesh_);
    norm_->compute(units_, max_norm);
    return norm_->coefficient();
  }
  /// The norm that the last clip() has computed, before clipping, as float32 [1].
  /// @throws Error before the first clip()
  Tensor grad_norm() const;

  /// Calls `visit` on every parameter while it is whole and in float32. It gathers one unit at a
  /// time, and all ranks see the same values (FSDP's summon_full_params). `visit` must not write,
  /// and must not run the model. If units compute with rounded parameters, this takes additional
  /// memory while it runs. If `visit` throws on all ranks, the error passes through and the model
  /// can still be used. If it throws on some ranks only, the others wait for them.
  /// @throws Error while a forward or a backward of the model runs
  void summon_full_parameters(const std::function<void(const nn::Parameter&)>& visit);

 private:
  friend class LastMicroStep;
  void make_units();
  void agree_on_values();
  Buffer gather_exactly(ShardedParameters& row, const std::string& unit);
  void attach(Unit& unit, nn::Module& module);
  void begin_pass(nn::Tape& tape);
  Unit& unit_of(const nn::Module& module);
  std::span<Unit> units(const nn::Module* module) {
    return module == nullptr ? units() : std::span(&unit_of(*module), 1);
  }
  std::vector<Unit*> units_of(const Modules& modules);
  void prefetch_in_backward(const Unit& unit, BackwardPrefetch moment);
  void reduce(Unit& unit);
  void end_pass(bool backward);
  bool keeps_after_backward(const Unit& unit) const;
  SlotCounts slot_counts() const;

  Context& context_;
  nn::Module& model_;
  comm::Mesh& mesh_;
  Options options_;
  std::optional<GradNorm> norm_;
  WholeMemory whole_parameters_, whole_gradients_;
  std::deque<Options> unit_options_;  // a deque does not move its elements when one is added
  std::vector<Unit> units_;
  // The order in which backward ends, if each unit is used once.
  std::vector<Unit*> backward_order_;
  Schedule schedule_;
  std::shared_ptr<nn::Tape::EndOfPass> end_of_pass_;
  nn::Tape* last_ = nullptr;  // the tape of the pass that computed last, until a pass ends
  bool last_micro_step_ = true;
  std::optional<std::uint64_t> agreed_;  // the fingerprint that all ranks had when they compared
};

/// Says whether a backward is that of the last micro-step, as long as the object lives (PyTorch's
/// set_is_last_backward). You need it if several models share a tape. Then you call
/// Module::backward of each model, and Tape::end_backward after them:
///
///     const LastMicroStep scope(sharded, step == steps - 1);
class LastMicroStep {
 public:
  LastMicroStep(ShardedModel& model, bool last)
      : said_(model.last_micro_step_), before_(std::exchange(said_, last)) {}
  ~LastMicroStep() { said_ = before_; }  ///< the earlier answer holds again

 private:
  bool &said_, before_;
};

/// Makes a ShardedModel, under PyTorch's name. This is a whole step of a model that takes one
/// tensor and returns one:
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
/// @throws Error if two units use one parameter (wrap.h), or as the constructor of ShardedModel
/// does
inline ShardedModel fully_shard(Context& context, nn::Module& model, comm::Mesh& mesh,
                                const Options& options = {}) {
  return ShardedModel(context, model, mesh, options);
}

}  // namespace nanofsdp::fsdp
