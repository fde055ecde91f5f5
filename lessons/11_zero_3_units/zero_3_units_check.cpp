#include <algorithm>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "comm/local.h"
#include "comm/mesh.h"
#include "frame/exercise.h"
#include "frame/lanes.h"
#include "frame/nanogpt.h"
#include "fsdp/deferred_init.h"
#include "fsdp/fully_shard.h"
#include "nn/loss.h"
#include "zero_3_units_exercise.h"

namespace {

using namespace nanofsdp;

// What the library's tracer saw: its own words are longer, and it tells more.
std::string in_short(const std::vector<std::string>& order) {
  std::string text;
  for (std::string event : order) {
    if (event.starts_with("F.") || event.starts_with("u.") || event.starts_with("r.")) continue;
    const std::string path = "transformer.";
    if (const auto at = event.find(path); at != event.npos) event.erase(at, path.size());
    text += (text.empty() ? "" : " ") + event;
  }
  return text;
}

// The events of a small GPT on two ranks.
std::string traced(int blocks, bool training) {
  std::string events;
  comm::launch_threads(2, 1, [&](Context& context, std::unique_ptr<comm::Communicator> world) {
    comm::Mesh mesh(std::move(world));
    gpt::GPT model({.block_size = 4, .vocab_size = 5, .n_layer = blocks, .n_head = 1, .n_embd = 4});
    fsdp::ShardedModel sharded(context, model, mesh,
                               {.forward_prefetch = 0,
                                .backward_prefetch = fsdp::BackwardPrefetch::none,
                                .wrap_policy = lesson::is_block});
    Generator generator(1);
    fsdp::deferred_init(context, sharded.units(), model.nanogpt_draws(), generator);
    nn::Tape tape(context);
    std::vector<std::int32_t> tokens(4);
    const Tensor row(tokens.data(), {1, 4}, DType::int32);
    double loss = 0;
    context.tracer.start();
    tape.begin(training);
    nn::cross_entropy(tape, sharded.forward(tape, row), row, {&loss, {1}, DType::float64});
    if (training) {
      sharded.backward(tape, nn::cross_entropy_backward(tape, 1));
    } else {
      tape.end();
    }
    if (context.rank == 0) events = in_short(context.tracer.take_order());
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
  std::istringstream events(events_of(3, /*training=*/true));
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

// Models of 1 to 5 blocks, which are sharded and run.
int main(int, char** argv) {
  lesson::Exercise exercise("events_of");
  for (const bool training : {true, false}) {
    for (int blocks = 1; blocks <= 5; ++blocks) {
      exercise.expect(events_of(blocks, training), traced(blocks, training), "{} blocks, {}",
                      blocks, training ? "a training step" : "an evaluation");
    }
  }
  const int wrong = exercise.end();
  show(argv[0]);
  return wrong;
}
