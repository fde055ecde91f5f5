#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "comm/local.h"
#include "comm/mesh.h"
#include "frame/nanogpt.h"
#include "frame/separated.h"
#include "frame/svg.h"
#include "fsdp/adamw.h"
#include "fsdp/deferred_init.h"
#include "fsdp/fully_shard.h"
#include "nn/loss.h"

/// @file
/// @brief The bytes that the library keeps and sends in a step, for lesson 18, and its picture.

namespace lesson {

using namespace nanofsdp;

/// The bytes that rank 0 keeps and sends.
struct Measured {
  std::int64_t kept = 0;  ///< bytes, between steps
  comm::Traffic all, across;
};

/// One step of M micro-batches of the tales' GPT, one row a rank in each.
/// @param group ranks of a shard group; 0: all
inline Measured measure(int ranks, fsdp::ShardingStrategy strategy, int group, int M) {
  Measured measured;
  comm::launch_threads(ranks, 1, [&](Context& context, std::unique_ptr<comm::Communicator> world) {
    comm::Mesh mesh(std::move(world), group);
    gpt::GPT model(nanogpt(52));
    fsdp::ShardedModel sharded(context, model, mesh,
                               {.strategy = strategy, .alignment = 1, .wrap_policy = is_block});
    const fsdp::AdamW optimizer(context, sharded.units(), {});
    Generator generator(1337);
    fsdp::deferred_init(context, sharded.units(), model.nanogpt_draws(), generator);
    std::vector<std::int32_t> tokens(64);
    const Tensor row(tokens.data(), {1, 64}, DType::int32);
    nn::Tape tape(context);
    double loss = 0;
    for (int m = 0; m < M; ++m) {
      tape.begin(/*training=*/true);
      nn::cross_entropy(tape, sharded.forward(tape, row), row, {&loss, {1}, DType::float64});
      sharded.backward(tape, nn::cross_entropy_backward(tape, 1.0f), m + 1 == M);
    }
    if (context.rank != 0) return;
    for (const MemoryClass kind :
         {MemoryClass::parameter_shards, MemoryClass::gradient_shards, MemoryClass::optimizer}) {
      measured.kept += context.ledger.count(kind).reserved;
    }
    measured.all = mesh.traffic(), measured.across = mesh.traffic_across();
  });
  return measured;
}

/// Two machines of two ranks, and the bytes that each rank receives in a step.
inline Svg drawing(std::int64_t inside, std::int64_t across) {
  Svg svg(470, 400);
  svg.text(8, 18, "Two groups of two ranks: bytes that each rank receives");
  svg.text(8, 36, "in a step of one micro-batch.");
  for (const int y : {50, 260}) svg.rect(20, y, 430, 120, "#eeeeee");
  for (const int group : {0, 1}) {
    const int y = 50 + 210 * group;
    svg.text(98, y + 18, fmt::format("machine {}", group));
    for (const int shard : {0, 1}) {
      const int x = 30 + 294 * shard, rank = 2 * group + shard;
      svg.box(x, y + 36, 116, 60, colour::parameters,
              fmt::format("rank {}: shard {}", rank, shard));
      if (group == 0) {
        svg.rect(x + 56, y + 96, 5, 150, colour::gradients);
        svg.text(x + (shard == 0 ? 68 : 50), y + 150, "all-reduce",
                 shard == 0 ? Svg::At::start : Svg::At::end);
        svg.text(x + (shard == 0 ? 68 : 50), y + 168, separated(across),
                 shard == 0 ? Svg::At::start : Svg::At::end);
      }
    }
    svg.rect(146, y + 54, 178, 5, colour::all_gather);
    svg.rect(146, y + 73, 178, 5, colour::reduce_scatter);
    svg.text(235, y + 48, "all-gather", Svg::At::middle);
    svg.text(235, y + 92, "reduce-scatter", Svg::At::middle);
    svg.text(235, y + 110, "together " + separated(inside), Svg::At::middle);
  }
  return svg;
}

}  // namespace lesson
