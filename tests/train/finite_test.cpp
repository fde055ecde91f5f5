#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/check.h"
#include "support/checkpoints.h"
#include "support/ranks.h"
#include "support/temporary_directory.h"
#include "train/trainer.h"

// If the numbers of a run are not finite any more, every rank ends with the same error: when it
// happened, where it began, and what to try. Files that were saved before stay.

namespace nanofsdp::train {
namespace {

using nanofsdp::testing::Backend;
using nanofsdp::testing::TemporaryDirectory;

TrainerOptions three_blocks() {
  TrainerOptions o;
  o.batch_size = 6;
  o.block_size = 8;
  o.n_layer = 3;
  o.n_head = 2;
  o.n_embd = 8;
  o.dropout = 0;
  o.grad_clip = 0;
  o.warmup_iters = 0;
  o.max_iters = 2;
  o.eval_iters = 1;
  o.seed = 7;
  return o;
}

void run(Trainer& trainer) {
  Listener silent;
  trainer.run(silent);
}

using Use = std::function<void(Trainer&)>;

/// The error that `use` throws, which must be the same on all ranks; empty if there is none.
std::string error_of(const TrainerOptions& o, int ranks, const Use& use) {
  std::string text;
  for (int i = 0; text.size() < 450; ++i) text += std::to_string(i) + " ";
  const data::Dataset dataset(text, "text", o.block_size);
  std::vector<std::string> errors(static_cast<std::size_t>(ranks));
  nanofsdp::testing::run_ranks(ranks == 1 ? Backend::self : Backend::local, ranks,
                               [&](Context& context, std::unique_ptr<comm::Communicator> world) {
                                 Trainer trainer(context, std::move(world), o, dataset);
                                 try {
                                   use(trainer);
                                 } catch (const RunError& error) {
                                   errors[static_cast<std::size_t>(context.rank)] = error.what();
                                 }
                               });
  for (const std::string& error : errors) EXPECT_EQ(error, errors[0]);
  return errors[0];
}

/// Fills parameters of a block so that its MLP does nothing in forward, and so that backward
/// computes one large gradient: that of c_fc, by c_proj's weights times ln_2's.
void make_large(Trainer& trainer, std::size_t block, float c_proj, float ln_2) {
  fsdp::ShardedParameters& flat = trainer.model().units()[block].rows()[0];
  for (std::size_t i = 0; i < flat.parameters().size(); ++i) {
    const nn::Parameter& parameter = *flat.parameters()[i];
    const auto fill = [&](const std::string& name, float value) {
      if (parameter.name != trainer.model().units()[block].name() + "." + name) return;
      std::vector<float> whole(static_cast<std::size_t>(parameter.shape.numel()), value);
      // The values have both signs, because otherwise gradients that sum to zero over channels
      // would cancel.
      for (std::size_t k = 0; name == "mlp.c_proj.weight" && k < whole.size(); ++k) {
        if (k % 32 % 2 == k / 32 % 2) whole[k] = -value;
      }
      flat.store(i, whole);
    };
    fill("ln_2.weight", ln_2);
    fill("mlp.c_fc.weight", 0);
    fill("mlp.c_proj.weight", c_proj);
  }
  flat.written();
}

TEST(Finite, NamesTheStepAndTheUnitWhereBackwardCeasedToBe) {
  for (const int ranks : {1, 3}) {
    const std::string error = error_of(three_blocks(), ranks, [](Trainer& trainer) {
      for (const std::size_t block : {0, 1}) make_large(trainer, block, 3e38f, 1e6f);
      run(trainer);
    });
    EXPECT_TRUE(
        error.starts_with("training stopped at iteration 0: expected finite numbers, got "
                          "loss 2."))
        << error;
    EXPECT_NE(error.find("in backward, the gradient of transformer.h.1 is the first"),
              std::string::npos)
        << error;
    EXPECT_NE(error.find("--learning_rate"), std::string::npos) << error;
  }
}

TEST(Finite, LeavesLargeNumbersAlone) {
  EXPECT_EQ(error_of(three_blocks(), 3,
                     [](Trainer& trainer) {
                       make_large(trainer, 1, 1e30f, 1);
                       run(trainer);
                     }),
            "");
}

// The gradient is finite, but its square, which Adam keeps, is not. So the weights do not change.
TEST(Finite, SavesNoMomentThatIsNot) {
  for (const int ranks : {1, 3}) {
    const TemporaryDirectory directory;
    TrainerOptions o = three_blocks();
    o.out_dir = directory.file("out");
    std::filesystem::create_directories(o.out_dir);
    const std::string error = error_of(o, ranks, [](Trainer& trainer) {
      make_large(trainer, 1, 1e30f, 1);
      run(trainer);
    });
    EXPECT_TRUE(
        error.starts_with("training stopped at iteration 2: expected finite numbers, got "
                          "exp_avg_sq of transformer.h.1"))
        << error;
    std::filesystem::remove(o.out_dir + "/run.lock");
    EXPECT_TRUE(std::filesystem::is_empty(o.out_dir));
  }
}

// One number on one rank is not finite.
TEST(Finite, KeepsTheCheckpointBefore) {
  const TemporaryDirectory directory;
  TrainerOptions o = three_blocks();
  o.out_dir = directory.file("out");
  std::filesystem::create_directories(o.out_dir);
  std::map<std::string, std::string> saved;
  const std::string error = error_of(o, 3, [&](Trainer& trainer) {
    run(trainer);
    if (trainer.mesh().rank() == 0) saved = nanofsdp::testing::tree(o.out_dir);
    fsdp::ShardedParameters& flat = trainer.model().units()[1].rows()[0];
    if (trainer.mesh().rank() == 1) *flat.parameter_shard().f32() = NAN;
    flat.written();
    run(trainer);
  });
  EXPECT_TRUE(
      error.starts_with("training stopped at iteration 0: expected finite numbers, got "
                        "parameters of transformer.h.1"))
      << error;
  EXPECT_NE(error.find("out/checkpoint' is still the checkpoint of iteration 2"), std::string::npos)
      << error;
  EXPECT_EQ(nanofsdp::testing::tree(o.out_dir), saved);
  o.init_from = "resume";
  o.max_iters = 4;
  EXPECT_EQ(error_of(o, 3, [](Trainer& trainer) { run(trainer); }), "");
}

// Every step has its loss, even if no caller prints it, because a run can only end for a loss that
// it knows.
TEST(Finite, EveryStepKnowsItsLoss) {
  TrainerOptions o = three_blocks();
  error_of(o, 3, [](Trainer& trainer) {
    for (std::int64_t it = 0; it < 3; ++it) EXPECT_GT(trainer.step(it).loss, 1) << it;
  });
}

}  // namespace
}  // namespace nanofsdp::train
