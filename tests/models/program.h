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
/// @brief A model and what is done with it, as plain data: what the generator draws, the shrinker
/// makes smaller, and both the reference and FSDP run.
///
/// Every module maps [rows, width] to [rows, width], so any tree of them is a model. The actions
/// are a list, and whatever is taken out of it leaves a program.

enum class Kind {
  identity,    ///< nothing
  gelu,        ///< no parameters
  dropout,     ///< drops a half of what goes through it in training
  linear,      ///< weight [width, width], bias
  layer_norm,  ///< weight [width], bias
  affine,      ///< y = x * weight + bias, weight [width]
  unused,      ///< a weight [width] that nothing uses
  silent,      ///< a weight [width] whose gradient is asked for and stays zero
  sequential,  ///< one child after the other
  residual,    ///< x + its children, one after the other
  parallel,    ///< the sum of its children, each of x
  detached,    ///< x + its children, through which no gradient flows
  repeat,      ///< its children, `times` times
  choose       ///< one of its children or none, by the number of the pass
};

struct Node {
  Kind kind = Kind::identity;
  bool unit = false;
  bool recompute = false;
  bool last_first = false;    ///< declares its children in the reverse order of their use
  bool again = false;         ///< its first child is its last, too: one module with two names
  bool hooks_before = false;  ///< the user hooks in before the model is sharded
  bool hooks_after = false;   ///< and afterwards

  // Of leaves with parameters.
  bool bias = false;  ///< of linear, layer_norm, affine
  bool frozen = false;
  bool frozen_bias = false;
  bool half = false;  ///< what is frozen of it is stored in bfloat16
  int tie = 0;  ///< leaves of one unit share their weight where tie (not 0) and shape are the same

  int times = 1;             ///< of repeat
  std::vector<int> picks{};  ///< of choose: pass p calls child picks[p % size], -1 none
  bool by_rank = false;      ///< of choose: p + rank in place of p, where no rank has to gather

  std::vector<Node> children{};

  friend bool operator==(const Node&, const Node&) = default;
};

/// What all ranks do.
enum class Do {
  pass,       ///< forward, what is `inside`, and backward; `on`: its micro-step is the last
  evaluate,   ///< a forward pass without backward
  give_up,    ///< a forward pass of training that is ended without backward
  fail,       ///< a pass in which the call `which` of a module or a hook throws, and zero_grad
  zero_grad,  ///< `on`: to none, else to zeros
  clip,       ///< the norm of the gradients, without a step; not `on`: nothing is clipped
  step,       ///< clip, and a step of the optimizer
  sync,       ///< of gradients: `on` or off, of the unit `which`, or of all (-1)
  train,      ///< the parameter `which` requires a gradient from now on, or (not `on`) none
  look,       ///< at the names, gradients and values of the module `which`
  summon,     ///< all parameters, whole; not `on`: the visitor throws at the parameter `which`
  ahead,      ///< which units are gathered ahead of the unit `which`, in forward (`on`) or backward
  save,       ///< a checkpoint
  load        ///< the last checkpoint, if there is one
};

inline std::string_view name_of(Do what) {
  static constexpr std::string_view kNames[] = {
      "pass", "evaluate", "give_up", "fail",   "zero_grad", "clip", "step",
      "sync", "train",    "look",    "summon", "ahead",     "save", "load"};
  return kNames[static_cast<std::size_t>(what)];
}
inline constexpr int kDos = 14;  ///< how many there are

/// The numbers count on from the first again where there are fewer.
struct Action {
  Do what = Do::pass;
  bool on = true;
  int which = 0;
  std::vector<Action> inside{};  ///< of a pass

  friend bool operator==(const Action&, const Action&) = default;
};

/// Where the first values of the parameters come from.
enum class First {
  given,      ///< all ranks give the same
  drawn,      ///< they are drawn when the model is sharded
  broadcast,  ///< those of rank 0 count, the others give some of their own
  shapes,     ///< those of rank 0 count, the others give none
  mixed,      ///< each rank gives some of its own
  partial     ///< all give the same, but for the last parameter, of which there are none
};

/// On how many ranks, and how the model is sharded.
struct World {
  int ranks = 1;
  int shard_size = 0;         ///< of hybrid_shard; 0: all ranks
  int post_forward_size = 0;  ///< of full_shard and hybrid_shard; 0: the shard group
  nanofsdp::fsdp::ShardingStrategy strategy = nanofsdp::fsdp::ShardingStrategy::full_shard;
  nanofsdp::fsdp::LayoutKind layout = nanofsdp::fsdp::LayoutKind::flat;
  nanofsdp::DType param_dtype = nanofsdp::DType::float32;
  nanofsdp::DType reduce_dtype = nanofsdp::DType::float32;
  bool no_sync = false;
  bool average = false;  ///< of gradients over ranks; else their sum
  int forward_prefetch = 0;
  nanofsdp::fsdp::BackwardPrefetch backward_prefetch = nanofsdp::fsdp::BackwardPrefetch::none;
  int alignment = 4;
  bool pool = true;
  bool poison = true;
  bool late = false;  ///< collectives take their time
  bool traced = false;

  friend bool operator==(const World&, const World&) = default;
};

/// What is done in one world.
struct Part {
  World world{};
  std::vector<Action> actions{};

  friend bool operator==(const Part&, const Part&) = default;
};

struct Program {
  std::uint32_t seed = 1;  ///< of values: parameters, rows, gradients of the output
  int width = 3;           ///< at a multiple of 4, parameters lie without gaps
  int rows = 1;            ///< of each rank
  First first = First::given;
  /// Between two of them a checkpoint is saved, and loaded by the ranks of the next.
  std::vector<Part> parts{Part{}};
  Node model{};

  friend bool operator==(const Program&, const Program&) = default;
};

/// The actions of plain training.
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
