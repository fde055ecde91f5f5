#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "fsdp/layout.h"
#include "fsdp/schedule.h"
#include "fsdp/strategy.h"

namespace models {

/// @file
/// @brief A model and a list of actions, as plain data. The generator draws it, the shrinker makes
/// it smaller, and both the reference and FSDP run it.
///
/// Every module maps [rows, width] to [rows, width], so any tree of modules is a model. Any part of
/// the list of actions is a program, too.

enum class Kind {
  identity,    ///< returns its input
  gelu,        ///< has no parameters
  dropout,     ///< drops half of the elements in training
  linear,      ///< weight [width, width], bias
  layer_norm,  ///< weight [width], bias
  affine,      ///< y = x * weight + bias, weight [width]
  shift,       ///< y = x + weight [width]; its backward reads no parameter
  unused,      ///< has a weight [width] that no computation uses
  silent,      ///< has a weight [width]; asks for its gradient, which stays zero
  sequential,  ///< calls its children one after the other
  residual,    ///< x + the result of its children, one after the other
  parallel,    ///< the sum of the results of its children, each for x
  detached,    ///< x + the result of its children, with no gradient through them
  repeat,      ///< calls its children `times` times
  choose,      ///< calls one of its children or none, by the number of the pass
  cross        ///< a module of two tensors reads x and the result of the children, and returns two
};

struct Node {
  Kind kind = Kind::identity;
  bool unit = false;
  /// The options of a unit; 0: those of the world. If it is in a group, those of the group's first
  /// unit count.
  int reshards = 0;  ///< 1: it is resharded after forward; 2: it is not
  int dtypes = 0;    ///< 1 + the number of a pair: param_dtype, reduce_dtype (precision_of)
  int group = 0;     ///< units of one group (not 0) are one; a unit inside another of it is alone
  bool inner_unit = false;  ///< for cross: whether the module of two tensors is a unit
  bool recompute = false;
  bool last_first = false;    ///< declares its children in the reverse order of their use
  bool again = false;         ///< its first child is its last one too: a module with two names
  bool hooks_before = false;  ///< the user adds hooks before the model is sharded
  bool hooks_after = false;   ///< the user adds hooks after it is sharded

  // These are for leaves with parameters.
  bool bias = false;  ///< for linear, layer_norm, affine
  bool frozen = false;
  bool frozen_bias = false;
  bool half = false;  ///< its frozen parameters are stored in bfloat16
  /// Leaves of one unit with the same tie (not 0) and the same shape share their weight.
  int tie = 0;

  int times = 1;             ///< for repeat
  std::vector<int> picks{};  ///< for choose: pass p calls child picks[p % size]; -1: none
  bool by_rank = false;      ///< for choose: p + rank in place of p, in passes without gathers

  std::vector<Node> children{};

  friend bool operator==(const Node&, const Node&) = default;
};

/// The actions, which all ranks do.
enum class Do {
  pass,       ///< forward, the actions `inside`, and backward; `on`: its micro-step is the last
  evaluate,   ///< a forward pass without backward
  give_up,    ///< a forward pass of training that is ended without backward
  fail,       ///< a pass in which the call `which` of a module or hook throws, then zero_grad
  zero_grad,  ///< `on`: to none; otherwise to zeros
  clip,       ///< computes the norm without a step; not `on`: clips nothing
  step,       ///< clip, and a step of the optimizer
  sync,       ///< switches gradient synchronisation `on` or off for the unit `which`; -1: for all
  across,     ///< the same for the sum across groups of ranks
  after_forward,   ///< says whether these units are resharded after forward
  after_backward,  ///< says whether they are resharded after backward
  in_backward,     ///< says whether backward gathers those of them that are a shift
  train,           ///< the parameter `which` trains from now on, or (not `on`) is frozen
  look,            ///< reads names, gradients and values of the module `which`
  summon,          ///< visits all parameters; not `on`: the visitor throws at the parameter `which`
  ahead,  ///< sets the units that are gathered ahead of `which`, in forward (`on`) or backward
  save,   ///< saves a checkpoint
  load    ///< loads the last checkpoint, if there is one
};

inline std::string_view name_of(Do what) {
  static constexpr std::string_view kNames[] = {
      "pass",  "evaluate", "give_up", "fail",          "zero_grad",      "clip",
      "step",  "sync",     "across",  "after_forward", "after_backward", "in_backward",
      "train", "look",     "summon",  "ahead",         "save",           "load"};
  return kNames[static_cast<std::size_t>(what)];
}
inline constexpr int kDos = 18;  ///< number of the actions

/// An action. A number that is too large begins again at the first one.
struct Action {
  Do what = Do::pass;
  bool on = true;
  int which = 0;
  std::vector<Action> inside{};  ///< the actions inside a pass

