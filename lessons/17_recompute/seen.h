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
#include "frame/separated.h"
#include "frame/sharded_rank.h"
#include "stack.h"

/// @file
/// @brief The work of rank 0 in the library, with recompute and without.

namespace lesson {

/// The work of rank 0 in the second step.
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

/// Only the events in which a block was gathered or discarded.
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

/// @param bytes of 1, 2, 4 ... blocks
inline Svg drawing(const std::vector<Bytes>& bytes) {
  constexpr int kLeft = 70, kPixel = 120000;  // bytes
  const int below = 30 + 52 * static_cast<int>(bytes.size());
  Svg svg(480, below + 50);
  svg.text(8, 18, "Activations of 6 rows, in bytes.");
  for (int million = 0; million <= 30; million += 10) {
    const int x = kLeft + million * 1000000 / kPixel;
    svg.line(x, 30, x, below + 5, million == 0 ? colour::ink : colour::grey);
    svg.text(x, below + 20, std::to_string(million), Svg::At::middle);
  }
  svg.line(kLeft, below, 470, below);
  svg.text(470, below + 38, "million bytes", Svg::At::end);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const int y = 34 + 52 * static_cast<int>(i);
    svg.text(kLeft - 8, y + 26, fmt::format("{} block{}", 1 << i, i == 0 ? "" : "s"), Svg::At::end);
    const auto bar = [&](int top, std::int64_t value, std::string_view words) {
      const int width = static_cast<int>(value / kPixel);
      svg.rect(kLeft, top, width, 20, colour::activations);
      const std::string text = fmt::format("{} {}", words, separated(value));
      width < 200 ? svg.text(kLeft + width + 6, top + 15, text)
                  : svg.text(kLeft + width - 6, top + 15, text, Svg::At::end);
    };
    bar(y, bytes[i][0], "all kept:");
    bar(y + 22, bytes[i][1], "inputs only:");
  }
  return svg;
}

}  // namespace lesson
