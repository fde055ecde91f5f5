#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "frame/lesson.h"
#include "picture.h"
#include "planned.h"

// Lesson 24: the number of tokens a GPU needs to hide communication behind computation, by a
// formula that does not depend on the model, and by plans of three Llamas.

namespace {

using namespace nanofsdp;
using fsdp::ShardingStrategy;
using lesson::exposed, lesson::plan_of, lesson::Training;
constexpr int kRanks[] = {8, 64, 1024};

//! [ring]
// W GPUs, 8 on each node, form a ring. Between nodes the ring uses all 8 network cards of a node;
// each carries a part of the bytes.
struct Ring {
  Ring(const plan::Machine& of, int W) {
    const int nodes = W / 8;
    const double out = nodes > 1 ? 8 * of.network_bandwidth : of.node_bandwidth;
    latency = (W - nodes) * of.node_latency + (nodes - 1) * of.network_latency;
    bandwidth = of.network_efficiency * std::min(of.node_bandwidth, out);
  }
  double latency;    // seconds of all steps, without bytes
  double bandwidth;  // bytes/s that pass each GPU
};
//! [ring]

//! [crossing]
// Tokens for which the forward of n parameters takes as long as their gather. `speed` is in
// operations/s, `bandwidth` in bytes/s; an element has two bytes.
double tokens_to_hide(double n, double speed, double bandwidth) {
  const double gather = 2 * n / bandwidth, forward_of_a_token = 2 * n / speed;
  return gather / forward_of_a_token;
}
//! [crossing]

//! [search]
// The smallest number of tokens for which a plan hides all communication but the root's. The root's
// gather has no computation before it, and its reduction has none after it.
std::int64_t tokens_by_plan(const plan::Machine& machine, Training training) {
  training.tokens = 32'768;
  const double roots = exposed(plan_of(machine, training));
  training.tokens = lesson::kRow;
  while (exposed(plan_of(machine, training)) > 1.1 * roots) training.tokens += lesson::kRow;
  return training.tokens;
}
//! [search]

// Operations/s of a block's forward, in whole TFLOP/s.
double achieved(const plan::Plan& plan, double tokens) {
  const double n = static_cast<double>(plan.units[1]);
  return 1e12 * std::round(2 * n * tokens / lesson::forward_seconds(plan) / 1e12);
}

}  // namespace

int main(int argc, char** argv) {
  lesson::Lesson lesson(argc, argv);
  const plan::Machine h100 = plan::find_machine("h100");
  lesson.print("a ring of                     8      64    1024 GPUs");
  std::string latencies = "latency, microseconds  ", bandwidths = "bandwidth, GB/s        ";
  for (const int W : kRanks) {
    const Ring ring(h100, W);
    const auto theirs = plan::transfer(h100, {.ranks = W}, {.bytes = 1e9, .ranks = W});
    lesson.claim(std::abs(theirs.latency / ring.latency - 1) < 1e-9, "the library's latency");
    lesson.claim(std::abs(theirs.seconds * ring.bandwidth / 1e9 - 1) < 1e-9, "and its bandwidth");
    latencies += fmt::format("{:>8.0f}", std::floor(1e6 * ring.latency));
    bandwidths += fmt::format("{:>8.1f}", ring.bandwidth / 1e9);
  }
  lesson.print(latencies), lesson.print(bandwidths);

  lesson.print("tokens that hide a block                         by plan, ranks");
  lesson.print("             parameters  TFLOP/s       formula       8     64   1024");
  const double bandwidth = Ring(h100, 64).bandwidth;
  double speed = 0, crossing = 0;  // for the 8B model
  for (const char* model : {"llama-3-1b", "llama-3-8b", "llama-3-70b"}) {
    Training t{.model = model};
    const plan::Plan plan = plan_of(h100, t);
    const double n = static_cast<double>(plan.units[1]);
    const double own_speed = achieved(plan, static_cast<double>(t.tokens));
    const double own = tokens_to_hide(n, own_speed, bandwidth);
    std::string row =
        fmt::format("{:<11}{:>12.0f}{:>9.0f}{:>14.0f}", model, n, own_speed / 1e12, own);
    for (const int W : kRanks) {
      t.ranks = W;
      const std::int64_t found = tokens_by_plan(h100, t);
      row += fmt::format("{:>{}}", found, W == 8 ? 8 : 7);
      if (W > 8) lesson.claim(static_cast<double>(found) >= own, "the formula is a lower bound");
    }
    lesson.print(row);
    if (t.model == "llama-3-8b") speed = own_speed, crossing = own;
    if (speed > 0)
      lesson.answer(std::lround(tokens_to_hide(n, speed, bandwidth)));  // 8B's, then 70B's
  }
  lesson.answer(static_cast<std::int64_t>(1e6 * Ring(h100, 1024).latency));

  lesson.print("llama-3-8b, tokens         256   512  1024  2048  4096  8192 16384");
  std::vector<lesson::Line> lines;
  for (const int W : kRanks) {
    std::string row = fmt::format("exposed %, {:>4} ranks  ", W);
    lesson::Line& line = lines.emplace_back(lesson::Line{W, {}});
    for (std::int64_t t = 256; t <= 16'384; t *= 2) {
      const plan::Plan plan = plan_of(h100, {.ranks = W, .tokens = t});
      line.percent.push_back(100 * exposed(plan) / plan.time->seconds);
      row += fmt::format("{:>6.0f}", line.percent.back());
    }
    lesson.print(row);
  }

  lesson.print("a step, ms                  full_shard  shard_grad_op  hybrid_shard 8");
  plan::Machine slow = h100;
  slow.network_bandwidth /= 8;
  const auto compare = [&](const char* name, const plan::Machine& machine, Training t) {
    std::string row =
        fmt::format("{} {:>4} ranks {:>4} x {}", name, t.ranks, t.tokens, t.micro_batches);
    std::vector<plan::Plan> plans;
    for (const auto strategy : {ShardingStrategy::full_shard, ShardingStrategy::shard_grad_op,
                                ShardingStrategy::hybrid_shard}) {
      t.strategy = strategy;
      plans.push_back(plan_of(machine, t));
    }
    lesson.print(fmt::format("{:<25}{:>13.0f}{:>15.0f}{:>16.0f}", row, 1e3 * plans[0].time->seconds,
                             1e3 * plans[1].time->seconds, 1e3 * plans[2].time->seconds));
    return plans;
  };
  compare("fast", h100, {.tokens = 4096});
  compare("fast", h100, {.tokens = 512});
  compare("fast", h100, {.ranks = 1024, .tokens = 512, .micro_batches = 8});
  const auto many = compare("slow", slow, {.micro_batches = 8});
  const auto plans = compare("slow", slow, {});
  lesson.claim(plans[2].time->seconds > plans[0].time->seconds, "hybrid loses with 1 micro-batch");
  lesson.claim(many[2].time->seconds < many[0].time->seconds, "and wins with 8");
  lesson.print(fmt::format("{:<25}{:>13.1f}{:>15.1f}{:>16.1f}", "  its peak, GB",
                           1e-9 * plans[0].total_peak, 1e-9 * plans[1].total_peak,
                           1e-9 * plans[2].total_peak));
  lesson.picture(lesson::drawing(lines, crossing));
  return lesson.end(
      "with 64 ranks or more no plan hides a block with fewer tokens than the formula says");
}
