#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "comm/local.h"
#include "support/temporary_directory.h"
#include "train/trainer.h"

namespace nanofsdp::train {
namespace {

// Records the validation losses, and after how many of them the run has saved.
class Saves final : public Listener {
 public:
  void evaluation(std::int64_t, const EvalResult& result) override {
    losses.push_back(result.val_loss);
  }
  void saved(const std::string&) override { after.push_back(losses.size()); }
  std::vector<double> losses;
  std::vector<std::size_t> after;
};

TrainerOptions tiny() {
  TrainerOptions o;
  o.batch_size = o.gradient_accumulation_steps = o.n_head = o.eval_iters = 1;
  o.block_size = o.n_embd = 4;
  o.n_layer = 3;
  return o;
}

data::Dataset letters() {
  std::string text;
  for (int i = 0; i < 200; ++i) text += static_cast<char>('a' + i % 7);
  return {text, "text", 4};
}

// A loss that stays the same has not fallen. The model before the first step is not saved.
TEST(Trainer, SavesOnlyIfTheValidationLossHasFallenUnlessAskedAlways) {
  for (const bool always : {false, true}) {
    const nanofsdp::testing::TemporaryDirectory directory;
    TrainerOptions o = tiny();
    o.out_dir = directory.file("o");
    o.learning_rate = o.min_lr = 0;
    o.max_iters = 4;
    o.eval_interval = 1;
    o.always_save_checkpoint = always;
    const data::Dataset dataset = letters();
    Context context;
    Saves saves;
    Trainer(context, comm::make_self(), o, dataset).run(saves);
    ASSERT_EQ(saves.losses.size(), 5u);
    EXPECT_EQ(std::ranges::count(saves.losses, saves.losses[0]), 5) << "nothing is learnt";
    EXPECT_EQ(std::ranges::count(saves.after, 2u) > 0, always);
    EXPECT_EQ(saves.after.empty(), !always);
  }
}

// Backward needs the last blocks first.
TEST(Trainer, KeepsTheLastBlocksUnsharded) {
  for (int stay = 0; stay <= 4; ++stay) {
    TrainerOptions o = tiny();
    o.batch_size = 2;
    o.unsharded_blocks = stay;
    const data::Dataset dataset = letters();
    comm::launch_threads(2, 1, [&](Context& context, auto world) {
      Trainer trainer(context, std::move(world), o, dataset);
      const std::span<fsdp::Unit> units = trainer.model().units();
      ASSERT_EQ(units.size(), 4u);
      for (int i = 0; i < 3; ++i)
        EXPECT_EQ(units[static_cast<std::size_t>(i)].reshard_after_forward, i < 3 - stay) << i;
    });
  }
}

}  // namespace
}  // namespace nanofsdp::train
