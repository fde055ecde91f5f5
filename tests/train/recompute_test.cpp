#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "comm/local.h"
#include "train/trainer.h"

namespace nanofsdp::train {
namespace {

// Recompute must save memory in a whole run, which evaluates before the first step and after it,
// and writes a text. Eight blocks that keep only their inputs take less than half of the
// activations.
TEST(Trainer, RecomputesInLessMemoryThroughoutARun) {
  std::string text;
  for (int i = 0; text.size() < 900; ++i) text += std::to_string(i) + " ";
  const auto peak = [&](gpt::Recompute recompute) {
    TrainerOptions o;
    o.batch_size = 8;
    o.block_size = 16;
    o.n_layer = 8;
    o.n_embd = 16;
    o.max_iters = 2;
    o.eval_iters = 1;
    o.recompute = recompute;
    const data::Dataset dataset(text, "digits", o.block_size);
    Context context;
    Trainer trainer(context, comm::make_self(), o, dataset);
    Listener silent;
    trainer.run(silent);
    trainer.sample(2 * o.block_size);
    return context.ledger.count(MemoryClass::activations).reserved_peak;
  };
  const std::int64_t all = peak(gpt::Recompute::none);
  EXPECT_LE(100 * peak(gpt::Recompute::block), 45 * all);
  EXPECT_LE(100 * peak(gpt::Recompute::selective), 80 * all);
}

// Whatever was switched on before, only what is asked for is on.
TEST(Recompute, IsSwitchedOnAndOff) {
  using enum gpt::Recompute;
  const gpt::GPT model({.block_size = 4, .vocab_size = 5, .n_layer = 2, .n_head = 1, .n_embd = 4});
  for (const gpt::Recompute before : {none, selective, block}) {
    for (const gpt::Recompute what : {none, selective, block}) {
      set_recompute(model, before);
      set_recompute(model, what);
      for (const auto& layer : model.blocks()) {
        EXPECT_EQ(layer->recompute, what == block);
        for (const auto& [name, child] : layer->children()) {
          EXPECT_EQ(child->recompute, what == selective && name == "mlp") << name;
        }
      }
    }
  }
}

}  // namespace
}  // namespace nanofsdp::train
