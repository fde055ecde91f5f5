#pragma once

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "comm/local.h"
#include "frame/lesson.h"
#include "frame/sharded_rank.h"
#include "stack.h"

/// @file
/// @brief What the library does with recompute and without, seen from rank 0.

namespace lesson {

/// Of the second step.
struct Seen {
  std::int64_t activations = 0, all_gathers = 0;
  Order order{};
  std::vector<float> weights{};
};

/// Two steps of full_shard on 2 ranks, dropout included.
inline Seen train(bool recompute, fsdp::BackwardPrefetch prefetch) {
  std::vector<Seen> seen(2);
  comm::launch_threads(2, 1, [&](Context& context, std::unique_ptr<comm::Communicator> world) {
    gpt::GPTConfig config = nanogpt(65);
    config.dropout = 0.1f;
    ShardedRank rank(context, std::move(world), config,
                     {.forward_prefetch = 0, .backward_prefetch = prefetch});
    for (const auto& block : rank.model.blocks()) block->recompute = recompute;
    for (int step = 0; step < 2; ++step) {
      rank.mesh.reset_traffic();
      if (step == 1) context.tracer.start();
      rank.sharded.zero_grad();
      rank.forward_backward({config, 12 * step + 6 * context.rank, 6}, 1.0f / (12 * 64));
      rank.update();
    }
    Seen& here = seen[static_cast<std::size_t>(context.rank)];
    here.activations = context.ledger.count(MemoryClass::activations).reserved;
    here.all_gathers = rank.mesh.traffic().all_gathers;
    for (std::string event : context.tracer.take_order()) {
      const std::size_t path = event.find("transformer.");
      here.order.push_back(path == event.npos ? event : event.erase(path, 12));
    }
    here.weights = rank.weights();
  });
  return seen[0];
}

/// What the blocks gathered and discarded.
inline Order of_blocks(const Order& order) {
  Order blocks;
  for (const std::string& event : order) {
    if (event.starts_with("U.h") || event.starts_with("R.h")) blocks.push_back(event);
  }
  return blocks;
}

/// The events from the second use of the root on, in one line.
inline std::string backward_of(const Order& order) {
  std::string line;
  for (const std::string& event : order) {
    if (event == "u.root" || !line.empty()) line += (line.empty() ? "" : " ") + event;
  }
  return line;
}

/// Activations with everything kept, and with inputs only.
using Bytes = std::array<std::int64_t, 2>;

/// Of 1, 2, 4 ... blocks.
inline Svg drawing(const std::vector<Bytes>& bytes) {
  Svg svg(700, 260);
  svg.text(20, 22, "bytes of activations, 6 rows: everything kept (orange), or only inputs (blue)");
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const int y = 40 + 52 * static_cast<int>(i);
    svg.text(20, y + 26, fmt::format("blocks: {}", 1 << i));
    const auto bar = [&](int top, std::int64_t value, std::string_view fill) {
      const int width = static_cast<int>(value / 70000);
      svg.rect(90, top, width, 20, fill);
      svg.text(96 + width, top + 15, fmt::format("{}", value));
    };
    bar(y, bytes[i][0], colour::orange);
    bar(y + 22, bytes[i][1], colour::blue);
  }
  return svg;
}

}  // namespace lesson
