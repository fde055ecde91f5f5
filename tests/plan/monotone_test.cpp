#include <gtest/gtest.h>

#include <random>

#include "plan/plan.h"
#include "plan/transformer.h"

// A better machine makes no step longer, with one exception. If products are faster, a reduction
// begins earlier, so it can share its link with a gather for which the computation waits.

namespace nanofsdp::plan {
namespace {

struct Better {
  const char* name;
  double Machine::*value;
  double factor;
};
constexpr Better kBetter[] = {
    {"memory_bandwidth", &Machine::memory_bandwidth, 1.25},
    {"products_bfloat16", &Machine::products_bfloat16, 1.25},
    {"product_half_width", &Machine::product_half_width, 0.5},
    {"attention", &Machine::attention, 1.25},
    {"flops", &Machine::flops, 1.25},
    {"kernel_time", &Machine::kernel_time, 0.5},
    {"launch_time", &Machine::launch_time, 0.5},
    {"node_bandwidth", &Machine::node_bandwidth, 1.25},
    {"node_latency", &Machine::node_latency, 0.5},
    {"network_bandwidth", &Machine::network_bandwidth, 1.25},
    {"network_latency", &Machine::network_latency, 0.5},
    {"network_efficiency", &Machine::network_efficiency, 1.25},
    {"overlap_slowdown", &Machine::overlap_slowdown, 0.97},
};

TEST(Monotone, ABetterMachineMakesAStepHardlyLonger) {
  std::mt19937 random(1337);
  const auto one_of = [&](auto... values) {
    const std::array all = {values...};
    return all[random() % all.size()];
  };
  int longer = 0, tried = 0;
  double worst = 1;
  for (int setting = 0; setting < 200; ++setting) {
    TransformerShape shape = *find_transformer(one_of("llama-3-1b", "llama-2-7b", "mpt-1b"));
    shape.n_layer = one_of(2, 4, 6);
    const Practice how{.recompute = one_of(Recompute::none, Recompute::block),
                       .compiled = one_of(false, true)};
    using enum fsdp::ShardingStrategy;
    const plan::Run run{
        .ranks = one_of(8, 16, 64, 512),
        .device = Device::simulated_cuda,
        .options = {.strategy = one_of(full_shard, shard_grad_op, no_shard),
                    .precision = {DType::bfloat16, one_of(DType::float32, DType::bfloat16)},
                    .wrap_policy = is_block},
        .work = {.rows = std::vector<std::int64_t>(one_of(1u, 2u), one_of(1, 4)),
                 .tokens = one_of(256, 1024, 4096)}};
    Machine machine = find_machine(one_of("a100-80", "h100"));
    machine.network_bandwidth *= one_of(0.1, 0.5, 1.0);
    const auto seconds = [&] {
      Outline model(transformer(shape, how));
      return plan::plan(model, run, &machine).time->seconds;
    };
    const double before = seconds();
    for (const auto& [name, value, factor] : kBetter) {
      const double old = std::exchange(machine.*value, machine.*value * factor);
      const double times = seconds() / before;
      machine.*value = old;
      ++tried;
      longer += times > 1 + 1e-6;
      worst = std::max(worst, times);
      EXPECT_LE(times, 1.08) << name << " in setting " << setting;
    }
  }
  EXPECT_LE(longer, tried / 20);
  std::printf("%d of %d steps were longer, the worst %.4f times\n", longer, tried, worst);
}

}  // namespace
}  // namespace nanofsdp::plan
