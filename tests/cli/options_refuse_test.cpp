#include <gtest/gtest.h>

#include "cli/options.h"
#include "support/temporary_directory.h"
#include "support/usage_error.h"
#include "train/options.h"

// Tests which options the command line refuses, and what the message must say.

namespace nanofsdp::cli::options_refuse_test {
namespace {

using nanofsdp::testing::one_line_with;
using nanofsdp::testing::TemporaryDirectory;
using nanofsdp::testing::usage_error;
using Args = std::vector<std::string>;

TrainOptions parse(const Args& args) { return parse_train_options(args); }

std::string error_of(const Args& args) {
  return usage_error([&] { parse_train_options(args); });
}

struct Refusal {
  Args args;
  std::initializer_list<const char*> words;
};

TEST(OptionsRefuse, WithOneLineThatNamesOptionExpectationAndRemedy) {
  const Refusal refusals[] = {
      {{"--n_layers=4"}, {"unknown option --n_layers", "did you mean --n_layer?"}},
      {{"--n-layer", "4"}, {"unknown option --n-layer", "did you mean --n_layer?"}},
      {{"--lerning_rate=1"}, {"did you mean --learning_rate?"}},
      {{"--xylophone=4"}, {"unknown option --xylophone", "--help=all lists them"}},
      {{"--help=n_layer"}, {"--help", "--help or --help=all", "'n_layer'"}},
      {{"--help="}, {"--help", "--help or --help=all", "''"}},
      {{"-n_layer=4"}, {"'-n_layer=4'", "--name=value"}},
      {{"train_shakespeare_char", "b.py"}, {"'b.py'", "--name=value"}},
      {{"nowhere.py"}, {"nowhere.py", "train_shakespeare_char"}},
      {{"--n_layer"}, {"--n_layer", "--n_layer=VALUE"}},
      {{"--out_dir", "--n_layer=3"}, {"--out_dir", "--out_dir=VALUE"}},
      {{"--n_layer=four"}, {"--n_layer", "an integer", "'four'"}},
      {{"--n_layer=4.5"}, {"--n_layer", "an integer", "'4.5'"}},
      {{"--n_layer="}, {"--n_layer", "an integer", "''"}},
      {{"--n_layer=99999999999999999999"}, {"--n_layer", "a smaller number"}},
      {{"--learning_rate=fast"}, {"--learning_rate", "a number", "'fast'"}},
      {{"--learning_rate=nan"}, {"--learning_rate", "a number"}},
      {{"--learning_rate=1e999"}, {"--learning_rate", "a number"}},
      {{"--bias=maybe"}, {"--bias", "True or False", "'maybe'"}},
      {{"--layout=nonsense"}, {"--layout", "flat or per_parameter or row_aligned", "'nonsense'"}},
      {{"--strategy=zero9"}, {"--strategy", "full_shard or shard_grad_op", "zero9"}},
      {{"--zero=4"}, {"--zero", "0 or 1 or 2 or 3", "4"}},
      {{"--shard_size=2"}, {"--shard_size", "--strategy=hybrid_shard"}},
      {{"--ranks=4", "--strategy=hybrid_shard"}, {"--shard_size", "divisor of --ranks=4"}},
      {{"--ranks=4", "--strategy=hybrid_shard", "--shard_size=3"}, {"--shard_size", "3"}},
      {{"--ranks=4", "--strategy=hybrid_shard_optimizer"}, {"--shard_size", "divisor of"}},
      {{"--backward_prefetch=next"}, {"--backward_prefetch", "pre or post or none"}},
      {{"--forward_prefetch=-1"}, {"--forward_prefetch", "0 or more"}},
      {{"--param_dtype=float16"},
       {"--param_dtype", "float32 or bfloat16 or float8_e4m3", "float16"}},
      {{"--reduce_dtype=bf16"}, {"--reduce_dtype", "float32 or bfloat16"}},
      {{"--reduce_dtype=float8_e4m3"}, {"--reduce_dtype", "float32 or bfloat16"}},
      {{"--backend=nccl"}, {"--backend", "gloo", "--device=cpu"}},
      {{"--backend=mpi"}, {"--backend", "local", "'mpi'"}},
      {{"--reduction=tree"}, {"--reduction", "ordered or ring", "'tree'"}},
      {{"--reduction=ring", "--backend=gloo"},
       {"--reduction", "ordered with --backend=gloo", "the ring is NCCL's"}},
      {{"--reduction=ring", "--backend=local"}, {"--reduction", "ordered with --backend=local"}},
      {{"--init_order=random"}, {"--init_order", "nanogpt or fsdp"}},
      {{"--device=cuda:0"}, {"--device", "cpu or cuda", "'cuda:0'"}},
      {{"--device=mps"}, {"--device", "cpu or cuda", "'mps'"}},
      {{"--dtype=int8"}, {"--dtype", "float32", "int8"}},
      {{"--init_from=resume"}, {"--init_from", "--out_dir=DIR", "none"}},
      {{"--batch_size=1000000", "--block_size=1024"}, {"--batch_size", "GB of memory"}},
      {{"--n_embd=1000000"}, {"--n_embd", "GB of memory"}},
      {{"--init_from=gpt3"}, {"--init_from", "gpt2-xl", "'gpt3'"}},
      {{"--init_from=gpt2", "--pretrained=none"}, {"none/model.safetensors", "no such file"}},
      {{"--init_from=gpt2", "--bias=True"}, {"--bias", "--init_from"}},
      {{"--pretrained=data/gpt2"}, {"--pretrained", "--init_from=gpt2"}},
      {{"--dataset=tales", "--text=t.txt"}, {"--text", "--dataset", "one of them"}},
      {{"--text="}, {"--text", "file"}},
      {{"--n_embd=130"}, {"--n_embd", "multiple of --n_head=4", "130"}},
      {{"--dropout=1"}, {"--dropout", "[0, 1)"}},
      {{"--dropout=-0.1"}, {"--dropout", "[0, 1)", "-0.1"}},
      {{"--beta1=1"}, {"--beta1", "[0, 1)"}},
      {{"--beta2=-1"}, {"--beta2", "[0, 1)"}},
      {{"--learning_rate=0"}, {"--learning_rate", "more than 0"}},
      {{"--min_lr", "-1"}, {"--min_lr: expected 0 or more, got '-1'"}},
      {{"--min_lr=1"}, {"--min_lr", "--learning_rate=0.001", "--decay_lr=False"}},
      {{"--lr_decay_iters=50"}, {"--lr_decay_iters", "--warmup_iters=100", "50"}},
      {{"--lr_decay_iters=100"}, {"--lr_decay_iters", "--warmup_iters=100", "got 100"}},
      {{"--warmup_iters=-1"}, {"--warmup_iters", "0 or more"}},
      {{"--weight_decay=-1"}, {"--weight_decay"}},
      {{"--grad_clip=-1"}, {"--grad_clip"}},
      {{"--max_iters=-1"}, {"--max_iters", "0 or more"}},
      {{"--sample=-1"}, {"--sample", "0 or more", "-1"}},
      {{"--seed=-1"}, {"--seed", "0 or more"}},
      {{"--threads=-1"}, {"--threads"}},
      {{"--ranks=0"}, {"--ranks", "at least 1"}},
      {{"--ranks=13"}, {"rows", "--ranks=13", "--batch_size=13 or --ranks=12"}},
      {{"--ranks=4", "--batch_size=2", "--gradient_accumulation_steps=3"},
       {"--batch_size=4 or --gradient_accumulation_steps=4"}},
  };
  for (const Refusal& refusal : refusals) {
    const std::string error = error_of(refusal.args);
    EXPECT_TRUE(one_line_with(error, refusal.words)) << error;
  }
}

TEST(OptionsRefuse, SizesBelowOne) {
  for (const char* name :
       {"batch_size", "block_size", "gradient_accumulation_steps", "n_layer", "n_head", "n_embd",
        "eval_interval", "eval_iters", "log_interval", "ranks"}) {
    for (const char* value : {"0", "-3"}) {
      const std::string error = error_of({std::string("--") + name + "=" + value});
      EXPECT_TRUE(one_line_with(error, {name, "at least 1", value})) << error;
    }
  }
}

TEST(OptionsRefuse, NothingThatIsSwitchedOff) {
  EXPECT_NO_THROW(parse({"--decay_lr=False", "--learning_rate=1e-5", "--lr_decay_iters=1"}));
  EXPECT_NO_THROW(parse({"--ranks=12"}));
  EXPECT_NO_THROW(parse({"--ranks=13", "--gradient_accumulation_steps=13"}));
  EXPECT_NO_THROW(parse({"--grad_clip=0", "--max_iters=0", "--warmup_iters=0"}));
}

TEST(OptionsRefuse, ALineOfAConfig) {
  const TemporaryDirectory directory;
  const std::string typo = directory.write("typo.py", "# mine\nn_layer = 3\nn_heads = 4\n");
  EXPECT_TRUE(
      one_line_with(error_of({typo}), {"typo.py:3", "--n_heads", "did you mean --n_head?"}));
  const std::string wrong = directory.write("wrong.py", "bias = 3\n");
  EXPECT_TRUE(one_line_with(error_of({wrong}), {"wrong.py:1", "--bias", "True or False"}));
  const std::string nested = directory.write("nested.py", "config = 'train_shakespeare_char'\n");
  EXPECT_TRUE(one_line_with(error_of({nested}), {"nested.py:1", "cannot name another"}));
}

TEST(OptionsRefuse, WhatSampleCannotDo) {
  const auto error = [](const Args& args) {
    return usage_error([&] { parse_sample_options(args); });
  };
  EXPECT_TRUE(one_line_with(error({"--starts=x"}), {"did you mean --start?"}));
  EXPECT_TRUE(one_line_with(error({"--start="}), {"--start", "at least one character"}));
  EXPECT_TRUE(one_line_with(error({"--temperature=0"}), {"--temperature", "at least 1e-6"}));
  EXPECT_TRUE(one_line_with(error({"--top_k=0"}), {"--top_k", "at least 1"}));
  EXPECT_TRUE(one_line_with(error({"--num_samples=0"}), {"--num_samples", "at least 1"}));
  EXPECT_TRUE(one_line_with(error({"--init_from=scratch"}), {"--init_from", "resume or gpt2"}));
  EXPECT_TRUE(one_line_with(error({"--pretrained=d"}), {"--pretrained", "--init_from=gpt2"}));
  EXPECT_TRUE(one_line_with(error({"--n_layer=3"}), {"unknown option --n_layer"}));
}

// However short the schedule is, each step has a rate between the lowest and the highest one.
TEST(OptionsRefuse, WhatLeavesAStepWithoutARate) {
  int allowed = 0;
  for (std::int64_t warmup = 0; warmup <= 4; ++warmup) {
    for (std::int64_t decay = 0; decay <= 4; ++decay) {
      TrainOptions o;
      try {
        o = parse_train_options({"--warmup_iters=" + std::to_string(warmup),
                                 "--lr_decay_iters=" + std::to_string(decay)});
      } catch (const UsageError&) {
        continue;
      }
      ++allowed;
      for (std::int64_t it = 0; it <= 6; ++it) {
        const double rate = train::learning_rate_at(o, it);
        EXPECT_TRUE(rate > 0 && rate <= o.learning_rate) << rate << " at " << it;
      }
    }
  }
  EXPECT_EQ(allowed, 4 + 3 + 2 + 1);
}

}  // namespace
}  // namespace nanofsdp::cli::options_refuse_test
