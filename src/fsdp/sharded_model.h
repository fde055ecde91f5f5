#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/context.h"
#include "comm/mesh.h"
#include "fsdp/prefetch.h"
#include "fsdp/unit.h"
#include "fsdp/wrap.h"
#include "nn/module.h"

namespace nanofsdp::fsdp {

/// @file
/// @brief fully_shard: a model that computes as ever, on parameters that come and go.
///
/// All there is to it are four hooks on each unit's module and one on each parameter:
///
///     pre_forward            unshard, wait
///     post_forward           reshard (the root stays, and is resharded after evaluation)
///     pre_backward           unshard, wait, take zeroed gradients, prefetch the next unit
///     post_accumulate_grad   of the unit's last parameter: reshard, reduce
///     end of backward        settle what is left, order computation after all reductions

struct Options {
  ShardingStrategy strategy = kFullShard;
  BackwardPrefetch backward_prefetch = BackwardPrefetch::pre;
  comm::ReduceOp reduction = comm::ReduceOp::average;
  std::int64_t alignment = 4;  ///< of parameters in the flat parameter, in elements: 16 bytes
  bool poison = false;         ///< NaN into discarded parameters
  WrapPolicy wrap_policy;      ///< which modules become units
};

class ShardedModel {
 public:
  /// Attaches to the model's hooks. On one rank nothing is sharded, whatever the strategy.
  /// @param context, model, mesh outlive this object
  /// @throws Error if a module's hooks are taken
  ShardedModel(Context& context, nn::Module& model, comm::Mesh& mesh, const Options& options);
  ~ShardedModel();
  ShardedModel(const ShardedModel&) = delete;
  ShardedModel& operator=(const ShardedModel&) = delete;

  /// The units, in the order of the model, the root last.
  std::span<Unit> units() { return units_; }
  const ShardingStrategy& strategy() const { return options_.strategy; }

  Tensor forward(nn::Tape& tape, Tensor x);

  /// Backward of the whole model; afterwards the reduced gradients can be read.
  /// @param last_micro_step of the optimizer step: gradients that are not sharded are reduced now
  void backward(nn::Tape& tape, Tensor dy, bool last_micro_step = true);

  /// Forgets all gradients. Call it before the first micro-step.
  void zero_grad();

  /// Calls `visit` on every parameter while its unit is unsharded, one unit at a time, the same on
  /// every rank (FSDP's summon_full_params). Read only: writes are lost.
  void summon_full_parameters(const std::function<void(const nn::Parameter&)>& visit);

 private:
  // How far a unit's backward is.
  struct Progress {
    bool active = false;
    std::size_t missing = 0;  // parameters that have not got their gradient
  };

  void attach(Unit& unit);
  UnitPools make_pools(int slots, std::int64_t numel);
  bool is_root(const Unit& unit) const { return &unit == &units_.back(); }
  Progress& progress(const Unit& unit) {
    return progress_[static_cast<std::size_t>(&unit - units_.data())];
  }

  void pre_forward(Unit& unit);
  void post_forward(Unit& unit);
  void pre_backward(Unit& unit);
  void gradient_ready(Unit& unit);
  void post_backward(Unit& unit);
  void end_of_backward();

  Context& context_;
  nn::Module& model_;
  comm::Mesh& mesh_;
  Options options_;
  std::vector<std::unique_ptr<BufferPool>> pools_;
  std::vector<Unit> units_;
  std::vector<Progress> progress_;  // of each unit
  ForwardOrder order_;
  bool training_ = false;
  bool last_micro_step_ = true;
};

}  // namespace nanofsdp::fsdp
