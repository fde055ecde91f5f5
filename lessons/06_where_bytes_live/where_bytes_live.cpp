#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "comm/local.h"
#include "comm/mesh.h"
#include "frame/lesson.h"
#include "frame/nanogpt.h"
#include "fsdp/adamw.h"
#include "fsdp/deferred_init.h"
#include "fsdp/fully_shard.h"
#include "nn/loss.h"
#include "picture.h"

// Lesson 06: how many bytes a rank keeps between two steps, by formula and by the ledger.

namespace {

using namespace nanofsdp;

//! [recipe]
// Bytes that training keeps for one parameter.
struct Recipe {
  std::int64_t parameter, gradient, optimizer;
};
constexpr Recipe kFloat32{4, 4, 4 + 4};       // Adam's two moments
constexpr Recipe kBfloat16{2, 2, 4 + 4 + 4};  // moments and a float32 copy
constexpr Recipe kAutocast{4 + 2, 4, 4 + 4};  // parameter and a 16-bit copy
//! [recipe]

//! [at_rest]
// Bytes that one of W ranks keeps for n parameters, at a stage of ZeRO from 0 to 3.
std::int64_t at_rest(Recipe bytes, std::int64_t n, std::int64_t W, int stage) {
  const std::int64_t share = (n + W - 1) / W;
  std::int64_t sum = bytes.optimizer * (stage >= 1 ? share : n);
  sum += bytes.gradient * (stage >= 2 ? share : n);
  sum += bytes.parameter * (stage >= 3 ? share : n);
  return sum;
}
//! [at_rest]

constexpr std::int64_t kNumel = 804096, kRows = 12;  // a GPT and a batch on tiny Shakespeare

// Rank 0's ledger after forward and backward of 12 rows over W ranks: bytes, class by class.
std::vector<std::int64_t> ledger(int W, fsdp::ShardingStrategy strategy) {
  std::vector<std::int64_t> bytes;
  comm::launch_threads(W, 1, [&](Context& context, std::unique_ptr<comm::Communicator> world) {
    comm::Mesh mesh(std::move(world));
    const gpt::GPTConfig config = lesson::nanogpt(65);
    gpt::GPT model(config);
    fsdp::Options options{.strategy = strategy, .alignment = 1};
    options.wrap_policy = lesson::is_block;
    fsdp::ShardedModel sharded(context, model, mesh, options);
    Generator generator(1);
    fsdp::deferred_init(context, sharded.units(), model.nanogpt_draws(), generator);
    const fsdp::AdamW optimizer(context, sharded.units(), {});
    nn::Tape tape(context);
    std::vector<std::int32_t> tokens(static_cast<std::size_t>(kRows / W * config.block_size));
    const Tensor rows(tokens.data(), {kRows / W, config.block_size}, DType::int32);
    double total = 0;
    tape.begin(/*training=*/true);
    nn::cross_entropy(tape, sharded.forward(tape, rows), rows, {&total, {1}, DType::float64});
    sharded.backward(tape, nn::cross_entropy_backward(tape, 1.0f));
    if (context.rank != 0) return;
    //! [ledger]
    for (const MemoryClass kind : kMemoryClasses) {
      bytes.push_back(context.ledger.count(kind).reserved);
    }
    //! [ledger]
  });
  return bytes;
}

}  // namespace

int main(int argc, char** argv) {
  lesson::Lesson lesson(argc, argv);
  lesson.print("                     a parameter   7000000000 parameters");
  for (const auto& [name, bytes] :
       {std::pair{"float32", kFloat32}, {"bfloat16", kBfloat16}, {"autocast", kAutocast}}) {
    lesson.print(fmt::format("{:<14}{:>12} bytes{:>21} GB", name, at_rest(bytes, 1, 1, 0),
                             at_rest(bytes, 7'000'000'000, 1, 0) / 1'000'000'000));
  }

  lesson.print("float32, 804096 parameters, bytes on each rank");
  lesson.print("             W = 1       W = 2       W = 4");
  for (int stage = 0; stage <= 3; ++stage) {
    lesson.print(
        fmt::format("ZeRO-{}{:>12}{:>12}{:>12}", stage, at_rest(kFloat32, kNumel, 1, stage),
                    at_rest(kFloat32, kNumel, 2, stage), at_rest(kFloat32, kNumel, 4, stage)));
  }

  const std::vector<std::int64_t> whole = ledger(2, fsdp::ShardingStrategy::no_shard);
  const std::vector<std::int64_t> shared = ledger(2, fsdp::ShardingStrategy::full_shard);
  lesson.print("the ledger of rank 0, W = 2    no_shard  full_shard");
  for (std::size_t i = 0; i < kMemoryClasses.size(); ++i) {
    lesson.print(fmt::format("{:<27}{:>12}{:>12}", nanofsdp::name_of(kMemoryClasses[i]), whole[i],
                             shared[i]));
  }
  const auto kept = [](const std::vector<std::int64_t>& bytes) {
    return bytes[0] + bytes[1] + bytes[2];
  };
  lesson.claim(kept(whole) == at_rest(kFloat32, kNumel, 2, 0), "ZeRO-0 as the formula says");
  lesson.claim(kept(shared) == at_rest(kFloat32, kNumel, 2, 3), "ZeRO-3 as the formula says");

  const std::int64_t three = kept(ledger(3, fsdp::ShardingStrategy::full_shard));
  lesson.print(fmt::format("W = 3: full_shard by formula {}, by ledger {}",
                           at_rest(kFloat32, kNumel, 3, 3), three));
  const std::int64_t block = 196864, rest = kNumel - 4 * block;
  const std::int64_t pieces = 4 * at_rest(kFloat32, block, 3, 3) + at_rest(kFloat32, rest, 3, 3);
  lesson.print(fmt::format("W = 3: the formula for 4 blocks and the rest {}", pieces));
  lesson.claim(three == pieces, "W = 3, piece by piece");

  lesson.answer(at_rest(kFloat32, 1, 1, 0));
  lesson.answer(at_rest(kBfloat16, 7'000'000'000, 1, 0) / 1'000'000'000);
  lesson.answer(kept(shared));
  std::array<std::array<std::int64_t, 3>, 4> stages{};  // bytes of one parameter, W = 4
  for (int stage = 0; stage < 4; ++stage) {
    const auto of = [&](Recipe part) { return at_rest(part, kNumel, 4, stage) / kNumel; };
    const auto [p, g, o] = kFloat32;
    stages[stage] = {of({p, 0, 0}), of({0, g, 0}), of({0, 0, o})};
  }
  lesson.picture(lesson::drawing(stages));
  return lesson.end("ZeRO-0 and ZeRO-3 weigh what the formula says, to the byte");
}
