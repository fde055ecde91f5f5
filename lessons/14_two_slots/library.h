#pragma once

#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "comm/local.h"
#include "frame/lesson.h"
#include "frame/sharded_rank.h"

/// @file
/// @brief What the slots of lesson 14 are compared with, and its picture.

namespace lesson {

using namespace nanofsdp;

inline constexpr int kUnits = 5;
inline constexpr std::int64_t kNumel = 196864;  // of a block
inline constexpr MemoryClass kClass = MemoryClass::unsharded_parameters;

/// A forward pass over units. Time is counted in gathers and computations, of length 1 each.
struct Pass {
  std::vector<float> read = std::vector<float>(kUnits);                       ///< by each unit
  std::vector<int> gathered = std::vector<int>(kUnits), computed = gathered;  ///< when they ended
  int ahead = 0;  ///< gathers that were done before the first computation began

  friend bool operator==(const Pass&, const Pass&) = default;
};

inline std::string words(const std::vector<float>& values) {
  std::string line;
  for (const float x : values) line += std::isnan(x) ? " NaN" : fmt::format(" {}", x);
  return line;
}

/// Without slots: memory is asked for each time, and freed when its event has passed. Nobody says
/// when that is, so we look at the next occasion.
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

/// Of rank 0.
struct Trained {
  std::int64_t unsharded = 0;    ///< bytes of whole parameters, and as many of gradients
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

/// @param passes with 1 slot, 2 slots ...
inline Svg drawing(const std::vector<Pass>& passes) {
  Svg svg(700, 60 + 90 * static_cast<int>(passes.size()));
  svg.text(20, 22, "gathers above, computations below; a colour is a slot, a number a unit");
  for (std::size_t i = 0; i < passes.size(); ++i) {
    const int y = 45 + 90 * static_cast<int>(i);
    svg.text(20, y + 32, fmt::format("slots: {}", i + 1));
    const std::string_view fills[] = {colour::blue, colour::orange, colour::green};
    for (std::size_t u = 0; u < passes[i].gathered.size(); ++u) {
      const auto box = [&](int end, int top) {
        svg.box(90 + 60 * (end - 1), top, 60, 28, fills[u % (i + 1)], fmt::format("{}", u));
      };
      box(passes[i].gathered[u], y);
      box(passes[i].computed[u], y + 30);
    }
  }
  return svg;
}

}  // namespace lesson
