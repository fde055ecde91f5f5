#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "comm/local.h"
#include "support/temporary_directory.h"
#include "train/model_file.h"
#include "train/trainer.h"

namespace nanofsdp::train {
namespace {

struct Heard final : Listener {
  void evaluation(std::int64_t, const EvalResult& result) override {
    losses.push_back(result.val_loss);
  }
  std::vector<double> losses;
};

// The first step of this run is its best. Weights that are saved later must carry their own loss,
// not the best one of the run.
TEST(SavedWeights, NameTheirOwnLossAndNotTheBestOfTheRun) {
  const testing::TemporaryDirectory directory;
  TrainerOptions o;
  o.batch_size = 4;
  o.block_size = 8;
  o.n_layer = 1;
  o.n_head = 2;
  o.n_embd = 8;
  o.learning_rate = 0.3;
  o.decay_lr = false;
  o.max_iters = 3;
  o.eval_interval = 1;
  o.eval_iters = 2;
  o.out_dir = directory.file("");
  std::string text;
  for (int i = 0; text.size() < 600; ++i) text += std::to_string(i * i) + " ";
  const data::Dataset dataset(text, "squares", o.block_size);
  Context context;
  Trainer trainer(context, comm::make_self(), o, dataset);
  Heard heard;
  trainer.run(heard);
  ASSERT_GT(heard.losses.back(), *std::ranges::min_element(heard.losses));
  EXPECT_EQ(read_weights_info(o.out_dir).val_loss, heard.losses.back());
  EXPECT_EQ(read_weights_info(o.out_dir).iteration, 3);
}

}  // namespace
}  // namespace nanofsdp::train
