#pragma once

#include <cstdint>
#include <iterator>
#include <random>

#include "models/program.h"

namespace models {

/// @file
/// @brief A program from a seed, the same on every machine.
class Generator {
 public:
  explicit Generator(std::uint64_t seed) : bits_(seed) {}

  Program program() {
    using nanofsdp::DType;
    using nanofsdp::fsdp::BackwardPrefetch;
    using nanofsdp::fsdp::ShardingStrategy;
    Program p;
    p.seed = static_cast<std::uint32_t>(below(1000000));
    p.width = one_of({3, 4, 4, 5, 7, 8, 9});
    p.rows = between(1, 3);
    p.ranks = one_of({1, 2, 2, 2, 3, 3, 4, 4});
    p.strategy = one_of({ShardingStrategy::no_shard, ShardingStrategy::shard_optimizer,
                         ShardingStrategy::shard_gradients, ShardingStrategy::full_shard,
                         ShardingStrategy::full_shard, ShardingStrategy::shard_grad_op,
                         ShardingStrategy::hybrid_shard});
    if (p.strategy == ShardingStrategy::hybrid_shard) p.shard_size = divisor(p.ranks);
    if (nanofsdp::fsdp::sharding_of(p.strategy).reshards_after_forward && chance(50)) {
      const int k = divisor(p.shard_size > 0 ? p.shard_size : p.ranks);
      p.post_forward_size = k > 1 ? k : 0;
    }
    if (chance(50)) p.layout = nanofsdp::fsdp::LayoutKind::per_parameter;
    if (chance(15)) p.param_dtype = DType::bfloat16;
    if (chance(15)) p.reduce_dtype = DType::bfloat16;
    p.no_sync = chance(30);
    p.average = chance(30);
    p.forward_prefetch = between(0, 3);
    p.backward_prefetch =
        one_of({BackwardPrefetch::none, BackwardPrefetch::pre, BackwardPrefetch::post});
    p.alignment = one_of({4, 4, 1});
    p.pool = chance(75);
    p.poison = chance(85);
    p.late = chance(25);
    p.steps = one_of({1, 2, 2, 3});
    p.micro_steps = one_of({1, 2, 2, 3});
    p.between = one_of({Between::nothing, Between::nothing, Between::evaluation, Between::given_up,
                        Between::summon});
    p.set_to_none = chance(80);
    p.meanwhile = chance(10);
    p.false_start = chance(15);
    nodes_left_ = between(3, 12);
    ranks_may_differ_ = !nanofsdp::fsdp::sharding_of(p.strategy).parameters;
    p.model = branch(/*depth=*/1);
    return p;
  }

 private:
  std::uint64_t below(std::uint64_t n) { return bits_() % n; }
  int between(int least, int most) {
    return least + static_cast<int>(below(static_cast<std::uint64_t>(most - least + 1)));
  }
  bool chance(int percent) { return below(100) < static_cast<std::uint64_t>(percent); }
  template <class T>
  T one_of(std::initializer_list<T> values) {
    return *std::next(values.begin(), static_cast<std::ptrdiff_t>(below(values.size())));
  }
  int divisor(int n) {
    int d = between(1, n);
    while (n % d != 0) --d;
    return d;
  }

  // Deep enough that units lie in units, and no deeper: a repeat in a repeat in a repeat is slow.
  Node node(int depth) {
    --nodes_left_;
    Node made = depth < 5 && nodes_left_ > 1 && chance(45) ? branch(depth) : leaf();
    made.unit = chance(50);
    made.recompute = chance(20);
    return made;
  }

  Node branch(int depth) {
    Node made;
    made.kind = one_of({Kind::sequential, Kind::sequential, Kind::residual, Kind::parallel,
                        Kind::detached, Kind::repeat, Kind::choose, Kind::choose});
    made.last_first = chance(20);
    made.again = chance(10);
    if (made.kind == Kind::repeat) made.times = ++repeats_ > 2 ? 1 : between(2, 3);
    const int children = between(1, made.kind == Kind::sequential ? 4 : 2);
    for (int i = 0; i < children; ++i) {
      if (i > 0 && nodes_left_ <= 0) break;
      made.children.push_back(node(depth + 1));
    }
    if (made.kind == Kind::choose) {
      for (int i = between(2, 5); i > 0; --i) made.picks.push_back(between(-1, children - 1));
      made.by_rank = chance(ranks_may_differ_ ? 70 : 10);
    }
    return made;
  }

  Node leaf() {
    Node made;
    made.kind = one_of({Kind::linear, Kind::linear, Kind::linear, Kind::layer_norm, Kind::affine,
                        Kind::affine, Kind::unused, Kind::silent, Kind::gelu, Kind::identity});
    const bool has_parameters = made.kind != Kind::gelu && made.kind != Kind::identity;
    if (!has_parameters) return made;
    made.bias = made.kind != Kind::unused && made.kind != Kind::silent && chance(60);
    made.frozen = chance(20);
    made.frozen_bias = made.bias && chance(20);
    made.half = (made.frozen || made.frozen_bias) && chance(50);
    if (chance(30)) made.tie = between(1, 2);
    return made;
  }

  std::mt19937_64 bits_;
  int nodes_left_ = 0;
  int repeats_ = 0;
  bool ranks_may_differ_ = false;
};

inline Program generate(std::uint64_t seed) { return Generator(seed).program(); }

}  // namespace models
