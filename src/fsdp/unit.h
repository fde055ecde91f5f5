#pragma once

#include "fsdp/storage.h"
#include "fsdp/wrap.h"

namespace nanofsdp::fsdp {

/// @file
/// @brief One FSDP unit: gather, compute, discard; and reduce.
///
///     sharded -> gathering -> unsharded -> sharded            parameters
///     sharded -> reducing -> sharded                          gradients, when backward is over
///
/// Every step of the way is enqueued on streams, none blocks the host on a GPU. The way is the same
/// for every strategy; where whole copies lie, and how long they are kept, is storage.h's.

/// What parameters are gathered for. An evaluation's traffic, or a checkpoint's, is counted apart.
enum class Purpose { training, evaluation };

/// One unit on one rank. ShardedModel makes all units, and its hooks call them. For the main
/// thread.
class Unit {
 public:
  /// Where the unit is on its way.
  enum class State {
    sharded,    ///< at rest: nothing reads whole parameters
    gathering,  ///< a whole copy is on its way, or there
    unsharded,  ///< the views show whole parameters
    reducing    ///< the reduction of the gradients is under way
  };

  /// Shards the module's parameters.
  /// @param context, mesh, options outlive the unit, as do the parameters
  /// @param parameters, gradients outlive the unit too; they may be allocated later, before the
  ///        first use
  Unit(Context& context, comm::Mesh& mesh, const Options& options, WrappedModule wrapped,
       WholeMemory& parameters, WholeMemory& gradients);
  Unit(Unit&&) = default;

  const std::string& name() const { return wrapped_.name; }  ///< the module's path; "root"
  nn::Module& module() const { return *wrapped_.module; }    ///< that is the unit
  int depth() const { return wrapped_.depth; }               ///< units around it
  bool is_root() const { return depth() == 0; }              ///< no unit is around it
  State state() const { return state_; }                     ///< now

  /// The parameters that train, which may be none; then those that are frozen, float32 or bfloat16,
  /// if there are any.
  std::span<ShardedParameters> rows() { return rows_; }
  std::span<const ShardedParameters> rows() const { return rows_; }  ///< the same, to look at
  bool trains() const { return rows_.front().trains(); }             ///< whether any parameter does
  /// Elements of its parameters.
  std::int64_t numel() const {
    std::int64_t numel = 0;
    for (const ShardedParameters& row : rows_) numel += row.layout().total_numel();
    return numel;
  }

  /// Issues the all-gather of the parameters, unless a fresh whole copy is there or on its way.
  /// @throws Error naming the parameters that have no values yet
  void unshard(Purpose purpose = Purpose::training);
  /// The same, ahead of time, if there is room. A unit whose gradients are on their way is done.
  void prefetch(Purpose purpose = Purpose::training) {
    if (state_ != State::reducing && parameters_.have_room()) unshard(purpose);
  }

  /// Orders computation after the all-gather and shows the whole parameters to the model.
  void wait_until_unsharded();

  /// Ends the use of whole parameters, and gives borrowed memory back.
  /// @param keep the whole copy for the next use; if the shard has changed by then it is gathered
  ///        anew
  void reshard(bool keep = false);

  /// Before reshard(), from a forward whose backward will come: keeps a slice of the whole copy
  /// where a smaller group is to gather it again.
  void keep_slice() { parameters_.keep_slice(*context_.compute); }

  /// Ends whatever use was begun, and gives a whole copy back that the pass kept.
  /// @param keep such a copy, for the next pass
  void end_of_use(bool keep);

  /// Backward of the model begins. @throws Error where the gradients of the step before are whole
  /// or replicated, and were not forgotten
  void begin_backward() { gradients_.begin_backward(); }
  /// Shows whole gradients to the model: zeroed, or those that are still adding up.
  void take_gradients();

  /// Issues the reduction of the gradients, after reshard(): its result is added to the shard. Does
  /// nothing where none is due in this micro-step, or it is under way.
  /// @param last_micro_step of the optimizer step
  void reduce_gradients(bool last_micro_step);

  /// Orders computation after the reduction. Does nothing if none is under way.
  void wait_for_reduction();

  /// Gives back unsharded gradients that will not be reduced.
  void drop_gradients() { gradients_.give_back(context_.compute->record()); }

  /// Forgets the gradients. As PyTorch's: to none, or else they are zeros that can be read.
  void zero_grad(bool set_to_none) { gradients_.forget(set_to_none); }

  /// Throws unless the shard may be written: the unit is not in use, and no backward waits for it.
  /// @param or_under_way only that it is not in use: a whole copy may be on its way, and a backward
  ///        may come
  void require_at_rest(const char* why, bool or_under_way = false) const;

  // Set by ShardedModel.
  bool requires_gradient_sync = true;  ///< or whole gradients add up, and are not reduced
  /// What is gathered ahead when forward, or backward, comes to this unit; none: as it was before.
  std::optional<std::vector<Unit*>> ahead_in_forward{}, ahead_in_backward{};

  int passes = 0;               ///< that are under way, on one tape each
  bool was_gathered = false;    ///< in this pass, and forward has not begun since
  bool has_ended = false;       ///< with backward, in this pass
  bool took_gradients = false;  ///< in this pass
  int pending_calls = 0;        ///< of forward, which wait for their backward in this pass
  std::size_t span = 0;         ///< in the trace: of the forward or backward that runs

 private:
  void advance(State from, State to, const char* verb);
  void require_initialised() const;
  void gather(Purpose purpose);

  Context& context_;
  comm::Mesh& mesh_;
  const Options& options_;
  WrappedModule wrapped_;
  std::vector<ShardedParameters> rows_;
  WholeParameters parameters_;
  WholeGradients gradients_;

  State state_ = State::sharded;
  Event gathered_, reduced_;
};

}  // namespace nanofsdp::fsdp
