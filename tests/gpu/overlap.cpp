#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "base/device.h"
#include "comm/local.h"
#include "gpt/block.h"
#include "gpt/gpt.h"
#include "plan/machine.h"
#include "plan/plan.h"

// Measures on one GPU how much of a link's time a step of FSDP hides, beside what the simulated
// clock predicts. Two ranks share the GPU, and a link of a chosen speed pretends to connect them.
//
//     build/gpu/tests/gpu/overlap_gpu [blocks width rows tokens steps]      default 8 1024 8 64 20
//
// The strategy is shard_grad_op. So gathers run in forward and reductions in backward, and never
// two collectives at a time: a pretended link belongs to one group, and the clock's link to all.
// The two ranks take turns on the GPU. The clock does not know that, so the speed of its machine is
// fitted to the step without a link. The time that a link adds to that step is measured and
// predicted.

namespace nanofsdp::testing {
namespace {

using Clock = std::chrono::steady_clock;

struct Size {
  int blocks = 8, width = 1024, rows = 8, tokens = 64, steps = 20;
};

struct Setting {
  double link = 0;  // seconds for all bytes of a step, as a share of the step without a link
  int prefetch = 1;
  bool pool = true;
};

gpt::GPTConfig config_of(const Size& size) {
  return {.block_size = size.tokens,
          .vocab_size = 64,
          .n_layer = size.blocks,
          .n_head = std::max(1, size.width / 64),
          .n_embd = size.width};
}

fsdp::Options options_of(const Setting& setting) {
  return {.strategy = fsdp::ShardingStrategy::shard_grad_op,
          .forward_prefetch = setting.prefetch,
          .pool = setting.pool,
          .wrap_policy = fsdp::is_a<gpt::Block>};
}

plan::Work work_of(const Size& size) { return {.rows = {size.rows}, .tokens = size.tokens}; }

// The median seconds of a step on rank 0, and the bytes that it receives.
struct Step {
  double seconds = 0, bytes = 0;
};

Step measured(const Size& size, const Setting& setting, const comm::Link& link) {
  Step step;
  const auto rank = [&](Context& context, std::unique_ptr<comm::Communicator> world) {
    comm::Mesh mesh(std::move(world));
    gpt::GPT model(config_of(size));
    plan::Rehearsal training(context, mesh, model, options_of(setting), work_of(size));
    std::vector<double> seconds;
    for (int i = 0; i < size.steps + 3; ++i) {  // the first three size the memory and warm up
      mesh.reset_traffic();
      const auto begin = Clock::now();
      training.step();
      const std::chrono::duration<double> took = Clock::now() - begin;
      if (i >= 3) seconds.push_back(took.count());
    }
    if (context.rank != 0) return;
    std::ranges::sort(seconds);
    step = {seconds[seconds.size() / 2], static_cast<double>(mesh.traffic().bytes_received)};
  };
  comm::launch_threads(2, 1, rank, {.link = link, .device = Device::cuda});
  return step;
}

double predicted(const Size& size, const Setting& setting, const plan::Machine& machine) {
  gpt::GPT model(config_of(size));
  const plan::Run run{.ranks = 2,
                      .device = Device::simulated_cuda,
                      .options = options_of(setting),
                      .work = work_of(size)};
  return plan::plan(model, run, &machine).time->seconds;
}

// A machine whose step without a link takes as long as the measured one.
plan::Machine fitted(const Size& size, double seconds) {
  plan::Machine machine = plan::find_machine("h100");
  machine.node_latency = 0;
  machine.node_bandwidth = 1e18;
  machine.network_efficiency = machine.overlap_slowdown = 1;
  for (int i = 0; i < 60; ++i) {
    const double factor = predicted(size, {}, machine) / seconds;
    machine.product_efficiency *= factor;
    machine.memory_efficiency *= factor;
    machine.kernel_time /= factor;
    machine.launch_time /= factor;
  }
  return machine;
}

void print_table(const Size& size) {
  const Step alone = measured(size, {}, {});
  plan::Machine machine = fitted(size, alone.seconds);
  fmt::print("{} blocks, width {}, {} rows of {} tokens, 2 ranks on one GPU, shard_grad_op\n",
             size.blocks, size.width, size.rows, size.tokens);
  fmt::print("a step without a link: {:.2f} ms, in the clock {:.2f} ms\n", 1e3 * alone.seconds,
             1e3 * predicted(size, {}, machine));
  fmt::print("{:>10} {:>9} {:>6} {:>16} {:>16} {:>7}\n", "link, ms", "prefetch", "slots",
             "exposed, ms", "predicted, ms", "error");
  std::vector<double> errors;
  for (const double share : {0.25, 0.5, 1.0}) {
    const double bandwidth = alone.bytes / (share * alone.seconds);
    for (const int prefetch : {0, 1}) {
      for (const bool pool : {true, false}) {
        const Setting setting{share, prefetch, pool};
        machine.node_bandwidth = 1e18;
        const double without = predicted(size, setting, machine);
        machine.node_bandwidth = bandwidth;
        const double want = predicted(size, setting, machine) - without;
        const double base = measured(size, setting, {}).seconds;
        const double got = measured(size, setting, {.bytes_per_second = bandwidth}).seconds - base;
        errors.push_back(std::abs(got - want) / std::max(want, alone.seconds / 100));
        fmt::print("{:>10.2f} {:>9} {:>6} {:>16.2f} {:>16.2f} {:>6.0f}%\n",
                   1e3 * share * alone.seconds, prefetch, pool ? "two" : "all", 1e3 * got,
                   1e3 * want, 100 * errors.back());
      }
    }
  }
  std::ranges::sort(errors);
  fmt::print("median error {:.0f} % (wanted: at most 15)\n", 100 * errors[errors.size() / 2]);
}

}  // namespace
}  // namespace nanofsdp::testing

int main(int argc, char** argv) try {
  using namespace nanofsdp;
  testing::Size size;
  int* const numbers[] = {&size.blocks, &size.width, &size.rows, &size.tokens, &size.steps};
  for (int i = 1; i < std::min(argc, 6); ++i) *numbers[i - 1] = std::atoi(argv[i]);
  if (const std::string why = why_not(Device::cuda); !why.empty()) {
    fmt::print("skipped: {}\n", why);
    return 77;
  }
  testing::print_table(size);
  return 0;
} catch (const std::exception& e) {
  fmt::print(stderr, "overlap_gpu: {}\n", e.what());
  return 1;
}