  friend bool operator==(const Action&, const Action&) = default;
};

/// The source of the first values of the parameters.
enum class First {
  given,      ///< all ranks give the same values
  drawn,      ///< values are drawn when the model is sharded
  broadcast,  ///< rank 0's values count, and the others give other values
  shapes,     ///< rank 0's values count, and the others give none
  mixed,      ///< each rank gives values of its own
  partial     ///< all give the same values, but none for the last parameter
};

/// The number of ranks, and the way in which the model is sharded.
struct World {
  int ranks = 1;
  int shard_size = 0;         ///< for the hybrid strategies; 0: all ranks
  int post_forward_size = 0;  ///< if units reshard after forward; 0: the shard group
  /// Ranks of a tensor group. They are copies of one rank, and half of the parameters are taken for
  /// parts of larger ones.
  int tensor = 1;
  nanofsdp::fsdp::ShardingStrategy strategy = nanofsdp::fsdp::ShardingStrategy::full_shard;
  nanofsdp::fsdp::LayoutKind layout = nanofsdp::fsdp::LayoutKind::flat;
  nanofsdp::DType param_dtype = nanofsdp::DType::float32;
  nanofsdp::DType reduce_dtype = nanofsdp::DType::float32;
  bool no_sync = false;
  bool average = false;  ///< whether gradients are averaged over ranks, not summed
  int forward_prefetch = 0;
  nanofsdp::fsdp::BackwardPrefetch backward_prefetch = nanofsdp::fsdp::BackwardPrefetch::none;
  int alignment = 4;
  bool pool = true;
  bool poison = true;
  bool late = false;  ///< whether collectives are late
  bool traced = false;

  friend bool operator==(const World&, const World&) = default;
};

/// The actions of one world.
struct Part {
  World world{};
  std::vector<Action> actions{};

  friend bool operator==(const Part&, const Part&) = default;
};

struct Program {
  std::uint32_t seed = 1;  ///< decides the values: parameters, rows, gradients of the output
  int width = 3;           ///< if it is a multiple of 4, there are no gaps between parameters
  int rows = 1;            ///< rows of each rank
  First first = First::given;
  /// Between two parts a checkpoint is saved, and the ranks of the next part load it.
  std::vector<Part> parts{Part{}};
  Node model{};

  friend bool operator==(const Program&, const Program&) = default;
};

/// The actions of a plain training.
inline std::vector<Action> training(int steps, int micro_steps = 1, bool set_to_none = true) {
  std::vector<Action> actions;
  for (int step = 0; step < steps; ++step) {
    actions.push_back({.what = Do::zero_grad, .on = set_to_none});
    for (int m = 1; m <= micro_steps; ++m) actions.push_back({.on = m == micro_steps});
    actions.push_back({.what = Do::step});
  }
  return actions;
}

/// Calls `visit` on every node of the tree, parents first.
template <class N, class Visit>
void each_node(N& node, const Visit& visit) {
  visit(node);
  for (auto& child : node.children) each_node(child, visit);
}

}  // namespace models
