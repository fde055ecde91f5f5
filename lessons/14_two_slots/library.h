#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "comm/local.h"
#include "frame/lanes.h"
#include "frame/lesson.h"
#include "frame/sharded_rank.h"

/// @file
/// @brief The library's run for comparison with the slots of lesson 14, and the lesson's picture.

namespace lesson {

using namespace nanofsdp;

inline constexpr int kUnits = 5;
inline constexpr std::int64_t kNumel = 196864;  // elements of a block
inline constexpr MemoryClass kClass = MemoryClass::unsharded_parameters;

/// A forward pass over units. A gather takes a time of 1, and so does a computation.
struct Pass {
  std::vector<float> read = std::vector<float>(kUnits);  ///< the values that each unit has read
  std::vector<int> gathered = std::vector<int>(kUnits), computed = gathered;  ///< when they ended
  int ahead = 0;  ///< gathers that were finished before the first computation began

  friend bool operator==(const Pass&, const Pass&) = default;
};

/// The clock of a stream. A slot has one, too.
struct Clock {
  /// Work begins when the stream and the slot are free, and takes a time of 1.
  /// @return when it ends; both clocks then say so
  int work(float& slot) {
    now = std::max(now, static_cast<int>(slot)) + 1;
    slot = static_cast<float>(now);
    return now;
  }
  int now = 0;
};

inline std::string words(const std::vector<float>& values) {
  std::string line;
  for (const float x : values) line += std::isnan(x) ? " NaN" : fmt::format(" {}", x);
  return line;
}

/// Without slots: each unit gets new memory, which is freed after its event has passed. No message
/// says when an event passes, so we look whenever the next unit asks for memory.
class Fresh {
 public:
  struct Slot {
    Tensor memory{};
    Event free{};
    bool held = false;
  };
  explicit Fresh(Context& context) : context_(context) {}
  Slot& acquire() {
    used_.remove_if([](const auto& use) { return !use.slot.held && use.slot.free.ready(); });
    Use& use = used_.emplace_back(Use{{context_.ledger, kClass, kNumel * sizeof(float)}, {}});
    use.slot = {.memory = use.buffer.tensor({kNumel}), .free = {}, .held = true};
    return use.slot;
  }
  void release(Slot& slot, Event free) { slot.held = false, slot.free = free; }

 private:
  struct Use {
    Buffer buffer;
    Slot slot;
  };
  Context& context_;
  std::list<Use> used_;
};

/// The results of rank 0.
struct Trained {
  std::int64_t unsharded = 0;    ///< bytes of unsharded parameters; those of gradients are as many
  std::int64_t allocations = 0;  ///< after the first step
  std::vector<float> weights{};
};

/// full_shard on 2 ranks.
inline Trained train(int n_layer, bool pool) {
  std::vector<Trained> trained(2);
  comm::launch_threads(2, 1, [&](Context& context, std::unique_ptr<comm::Communicator> world) {
    gpt::GPTConfig config = nanogpt(65);
    config.n_layer = n_layer;
    ShardedRank rank(context, std::move(world), config, {.alignment = 1, .pool = pool});
    Trained& here = trained[static_cast<std::size_t>(context.rank)];
    for (int step = 0; step < 3; ++step) {
      rank.sharded.zero_grad();
      rank.forward_backward({config, 4 * step + 2 * context.rank, 2}, 1.0f / (4 * 64));
      rank.update();
      if (step == 0) here.allocations = -context.ledger.allocations();
    }
    here.allocations += context.ledger.allocations();
    here.unsharded = context.ledger.count(MemoryClass::unsharded_parameters).reserved;
    here.weights = rank.weights();
  });
  return trained[0];
}

/// The times at which the lanes of a forward pass begin and end their work.
inline Chart chart_of(const Pass& pass, int slots) {
  Chart chart{.title = fmt::format("{} slot{}: over at {}", slots, slots == 1 ? "" : "s",
                                   pass.computed.back()),
              .lanes = {"compute", "all-gather"}};
  for (int s = 0; s < slots; ++s) chart.lanes.push_back(fmt::format("slot {}", s + 1));
  for (int u = 0, now = 0; u < kUnits; ++u) {
    const int gathered = pass.gathered[u], computed = pass.computed[u];
    const std::string unit = std::to_string(u);
    chart.bars.push_back({0, now, computed - 1, colour::waiting, ""});
    chart.bars.push_back({0, computed - 1, computed, colour::computation, unit});
    chart.bars.push_back({1, gathered - 1, gathered, colour::all_gather, unit});
    chart.bars.push_back({2 + u % slots, gathered - 1, computed, colour::parameters, unit});
    now = computed;
  }
  return chart;
}

/// @param passes with 1 slot, 2 slots ...
inline Svg drawing(const std::vector<Pass>& passes) {
  std::vector<Chart> charts;
  for (const Pass& pass : passes) {
    charts.push_back(chart_of(pass, static_cast<int>(charts.size()) + 1));
  }
  return timeline({"Forward of five units. Number on a bar: the unit.",
                   "Hatched: computation waits. Time: a gather takes 1."},
                  charts, "time", 1);
}

}  // namespace lesson
