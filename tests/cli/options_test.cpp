#include "cli/options.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "cli/plan_options.h"
#include "support/temporary_directory.h"
#include "support/usage_error.h"

namespace nanofsdp::cli::options_test {
namespace {

using nanofsdp::testing::one_line_with;
using nanofsdp::testing::TemporaryDirectory;
using Args = std::vector<std::string>;

TrainOptions parse(const Args& args) { return parse_train_options(args); }

TEST(Options, DefaultToTheRecipeForACpu) {
  const TrainOptions o = parse({});
  EXPECT_EQ(o.dataset, "tales");
  EXPECT_EQ(o.batch_size, 12);
  EXPECT_EQ(o.block_size, 64);
  EXPECT_EQ(o.n_embd, 128);
  EXPECT_EQ(o.max_iters, 2000);
  EXPECT_EQ(o.sample, 500);
  EXPECT_EQ(o.dropout, 0);
  EXPECT_EQ(o.beta2, 0.99);
  EXPECT_EQ(o.min_lr, 1e-4);
  EXPECT_FALSE(o.bias);
  EXPECT_EQ(o.strategy, fsdp::ShardingStrategy::full_shard);
  EXPECT_TRUE(o.out_dir.empty());
  EXPECT_TRUE(o.notes.empty());
}

TEST(Options, TheCommandLineWinsWhereverTheConfigStands) {
  const TemporaryDirectory directory;
  const std::string config = directory.write("c.py", "n_layer = 3\nbatch_size = 5\n");
  EXPECT_EQ(parse({"--n_layer=2", config}).n_layer, 2);
  EXPECT_EQ(parse({config, "--n_layer=2"}).n_layer, 2);
  EXPECT_EQ(parse({config, "--n_layer=2"}).batch_size, 5);
  EXPECT_EQ(parse({config, "--n_layer=2", "--n_layer=7"}).n_layer, 7);  // the last of two values
}

TEST(Options, TakeAValueAfterASpaceToo) {
  const TrainOptions o = parse({"--n_layer", "2", "--out_dir", "out", "--min_lr", "0"});
  EXPECT_EQ(o.n_layer, 2);
  EXPECT_EQ(o.out_dir, "out");
}

TEST(Options, AnEmptyValueIsAValue) {
  EXPECT_EQ(parse({"config/train_shakespeare_char.py", "--out_dir=", "--n_layer=2"}).out_dir, "");
  EXPECT_EQ(parse({"--out_dir=", "--n_layer=2"}).n_layer, 2);
}

TEST(Options, KeepOddValuesAsTheyAre) {
  EXPECT_EQ(parse_sample_options({"--start=--a=b"}).start, "--a=b");
  EXPECT_EQ(parse_sample_options({"--start=\\n"}).start, "\n") << "as --help shows it";
  EXPECT_EQ(parse_sample_options({"--start=[x, \"y\"]"}).start, "[x, \"y\"]");
  EXPECT_EQ(parse_sample_options({"--start=a,b c=d"}).start, "a,b c=d");
}

TEST(Options, Ours) {
  const TrainOptions o = parse({"--ranks=4", "--strategy=no_shard", "--threads=3",
                                "--backend=local", "--backward_prefetch=none", "--init_order=fsdp",
                                "--metrics=m.jsonl", "--text=t.txt", "--layout=per_parameter"});
  EXPECT_EQ(o.ranks, 4);
  EXPECT_EQ(o.strategy, fsdp::ShardingStrategy::no_shard);
  EXPECT_EQ(o.backend, Backend::local);
  EXPECT_EQ(o.backward_prefetch, fsdp::BackwardPrefetch::none);
  EXPECT_EQ(o.init_order, train::InitOrder::fsdp);
  EXPECT_EQ(o.layout, fsdp::LayoutKind::per_parameter);
  EXPECT_EQ(o.metrics, "m.jsonl");
  EXPECT_EQ(o.text, "t.txt");
  EXPECT_EQ(threads_per_rank(o, 4), 3);
  EXPECT_GE(threads_per_rank(parse({"--ranks=12"}), 12), 1);
}

TEST(Options, NameStrategiesByStageAndByGroups) {
  const fsdp::ShardingStrategy stages[] = {
      fsdp::ShardingStrategy::no_shard, fsdp::ShardingStrategy::shard_optimizer,
      fsdp::ShardingStrategy::shard_gradients, fsdp::ShardingStrategy::full_shard};
  for (int stage = 0; stage < 4; ++stage) {
    EXPECT_EQ(parse({"--zero=" + std::to_string(stage)}).strategy, stages[stage]);
  }
  const auto hybrid = [](const std::string& size) {
    return parse({"--ranks=4", "--strategy=hybrid_shard", "--shard_size=" + size});
  };
  EXPECT_EQ(hybrid("2").strategy, fsdp::ShardingStrategy::hybrid_shard);
  EXPECT_EQ(hybrid("2").shard_size, 2);
  EXPECT_EQ(hybrid("1").strategy, fsdp::ShardingStrategy::no_shard);  // nothing is sharded
  EXPECT_EQ(hybrid("4").strategy, fsdp::ShardingStrategy::full_shard);
  EXPECT_EQ(hybrid("4").shard_size, 0);
  // The same where replicas split the update. In groups of one, only the update is split.
  const auto split = [](const std::string& size) {
    return parse({"--ranks=4", "--strategy=hybrid_shard_optimizer", "--shard_size=" + size});
  };
  EXPECT_EQ(split("2").strategy, fsdp::ShardingStrategy::hybrid_shard_optimizer);
  EXPECT_EQ(split("2").shard_size, 2);
  EXPECT_EQ(split("1").strategy, fsdp::ShardingStrategy::shard_optimizer);
  EXPECT_EQ(split("1").shard_size, 0);
  EXPECT_EQ(split("4").strategy, fsdp::ShardingStrategy::full_shard);
}

TEST(Options, TakePrecisionAndSchedule) {
  const TrainOptions o =
      parse({"--param_dtype=bfloat16", "--reduce_dtype=bfloat16", "--no_sync=True",
             "--gradient_accumulation_steps=2", "--recompute=True", "--forward_prefetch=2",
             "--backward_prefetch=post", "--trace=t.json", "--explain=True"});
  EXPECT_EQ(o.precision.param_dtype, DType::bfloat16);
  EXPECT_EQ(o.precision.reduce_dtype, DType::bfloat16);
  EXPECT_TRUE(o.no_sync && o.explain);
  EXPECT_EQ(o.forward_prefetch, 2);
  EXPECT_EQ(o.backward_prefetch, fsdp::BackwardPrefetch::post);
  EXPECT_EQ(o.trace, "t.json");
}

TEST(Options, TakeWhatIsComputedAgain) {
  using enum gpt::Recompute;
  const auto of = [](const char* word) {
    return parse({std::string("--recompute=") + word}).recompute;
  };
  EXPECT_EQ(parse({}).recompute, none);
  EXPECT_EQ(of("none"), none);
  EXPECT_EQ(of("False"), none);
  EXPECT_EQ(of("selective"), selective);
  EXPECT_EQ(of("block"), block);
  EXPECT_EQ(of("True"), block);
  EXPECT_THROW(of("some"), UsageError);
}

TEST(Options, NoteWhatTheyDoNotDo) {
  EXPECT_TRUE(parse({"--compile=False", "--wandb_log=False", "--dtype=float32"}).notes.empty());
  const auto notes = parse({"--compile=True", "--wandb_log=True", "--dtype=bfloat16"}).notes;
  const auto idle = parse({"--ranks=2", "--backend=local", "--transport=gloo"}).notes;
  EXPECT_TRUE(idle.size() == 1 && one_line_with(idle[0], {"--transport=gloo", "Gloo"}));
  ASSERT_EQ(notes.size(), 3u);
  EXPECT_TRUE(one_line_with(notes[0], {"--compile"}));
  EXPECT_TRUE(one_line_with(notes[1], {"--wandb_log", "--metrics"}));
  EXPECT_TRUE(one_line_with(notes[2], {"--dtype=bfloat16", "float32"}));
}

TEST(Options, ATextOutdoesTheDatasetOfAConfig) {
  EXPECT_EQ(parse({"config/train_shakespeare_char.py", "--text=t.txt"}).text, "t.txt");
  const TemporaryDirectory directory;
  const std::string config = directory.write("c.py", "text = 'mine.txt'\n");
  EXPECT_EQ(parse({config}).text, "mine.txt");
  EXPECT_EQ(parse({config, "--dataset=tales"}).text, "");  // the option that was typed last
}

TEST(Options, RanksMustShareAllButWhereFilesLie) {
  const auto settings = [](const Args& args) { return parse(args).settings; };
  const auto alike = settings({"--out_dir=a", "--trace=a.json", "--metrics=a", "--text=a"});
  EXPECT_EQ(alike, settings({"--out_dir=b", "--trace=b.json", "--metrics=b", "--text=b"}));
  EXPECT_EQ(alike, settings({"--out_dir=a", "--trace=a.json", "--text=a"}));
  EXPECT_NE(alike, settings({"--trace=a.json", "--metrics=a", "--text=a"}));
  EXPECT_NE(alike, settings({"--out_dir=a", "--metrics=a", "--text=a"}));
  EXPECT_NE(settings({}), settings({"--beta1=0.8"}));
}

TEST(Options, SampleHasNanoGPTs) {
  const SampleOptions o = parse_sample_options({});
  EXPECT_EQ(o.start, "\n");
  EXPECT_EQ(o.max_new_tokens, 500);
  EXPECT_EQ(o.temperature, 0.8);
  EXPECT_EQ(o.top_k, 200);
  const SampleOptions p = parse_sample_options(
      {"--out_dir=out-shakespeare-char", "--device=cpu", "--start=Olive said", "--num_samples=2"});
  EXPECT_EQ(p.out_dir, "out-shakespeare-char");
  EXPECT_EQ(p.start, "Olive said");
  EXPECT_EQ(p.num_samples, 2);
}

TEST(Options, SampleHasRanksAndAPretrainedModel) {
  const SampleOptions o = parse_sample_options({"--ranks=3", "--threads=2", "--backend=local"});
  EXPECT_EQ(o.ranks, 3);
  EXPECT_EQ(threads_per_rank(o, 3), 2);
  EXPECT_EQ(o.backend, Backend::local);
  EXPECT_EQ(o.pretrained, "");
  EXPECT_EQ(parse_sample_options({"--init_from=gpt2-xl"}).pretrained, "data/gpt2-xl");
  EXPECT_EQ(parse_sample_options({"--init_from=gpt2", "--pretrained=here"}).pretrained, "here");
  // Ranks may have their files in different places.
  const auto settings = [](const char* option) { return parse_sample_options({option}).settings; };
  EXPECT_EQ(settings("--out_dir=a"), settings("--start=FILE:b"));
  EXPECT_NE(settings("--seed=1"), settings("--seed=2"));
}

const std::string kSmall = NANOFSDP_SOURCE_DIR "/tests/parity/gpt2";

TEST(Options, APretrainedModelSaysItsSizes) {
  const TrainOptions o =
      parse({"--init_from=gpt2", "--pretrained=" + kSmall, "--block_size=16", "--dropout=0.1"});
  EXPECT_EQ(o.n_layer, 2);
  EXPECT_EQ(o.n_head, 2);
  EXPECT_EQ(o.n_embd, 8);
  EXPECT_EQ(o.vocab_size, 264);
  EXPECT_TRUE(o.bias);
  EXPECT_EQ(o.block_size, 16);
  EXPECT_EQ(o.dropout, 0.1);
  EXPECT_EQ(parse({"--init_from=gpt2", "--pretrained=" + kSmall, "--block_size=5"}).block_size, 5);
  const std::string error = nanofsdp::testing::usage_error([] {
    parse({"--init_from=gpt2", "--pretrained=" + kSmall});
  });
  EXPECT_TRUE(one_line_with(error, {"--block_size", "at most 16", "64"})) << error;
}

template <class Parse>
std::string help_of(const Parse& parse_options, const Args& args) {
  try {
    parse_options(args);
  } catch (const HelpRequested& help) {
    return help.text;
  }
  ADD_FAILURE() << "no help";
  return "";
}

TEST(Options, HelpListsOptionsInTheirGroups) {
  const std::string common = help_of(parse, {"--n_layer=3", "--help"});
  EXPECT_EQ(common, help_of(parse, {"-h"}));
  const std::string all = help_of(parse, {"--help=all"});
  for (const char* words : {"nanofsdp train", "Model\n", "--n_layer=4 ", "--strategy=full_shard ",
                            "Ranks (ours)\n", "--text= "}) {
    EXPECT_NE(common.find(words), std::string::npos) << words << " in\n" << common;
    EXPECT_NE(all.find(words), std::string::npos) << words << " in\n" << all;
  }
  for (const char* words : {"--min_lr=0.0001 ", "--bias=False ", "--wandb_run_name="}) {
    EXPECT_EQ(common.find(words), std::string::npos) << words << " in\n" << common;
    EXPECT_NE(all.find(words), std::string::npos) << words << " in\n" << all;
  }
  EXPECT_THROW(parse_sample_options({"--help"}), HelpRequested);
}

std::vector<std::string> options_in(const std::string& help) {
  std::istringstream text(help);
  std::vector<std::string> options;
  for (std::string line; std::getline(text, line);) {
    if (line.starts_with("  --")) options.push_back(line);
  }
  return options;
}

// A user reads at most a page. The long list has the same lines in the same order, and more.
TEST(Options, TheShortHelpIsAPartOfTheLongOne) {
  const auto expect_part = [](const auto& parse_options, std::size_t size) {
    const std::string common = help_of(parse_options, {"--help"});
    const auto some = options_in(common), all = options_in(help_of(parse_options, {"--help=all"}));
    EXPECT_EQ(some.size(), size) << common;  // each name of the short list is an option
    auto rest = all.begin();
    for (const std::string& line : some) {
      rest = std::find(rest, all.end(), line);
      EXPECT_NE(rest, all.end()) << line;
    }
    EXPECT_EQ(some.size() < all.size(), common.find("--help=all lists all") != common.npos);
  };
  expect_part(parse, 31);
  expect_part(parse_eval_options, 14);
  expect_part(parse_compare_options, 18);
  expect_part(parse_sample_options, 19);
  expect_part(parse_export_options, 11);
  expect_part([](const Args& args) { return parse_plan_options(args); }, 25);
}

}  // namespace
}  // namespace nanofsdp::cli::options_test
