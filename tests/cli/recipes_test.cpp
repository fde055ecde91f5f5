#include "cli/options.h"

#include <gtest/gtest.h>

#include "support/temporary_directory.h"
#include "support/usage_error.h"

namespace nanofsdp::cli::recipes_test {
namespace {

using nanofsdp::testing::TemporaryDirectory;
using Args = std::vector<std::string>;

TrainOptions parse(const Args& args) { return parse_train_options(args); }

// nanoGPT's README, word by word.
const Args kReadme{"config/train_shakespeare_char.py",
                   "--device=cpu",
                   "--compile=False",
                   "--eval_iters=20",
                   "--log_interval=1",
                   "--block_size=64",
                   "--batch_size=12",
                   "--n_layer=4",
                   "--n_head=4",
                   "--n_embd=128",
                   "--max_iters=2000",
                   "--lr_decay_iters=2000",
                   "--dropout=0.0"};

TEST(Recipes, TakeTheCommandOfNanoGPTsReadme) {
  const TrainOptions o = parse(kReadme);
  EXPECT_EQ(o.dataset, "shakespeare_char");  // from the config
  EXPECT_EQ(o.out_dir, "out-shakespeare-char");
  EXPECT_EQ(o.eval_interval, 250);
  EXPECT_EQ(o.warmup_iters, 100);
  EXPECT_EQ(o.beta2, 0.99);
  EXPECT_EQ(o.n_layer, 4);  // from the command line, over the config's
  EXPECT_EQ(o.n_embd, 128);
  EXPECT_EQ(o.dropout, 0);
  EXPECT_EQ(o.eval_iters, 20);
  EXPECT_EQ(o.lr_decay_iters, 2000);
  EXPECT_EQ(o.seed, 1337);  // from neither
  EXPECT_TRUE(o.notes.empty());
}

TEST(Recipes, TheConfigAloneIsNanoGPTsForOneGpu) {
  for (const Args& args :
       {Args{"config/train_shakespeare_char.py"}, Args{"--config=train_shakespeare_char"},
        Args{"--config", "config/train_shakespeare_char.py"}}) {
    const TrainOptions o = parse(args);
    EXPECT_EQ(o.n_layer, 6);
    EXPECT_EQ(o.n_embd, 384);
    EXPECT_EQ(o.batch_size, 64);
    EXPECT_EQ(o.block_size, 256);
    EXPECT_EQ(o.dropout, 0.2);
    EXPECT_EQ(o.max_iters, 5000);
    EXPECT_EQ(o.eval_iters, 200);
    EXPECT_EQ(o.log_interval, 10);
  }
}

TEST(Recipes, TheConfigForACpuIsTheCommandOfTheReadme) {
  const TrainOptions o = parse({"train_shakespeare_char_cpu"});
  const TrainOptions readme = parse(kReadme);
  EXPECT_EQ(o.n_layer, readme.n_layer);
  EXPECT_EQ(o.n_embd, readme.n_embd);
  EXPECT_EQ(o.batch_size, readme.batch_size);
  EXPECT_EQ(o.block_size, readme.block_size);
  EXPECT_EQ(o.dropout, readme.dropout);
  EXPECT_EQ(o.max_iters, readme.max_iters);
  EXPECT_EQ(o.lr_decay_iters, readme.lr_decay_iters);
  EXPECT_EQ(o.eval_iters, readme.eval_iters);
  EXPECT_EQ(o.out_dir, readme.out_dir);
}

// nanoGPT's train_gpt2.py, and the defaults of its train.py behind it.
TEST(Recipes, TheConfigOfGpt2IsNanoGPTs) {
  const TrainOptions o = parse({"config/train_gpt2.py", "--ranks=8"});
  EXPECT_EQ(o.dataset, "openwebtext");
  EXPECT_EQ(o.gradient_accumulation_steps * o.batch_size * o.block_size, 491'520);
  EXPECT_EQ(12 * o.n_layer * o.n_embd * o.n_embd, 84'934'656);
  EXPECT_EQ(o.n_head, 12);
  EXPECT_EQ(o.learning_rate, 6e-4);
  EXPECT_EQ(o.min_lr, 6e-5);
  EXPECT_EQ(o.beta2, 0.95);
  EXPECT_EQ(o.warmup_iters, 2000);
  EXPECT_EQ(o.max_iters, 600'000);
  EXPECT_EQ(o.lr_decay_iters, 600'000);
  EXPECT_TRUE(o.always_save_checkpoint);
  EXPECT_FALSE(o.bias);
  EXPECT_TRUE(o.notes.empty());
}

// The other files of nanoGPT's folder "config", with their settings; and what they leave out.
TEST(Recipes, EveryConfigOfNanoGPTRunsAsItIs) {
  const TemporaryDirectory directory;
  const std::string pretrained = "--pretrained=" NANOFSDP_SOURCE_DIR "/tests/parity/gpt2";
  for (const std::string size : {"", "-medium", "-large", "-xl"}) {
    const TrainOptions o =
        parse({directory.write("eval_gpt2.py",
                               "# evaluates\nbatch_size = 8\neval_iters = 500  # use "
                               "more\neval_only = True\nwandb_log = False\ninit_from "
                               "= 'gpt2" +
                                   size + "'\n"),
               pretrained, "--block_size=16"});
    EXPECT_TRUE(o.eval_only);
    EXPECT_EQ(o.init_from, "gpt2" + size);
    EXPECT_EQ(o.eval_iters, 500);
    EXPECT_EQ(o.dataset, "openwebtext");
  }
  const TrainOptions o =
      parse({directory.write(
                 "finetune_shakespeare.py",
                 "import time\n\nout_dir = 'out-shakespeare'\neval_interval = 5\neval_iters = "
                 "40\nwandb_log = False # feel free to turn on\nwandb_project = 'shakespeare'\n"
                 "wandb_run_name = 'ft-' + str(time.time())\n\ndataset = 'shakespeare'\n"
                 "init_from = 'gpt2-xl'\nalways_save_checkpoint = False\nbatch_size = 1\n"
                 "gradient_accumulation_steps = 32\nmax_iters = 20\nlearning_rate = 3e-5\n"
                 "decay_lr = False\n"),
             pretrained, "--block_size=16"});
  EXPECT_EQ(o.recipe, "nanoGPT's defaults, and " + directory.file("finetune_shakespeare.py") +
                          " (its imports are passed over)");
  EXPECT_EQ(o.gradient_accumulation_steps, 32);
  EXPECT_EQ(o.log_interval, 1) << "of train.py";
  EXPECT_EQ(o.beta2, 0.95) << "of train.py";
  EXPECT_EQ(o.weight_decay, 0.1);
}

// Only without a config file are the defaults those of nanoGPT's recipe for a CPU.
TEST(Recipes, WhatAConfigLeavesOutIsNanoGPTsDefault) {
  const TemporaryDirectory directory;
  const std::string config = directory.write("c.py", "batch_size = 4\n");
  const TrainOptions o = parse({config, "--n_layer=2"});
  EXPECT_EQ(o.n_embd, 768);
  EXPECT_EQ(o.block_size, 1024);
  EXPECT_EQ(o.dataset, "openwebtext");
  EXPECT_EQ(o.gradient_accumulation_steps, 40);
  EXPECT_EQ(o.learning_rate, 6e-4);
  EXPECT_EQ(o.out_dir, "out");
  EXPECT_EQ(o.n_layer, 2);
  EXPECT_EQ(o.recipe, "nanoGPT's defaults, and " + config);
  EXPECT_EQ(parse({"--n_layer=2"}).n_embd, 128);
  EXPECT_EQ(parse({"--n_layer=2"}).recipe, "nanoGPT's for a CPU, which its README gives");
}

TEST(Recipes, TheConfigOfFinetuningIsNanoGPTs) {
  const TrainOptions o =
      parse({"finetune_shakespeare", "--init_from=gpt2",
             "--pretrained=" NANOFSDP_SOURCE_DIR "/tests/parity/gpt2", "--block_size=16"});
  EXPECT_EQ(o.dataset, "shakespeare");
  EXPECT_EQ(o.batch_size * o.gradient_accumulation_steps, 32);
  EXPECT_EQ(o.learning_rate, 3e-5);
  EXPECT_FALSE(o.decay_lr);
  EXPECT_EQ(o.max_iters, 20);
}

}  // namespace
}  // namespace nanofsdp::cli::recipes_test
