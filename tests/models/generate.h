#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <random>

#include "models/program.h"

namespace models {

/// @file
/// @brief Draws a program from a seed, the same on every machine.
class Generator {
 public:
  explicit Generator(std::uint64_t seed) : bits_(seed) {}

  Program program() {
    Program p;
    p.seed = static_cast<std::uint32_t>(below(1000000));
    p.width = one_of({3, 4, 4, 5, 7, 8, 9});
    p.rows = between(1, 3);
    p.first = first();
    p.parts.clear();
    for (int parts = chance(12) ? 2 : 1; parts > 0; --parts) p.parts.push_back(part());
    if (p.first >= First::mixed) leave_out_asides(p);
    nodes_left_ = between(3, 12);
    groups_ = chance(50);
    const auto shards = [](const Part& part) {
      return nanofsdp::fsdp::sharding_of(part.world.strategy).parameters;
    };
    ranks_may_differ_ = !std::ranges::all_of(p.parts, shards);
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

  Part part() {
    Part made{.world = world()};
    may_order_ = nanofsdp::fsdp::sharding_of(made.world.strategy).parameters;
    for (int steps = one_of({1, 2, 2, 3}); steps > 0; --steps) step(made.actions);
    return made;
  }

  // A model without values, or with different values, is used until that is refused. So actions
  // that could change the values before the first use are left out.
  static void leave_out_asides(Program& p) {
    p.parts.resize(1);
    const auto is_aside = [](const Action& a) {
      return a.what == Do::save || a.what == Do::load || a.what == Do::fail || a.what == Do::ahead;
    };
    std::erase_if(p.parts[0].actions, is_aside);
    for (Action& action : p.parts[0].actions) std::erase_if(action.inside, is_aside);
  }

  First first() {
    if (chance(2)) return one_of({First::mixed, First::partial});
    return one_of(
        {First::given, First::given, First::given, First::drawn, First::broadcast, First::shapes});
  }

  World world() {
    using nanofsdp::DType;
    using nanofsdp::fsdp::BackwardPrefetch;
    using nanofsdp::fsdp::LayoutKind;
    using nanofsdp::fsdp::ShardingStrategy;
    World s;
    s.ranks = one_of({1, 2, 2, 2, 2, 3, 3, 3, 4, 4, 4, 0});
    if (s.ranks == 0) s.ranks = between(5, 12);
    s.strategy = one_of({ShardingStrategy::no_shard, ShardingStrategy::shard_optimizer,
                         ShardingStrategy::shard_gradients, ShardingStrategy::full_shard,
                         ShardingStrategy::full_shard, ShardingStrategy::shard_grad_op,
                         ShardingStrategy::hybrid_shard, ShardingStrategy::hybrid_shard_optimizer});
    if (nanofsdp::fsdp::sharding_of(s.strategy).replicates) s.shard_size = divisor(s.ranks);
    if (nanofsdp::fsdp::sharding_of(s.strategy).reshards_after_forward && chance(50)) {
      const int k = divisor(s.shard_size > 0 ? s.shard_size : s.ranks);
      s.post_forward_size = k > 1 ? k : 0;
    }
    s.layout = one_of({LayoutKind::flat, LayoutKind::per_parameter, LayoutKind::row_aligned});
    if (const auto percent = below(100); percent < 30)
      s.param_dtype = percent < 15 ? DType::bfloat16 : DType::float8_e4m3;
    if (chance(15)) s.reduce_dtype = DType::bfloat16;
    s.no_sync = chance(30);
    s.average = chance(30);
    s.forward_prefetch = between(0, 3);
    s.backward_prefetch =
        one_of({BackwardPrefetch::none, BackwardPrefetch::pre, BackwardPrefetch::post});
    s.alignment = one_of({4, 4, 1});
    s.pool = chance(75);
    s.poison = chance(85);
    s.late = chance(20);
    s.traced = chance(10);
    return s;
  }

  // A step of training, as most people write it, sometimes with other actions in between.
  void step(std::vector<Action>& actions) {
    perhaps(actions);
    if (chance(92)) actions.push_back({.what = Do::zero_grad, .on = chance(80)});
    const bool toggles = chance(20);  // FSDP2's way to accumulate
    if (toggles) actions.push_back({.what = Do::sync, .on = false, .which = unit_or_all()});
    const int micro_steps = one_of({1, 2, 2, 3});
    for (int m = 1; m <= micro_steps; ++m) {
      perhaps(actions);
      if (toggles && m == micro_steps) actions.push_back({.what = Do::sync, .which = -1});
      actions.push_back({.on = toggles || (m == micro_steps) != chance(3)});
      if (chance(15)) actions.back().inside.push_back(anything_inside());
    }
    perhaps(actions);
    for (int steps = one_of({1, 1, 1, 1, 1, 1, 1, 1, 2, 0}); steps > 0; --steps) {
      actions.push_back({.what = chance(90) ? Do::step : Do::clip, .on = chance(90)});
    }
  }

  void perhaps(std::vector<Action>& actions) {
    if (chance(30)) actions.push_back(anything());
  }

  Action anything() {
    Action a{.what = one_of({Do::pass,        Do::evaluate,  Do::evaluate,      Do::give_up,
                             Do::fail,        Do::zero_grad, Do::clip,          Do::step,
                             Do::sync,        Do::across,    Do::after_forward, Do::after_backward,
                             Do::in_backward, Do::train,     Do::look,          Do::summon,
                             Do::summon,      Do::ahead,     Do::save,          Do::load})};
    a.on = chance(a.what == Do::train ? 15 : 65);
    if (a.what >= Do::sync && a.what <= Do::in_backward) a.which = unit_or_all();
    if (a.what == Do::ahead && !may_order_) a.what = Do::look;
    const bool counts = a.what == Do::fail || a.what == Do::train || a.what == Do::look ||
                        a.what == Do::summon || a.what == Do::ahead;
    if (counts) a.which = between(0, a.what == Do::fail ? 30 : 8);
    if (a.what == Do::pass && chance(30)) a.inside.push_back({.what = Do::evaluate});
    return a;
  }

  // An action between forward and backward, which may be refused.
  Action anything_inside() {
    Action a = anything();
    while ((a.what == Do::step || a.what == Do::load) && !chance(15)) a = anything();
    // If ranks may use different modules in the outer pass, some would have issued reductions when
    // they fail.
    if (a.what == Do::fail && !may_order_) a.what = Do::give_up;
    return a;
  }

  int unit_or_all() { return chance(50) ? -1 : between(0, 5); }

  // Trees are deep enough for units inside units, and not deeper, because a repeat in a repeat in a
  // repeat is slow.
  Node node(int depth) {
    --nodes_left_;
    Node made = depth < 5 && nodes_left_ > 1 && chance(45) ? branch(depth) : leaf();
    made.unit = chance(50);
    if (made.unit && chance(15)) made.reshards = between(1, 2);
    if (made.unit && chance(15)) made.dtypes = between(1, 6);
    if (made.unit && groups_ && chance(80)) made.group = one_of({1, 1, 1, 2});
    made.recompute = chance(20);
    made.hooks_before = chance(15);
    made.hooks_after = chance(15);
    return made;
  }

  Node branch(int depth) {
    Node made;
    made.kind = one_of({Kind::sequential, Kind::sequential, Kind::residual, Kind::parallel,
                        Kind::detached, Kind::repeat, Kind::choose, Kind::choose, Kind::cross});
    made.inner_unit = made.kind == Kind::cross && chance(50);
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
                        Kind::affine, Kind::shift, Kind::unused, Kind::silent, Kind::gelu,
                        Kind::dropout, Kind::identity});
    const bool has_parameters =
        made.kind != Kind::gelu && made.kind != Kind::dropout && made.kind != Kind::identity;
    if (!has_parameters) return made;
    made.bias = made.kind != Kind::shift && made.kind != Kind::unused &&
                made.kind != Kind::silent && chance(60);
    made.frozen = chance(20);
    made.frozen_bias = made.bias && chance(20);
    made.half = (made.frozen || made.frozen_bias) && chance(50);
    if (chance(30)) made.tie = between(1, 2);
    return made;
  }

  std::mt19937_64 bits_;
  int nodes_left_ = 0;
  int repeats_ = 0;
  bool groups_ = false;  // whether units form groups
  bool ranks_may_differ_ = false;
  bool may_order_ = false;  // whether units may be ordered, as all ranks use the same
};

inline Program generate(std::uint64_t seed) {
  Program program = Generator(seed).program();
  const int tensor = seed % 6 == 0 ? 2 + static_cast<int>(seed / 6 % 3) : 1;
  for (Part& part : program.parts) part.world.tensor = tensor;
  return program;
}

}  // namespace models
