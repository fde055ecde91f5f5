#include <fmt/ranges.h>

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "comm/local.h"
#include "comm/mesh.h"
#include "frame/exercise.h"
#include "frame/lanes.h"
#include "fsdp/deferred_init.h"
#include "fsdp/fully_shard.h"
#include "nn/linear.h"
#include "zero_3_units_exercise.h"

namespace {

using namespace nanofsdp;

// A small model that calls its blocks in the order of the exercise.
struct Model final : nn::Module {
  explicit Model(std::vector<int> order) : calls(std::move(order)) {
    for (int i = 0; i <= std::ranges::max(calls); ++i) {
      add("h." + std::to_string(i), h.emplace_back(nn::Linear::Options{.in = 2, .out = 2}));
    }
    add("head", head);
  }
  Tensor do_forward(nn::Tape& tape, Tensor x) override {
    for (const int block : calls) x = h[block].forward(tape, x);
    return head.forward(tape, x);
  }
  Tensor do_backward(nn::Tape& tape, Tensor dy) override {
    dy = head.backward(tape, dy);
    for (auto call = calls.rbegin(); call != calls.rend(); ++call) {
      dy = h[*call].backward(tape, dy);
    }
    return dy;
  }
  bool is_block(const nn::Module& module) const {
    return std::ranges::any_of(h, [&](const nn::Linear& block) { return &block == &module; });
  }

  std::vector<int> calls;
  std::deque<nn::Linear> h;
  nn::Linear head{{.in = 2, .out = 2}};  // in no block: it belongs to the root unit
};

// The events that the library's tracer recorded, without those that the exercise does not ask for.
std::string asked_for(const std::vector<std::string>& order) {
  std::string text;
  for (const std::string& event : order) {
    if (event.starts_with("F.") || event.starts_with("u.") || event.starts_with("r.")) continue;
    text += (text.empty() ? "" : " ") + event;
  }
  return text;
}

// The events when the model runs on two ranks.
std::string traced(const std::vector<int>& calls, bool training) {
  std::string events;
  comm::launch_threads(2, 1, [&](Context& context, std::unique_ptr<comm::Communicator> world) {
    comm::Mesh mesh(std::move(world));
    Model model(calls);
    fsdp::ShardedModel sharded(
        context, model, mesh,
        {.forward_prefetch = 0,
         .backward_prefetch = fsdp::BackwardPrefetch::none,
         .wrap_policy = [&](const nn::Module& module) { return model.is_block(module); }});
    Generator generator(1);
    fsdp::deferred_init(context, sharded.units(), fsdp::breadth_first_draws(sharded.units()),
                        generator);
    nn::Tape tape(context);
    std::vector<float> x(2, 1), dy(2, 1);
    context.tracer.start();
    tape.begin(training);
    sharded.forward(tape, {x.data(), {1, 2}});
    if (training) {
      sharded.backward(tape, {dy.data(), {1, 2}});
    } else {
      tape.end();
    }
    if (context.rank == 0) events = asked_for(context.tracer.take_order());
  });
  return events;
}

// Draws the reader's training step of 3 blocks: a lane for each unit, and in it a bar from each U.x
// to the next R.x. One event takes a time of 1.
void show(const std::string& program) {
  lesson::Chart chart{.lanes = {"root", "h.0", "h.1", "h.2"}};
  std::map<std::string, int> since;  // when each unsharded unit was gathered
  int now = 0, gathers = 0;
  std::size_t most = 0;
  std::istringstream events(events_of({0, 1, 2}, /*training=*/true));
  for (std::string event; events >> event; ++now) {
    const std::string what = event.substr(0, event.find('.'));
    const std::string unit = event.substr(std::min(event.size(), what.size() + 1));
    const auto at = std::ranges::find(chart.lanes, unit);
    if (at == chart.lanes.end()) continue;
    const int lane = static_cast<int>(at - chart.lanes.begin());
    if (what == "U") since.try_emplace(unit, now), ++gathers;
    most = std::max(most, since.size());
    if (what == "RS") {
      chart.bars.push_back({lane, now, now + 1, lesson::colour::reduce_scatter, "RS"});
    } else if (what == "R" && since.contains(unit)) {
      chart.bars.push_back({lane, since[unit], now, lesson::colour::parameters, "unsharded"});
      since.erase(unit);
    }
  }
  for (const auto& [unit, from] : since) {
    const auto lane = std::ranges::find(chart.lanes, unit) - chart.lanes.begin();
    chart.bars.push_back(
        {static_cast<int>(lane), from, now, lesson::colour::parameters, "unsharded at the end"});
  }
  chart.title =
      fmt::format("{} gathers (par 7), at most {} units unsharded (par 2)", gathers, most);
  fmt::print("Your step of 3 blocks: {}.\n", chart.title);
  lesson::show_schedule(
      program, "11",
      lesson::timeline({"Your training step of three blocks and the root."}, {chart}, "events", 5));
}

}  // namespace

// Shards models whose blocks are called once or several times, runs them, and compares.
int main(int, char** argv) {
  lesson::Exercise exercise("events_of");
  const std::vector<std::vector<int>> models = {
      {0}, {0, 1, 2}, {0, 0}, {0, 1, 0}, {1, 0}, {0, 1, 2, 0, 1, 2}, {2, 2, 1, 0, 0}};
  for (const bool training : {false, true}) {
    for (const std::vector<int>& calls : models) {
      exercise.expect(events_of(calls, training), traced(calls, training), "calls {{{}}}, {}",
                      fmt::join(calls, ", "), training ? "a training step" : "an evaluation");
    }
  }
  const int wrong = exercise.end();
  show(argv[0]);
  return wrong;
}
