#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "comm/local.h"
#include "comm/mesh.h"
#include "frame/nanogpt.h"
#include "fsdp/adamw.h"
#include "fsdp/deferred_init.h"
#include "fsdp/fully_shard.h"
#include "nn/loss.h"

/// @file
/// @brief What the library keeps and moves in a step, for lesson 18.

namespace lesson {

using namespace nanofsdp;

/// Of rank 0.
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

}  // namespace lesson
