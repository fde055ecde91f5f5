#pragma once

#include <cstdint>
#include <vector>

#include "base/dtype.h"
#include "fsdp/layout.h"
#include "fsdp/schedule.h"
#include "fsdp/strategy.h"

namespace models {

/// @file
/// @brief A model and how it is trained, as plain data: what the generator draws, the shrinker
/// makes smaller, and both the reference and FSDP run.
///
/// Every module maps [rows, width] to [rows, width], so any tree of them is a model, and whatever
/// is taken out of a program leaves a program.

enum class Kind {
  identity,    ///< nothing
  gelu,        ///< no parameters
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
  bool last_first = false;  ///< declares its children in the reverse order of their use
  bool again = false;       ///< its first child is its last, too: one module with two names

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

/// What a rank does before each micro-step.
enum class Between {
  nothing,
  evaluation,  ///< a forward pass without backward
  given_up,    ///< a forward pass of training that is ended without backward
  summon       ///< all parameters, whole
};

struct Program {
  std::uint32_t seed = 1;  ///< of values: parameters, rows, gradients of the output
  int width = 3;           ///< at a multiple of 4, parameters lie without gaps
  int rows = 1;            ///< of each rank

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

  int steps = 1;
  int micro_steps = 1;
  Between between = Between::nothing;
  bool set_to_none = true;   ///< of zero_grad
  bool meanwhile = false;    ///< an evaluation between each forward and its backward
  bool false_start = false;  ///< before each step a micro-step whose gradients are forgotten

  Node model{};

  friend bool operator==(const Program&, const Program&) = default;
};

/// Calls `visit` on every node of the tree, parents first.
template <class N, class Visit>
void each_node(N& node, const Visit& visit) {
  visit(node);
  for (auto& child : node.children) each_node(child, visit);
}

}  // namespace models
