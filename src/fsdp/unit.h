#pragma once

#include "fsdp/storage.h"

namespace nanofsdp::fsdp {

/// @file
/// @brief One FSDP unit: gather, compute, discard; and reduce.
///
///     sharded -> gathering -> unsharded -> sharded            parameters
///     sharded -> reducing -> sharded                          gradients, when backward is over
///
/// All work is enqueued on streams. On a GPU the host does not wait for the device. The states are
/// the same under every strategy. A strategy decides only where whole copies lie and how long they
/// are kept, and that is in storage.h.

/// The purpose of a gather. Evaluations and checkpoints also gather, and their traffic is counted
/// apart from that of training.
enum class Purpose { training, evaluation };

/// One unit on one rank. ShardedModel makes all units, and its hooks call them, always from the
/// main thread.
class Unit {
 public:
  /// The state of the unit.
  enum class State {
    sharded,    ///< it rests: nothing reads whole parameters
    gathering,  ///< the all-gather has been issued, and may be complete
    unsharded,  ///< the module sees whole parameters and may compute
    reducing    ///< the reduction of the gradients has been issued
  };

  /// Shards the module's parameters.
  /// @param context, mesh, options must outlive the unit, and so must the parameters. The options
  ///        are those of this unit
  /// @param parameters, gradients must outlive the unit too. They may be allocated after it is
  ///        made, but before it is used
  Unit(Context& context, comm::Mesh& mesh, const Options& options, WrappedModule wrapped,
       WholeMemory& parameters, WholeMemory& gradients);
  Unit(Unit&&) = default;

  const std::string& name() const { return wrapped_.name; }  ///< the module's path, or "root"
  /// Its module, or those of its group, in the order of the module tree.
  std::span<nn::Module* const> modules() const { return wrapped_.modules; }
  nn::Module& module() const { return *wrapped_.module; }  ///< the first of them
  int depth() const { return wrapped_.depth; }             ///< how many units lie around this one
  bool is_root() const { return depth() == 0; }
  State state() const { return state_; }
  /// The dtypes of its collectives.
  const MixedPrecision& precision() const { return options_.precision; }

  /// The first row has the parameters that train. It may be empty. Then come the frozen ones, if
  /// there are any: a row for those in float32, and one for those in bfloat16.
  std::span<ShardedParameters> rows() { return rows_; }
  std::span<const ShardedParameters> rows() const { return rows_; }
  bool trains() const { return rows_.front().trains(); }  ///< whether any of its parameters trains
  /// The number of elements of all its parameters, without padding.
  std::int64_t numel() const {
    std::int64_t numel = 0;
    for (const ShardedParameters& row : rows_) numel += row.layout().total_numel();
    return numel;
  }

  /// Issues the all-gather of the parameters, unless it is under way, or there is a whole copy and
  /// no shard has changed since.
  /// @throws Error naming the parameters that have no values yet
  void unshard(Purpose purpose = Purpose::training);
  /// The same, before the unit is needed, if a slot is free. A unit that is reducing its gradients
  /// is not gathered again: this pass is done with it.
  void prefetch(Purpose purpose = Purpose::training) {
    if (state_ != State::reducing && parameters_.have_room()) unshard(purpose);
  }

  /// Lets the compute stream wait for the all-gather, and shows the whole parameters to the module.
  void wait_until_unsharded();

  /// The module does not read whole parameters any more. Borrowed memory is given back.
  /// @param keep keeps the whole copy for the next use. If a shard changes before that, the unit is
  ///        gathered again
  void reshard(bool keep = false);

  /// Call it before reshard(), in a forward that has a backward. If a smaller group of ranks keeps
  /// the unit until backward, this rank copies its slice for that group.
  void keep_slice() { parameters_.keep_slice(*context_.compute); }

  /// Ends the pass for this unit, in whatever state it is. A whole copy that the pass has kept is
  /// given back.
  /// @param keep keeps such a copy for the next pass
  void end_of_use(bool keep);

  /// The first backward of a pass begins. @throws Error if the gradients of the last step are sums
  /// over the ranks already, and zero_grad has not been called: a second reduction would add them
  /// again
  void begin_backward() { gradients_.begin_backward(); }
  /// Shows whole gradients to the module. They are zeros, or the sums that earlier micro-steps have
  /// left.
  void take_gradients();

  /// Issues the reduction of the gradients, and the result is added to the shard. Call it after
  /// reshard(). Does nothing if this micro-step reduces nothing, or if a reduction is under way.
  /// @param last_micro_step whether the optimizer steps after this backward
  void reduce_gradients(bool last_micro_step);

  /// Lets the compute stream wait for the reduction. Does nothing if none is under way.
  void wait_for_reduction();

  /// Frees whole gradients without a reduction, as when a pass is given up.
  void drop_gradients() { gradients_.give_back(context_.compute->record()); }

  /// Forgets the gradients, as PyTorch's zero_grad does. With set_to_none there are no gradients
  /// until the next backward; without it they are zeros.
  void zero_grad(bool set_to_none) { gradients_.forget(set_to_none); }

  /// Throws unless the shard may be written: nothing uses the unit, and no backward is to come.
  /// @param or_under_way requires only that the module does not compute now. The all-gather may be
  ///        under way, and a backward may be to come
  void require_at_rest(const char* why, bool or_under_way = false) const;

  /// @throws Error naming the parameters that have no values yet
  void require_initialised() const;

  // ShardedModel sets the members below. The first five are its controls of a unit.
  bool requires_gradient_sync = true;  ///< whether backward reduces the gradients
  bool requires_all_reduce = true;     ///< whether groups of ranks then add up their shards
  /// Whether the unit is resharded between forward and backward. At first the root is not, because
  /// backward begins with it.
  bool reshard_after_forward;
  bool reshard_after_backward = true;  ///< whether it is resharded when the pass is over
  bool unshard_in_backward = true;     ///< whether its backward reads parameters
  /// Whether backward unshards the unit. If a whole copy is here, it costs nothing.
  bool unshards_in_backward() const {
    return unshard_in_backward || state_ != State::sharded || parameters_.are_fresh();
  }
  /// Whether it stays unsharded at one of these moments.
  bool stays() const { return !reshard_after_forward || !reshard_after_backward; }

  /// The units that are gathered ahead when forward, or backward, reaches this unit. If it is not
  /// set, these are the units that came next in the last pass.
  std::optional<std::vector<Unit*>> ahead_in_forward{}, ahead_in_backward{};

  int passes = 0;  ///< how many passes are under way, each on a tape of its own
  bool gathered_since_last_forward = false;  ///< in this pass, and its forward has not begun since
  bool has_ended = false;                    ///< in this pass, the backward of the unit is over
  bool took_gradients = false;               ///< in this pass, the unit has shown whole gradients
  int pending_calls = 0;  ///< calls of forward that still wait for their backward
  std::size_t span = 0;   ///< the trace's number for the forward or backward that runs now

 private:
  void advance(State from, State to, const char* verb);
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
