#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "cli/options.h"
#include "cli/plan_options.h"
#include "cli/plan_report.h"
#include "support/process.h"
#include "support/temporary_directory.h"
#include "support/usage_error.h"

// Plans at the edges of their options: each says the same as the training, or is refused.

namespace nanofsdp::cli::plan_edges_test {
namespace {

using testing::output_of;
using testing::TemporaryDirectory;
using testing::usage_error;

PlanOptions parsed(const std::string& words) { return parse_plan_options(plan::words_in(words)); }

std::string printed(const std::string& words) {
  return output_of(TemporaryDirectory(), plan::words_in("plan " + words));
}

nlohmann::ordered_json json_of(const std::string& words) {
  const PlanOptions o = parsed(words);
  return cli::json_of(o, plan_of(o));
}

// Utilisation is arithmetic that a token costs, times the tokens of a second, however unequal the
// shares of the ranks are.
TEST(PlanEdges, UtilisationGoesWithTheTokensOfASecond) {
  for (const char* words : {"--model=gpt2 --batch_size=12 --gradient_accumulation_steps=5",
                            "--batch_size=7 --recompute=block --machine=a100-80"}) {
    std::vector<double> tokens;  // operations for a token, as a share of the peak
    for (const int ranks : {1, 2, 4, 5, 6, 7}) {
      const auto json = json_of(fmt::format("--machine=h100 {} --ranks={}", words, ranks));
      tokens.push_back(json["mfu"].get<double>() / json["tokens_per_s"].get<double>());
    }
    for (const double each : tokens) EXPECT_NEAR(each / tokens[0], 1, 1e-12) << words;
  }
}

// No kernel computes faster than its machine, in either precision.
TEST(PlanEdges, UtilisationIsAtMostOne) {
  for (const char* machine : {"a100-40", "a100-80", "h100", "h100-96", "h200"}) {
    for (const char* dtype : {"float32", "bfloat16"}) {
      for (const char* block : {"64", "8192", "65536", "1000000"}) {
        for (const char* model : {"--model=gpt2", "--n_layer=2", "--model=llama-3-8b"}) {
          const auto json = json_of(fmt::format("--machine={} --param_dtype={} --block_size={} {}",
                                                machine, dtype, block, model));
          EXPECT_LE(json["hfu"], 1) << machine << " " << dtype << " " << block << " " << model;
        }
      }
    }
  }
}

TEST(PlanEdges, FitIsAPartOfTheMachine) {
  const std::string words = "--model=llama-3-8b --machine=h100 --fit=";
  EXPECT_EQ(usage_error([&] { json_of(words + "79GiB"); }), "no error");
  const std::string error = usage_error([&] { json_of(words + "800GB"); });
  EXPECT_NE(error.find("--fit: expected at most what --machine=h100 has"), error.npos) << error;
}

// A few of the ranks that are offered may be refused, as they divide no accumulation steps.
TEST(PlanEdges, AnyPlanThatDoesNotFitSaysWhatWould) {
  std::mt19937 random(1);
  const auto one_of = [&](std::initializer_list<const char*> values) {
    return values.begin()[random() % values.size()];
  };
  int offers = 0;
  for (int i = 0; i < 16; ++i) {
    const std::string words = fmt::format(
        "--machine=h100 --memory_reserve=0 {} --ranks={} --gradient_accumulation_steps={} "
        "--batch_size={} --fit={}",
        one_of({"--parameters=4e11 --unit=3e9", "--parameters=1e10 --unit=1e9",
                "--n_layer=1 --n_embd=4096 --n_head=8"}),
        one_of({"1", "3", "8"}), one_of({"1", "3", "8", "24"}), one_of({"8", "9"}),
        one_of({"1GB", "0.0000001GB", "40GB"}));
    SCOPED_TRACE(words);
    const std::string text = what_would_fit(parsed(words));
    EXPECT_FALSE(text.empty());
    offers += text.find(" would take ") != text.npos;
  }
  EXPECT_GE(offers, 2);
}

// Whether the accumulation steps are typed or follow the ranks, each rank keeps its own.
TEST(PlanEdges, MoreRanksKeepTheMicroStepsOfARank) {
  for (const char* model : {"--model=llama-3-1b", "--parameters=1e9", "--n_layer=2"}) {
    for (const std::int64_t ranks : {1, 2, 6}) {
      for (const std::int64_t each : {0, 1, 2}) {  // 0: not typed
        std::string words = fmt::format("{} --ranks={} --batch_size=60", model, ranks);
        if (each > 0) words += fmt::format(" --gradient_accumulation_steps={}", each * ranks);
        const PlanOptions o = parsed(words), more = typed_behind(o, ranks_typed(o, 5 * ranks));
        SCOPED_TRACE(words);
        EXPECT_EQ(more.ranks(), 5 * ranks);
        const auto steps = o.training.gradient_accumulation_steps;
        const bool scales = each > 0 || model[2] != 'n';  // the default of our own models is 1
        EXPECT_EQ(more.training.gradient_accumulation_steps, scales ? 5 * steps : steps);
      }
    }
  }
}

// A model that is saved may need more memory, in the command's own plan as in each row of a sweep.
TEST(PlanEdges, OfARunThatSavesCountsWhatSavingTakes) {
  const std::string words =
      "--n_layer=1 --n_embd=64 --n_head=2 --vocab_size=9000 --batch_size=4 "
      "--block_size=8 --ranks=2 --param_dtype=bfloat16 --json=True";
  const auto peak = [](const nlohmann::json& json) { return json["peak_bytes"].get<double>(); };
  const auto alone = peak(nlohmann::json::parse(printed(words + " --out_dir=o")));
  EXPECT_GT(alone, peak(nlohmann::json::parse(printed(words)))) << "it gathers float32 to save it";
  EXPECT_EQ(alone, peak(json_of(words + " --out_dir=o")));
  const std::string rows = printed(words + " --out_dir=o --sweep=recompute");
  EXPECT_EQ(alone, peak(nlohmann::json::parse(rows)[0]));
}

TEST(PlanEdges, NoSyncKeepsNothingIfAStepReducesOnce) {
  for (const char* words : {"--strategy=full_shard", "--strategy=shard_gradients",
                            "--strategy=shard_optimizer --gradient_accumulation_steps=8",
                            "--strategy=no_shard --gradient_accumulation_steps=3"}) {
    const auto plan = [&](const char* more) {
      return json_of(fmt::format("--ranks=4 --n_layer=2 {} {}", words, more));
    };
    auto with = plan("--no_sync=True");
    const std::string note = with["notes"][0];
    EXPECT_EQ(note, "--no_sync=True does nothing here: a step has one reduction");
    with.erase("notes");
    EXPECT_EQ(with, plan("")) << words;
    auto typed = plan::words_in(words);
    typed.insert(typed.end(), {"--no_sync=True", "--ranks=4"});
    EXPECT_FALSE(parse_train_options(typed).no_sync) << words;
  }
  EXPECT_TRUE(parsed("--ranks=4 --gradient_accumulation_steps=3 --no_sync=True").training.no_sync)
      << "each rank has three micro-steps, because four ranks share the rows of each";
}

// Only the ranks of one node share its memory and its cores.
TEST(PlanEdges, RanksOfACpuHaveTheirPartOfTheirNode) {
  const TemporaryDirectory directory;
  std::string text = testing::read_file(NANOFSDP_SOURCE_DIR "/data/machines/cpu-2.txt");
  text.replace(text.find("node_ranks = 1024"), 17, "node_ranks = 4");
  const std::string machine = "--machine=" + directory.write("m.txt", text) + " --n_layer=1";
  const auto plan = [&](int ranks) {
    return json_of(fmt::format("{} --ranks={} --batch_size={}", machine, ranks, ranks));
  };
  const double memory = parsed(machine).find_machine().memory;
  for (const int ranks : {1, 2, 3, 4, 5, 8, 16})
    EXPECT_EQ(plan(ranks)["memory_bytes"], memory / std::min(ranks, 4)) << ranks;
  EXPECT_NEAR(plan(4)["mfu"].get<double>() * plan(4)["seconds"].get<double>(),
              plan(16)["mfu"].get<double>() * plan(16)["seconds"].get<double>(), 1e-9)
      << "a rank has the same work, and half a core";
  EXPECT_EQ(parsed(machine + " --ranks=16 --batch_size=16 --fit=1GB").find_machine().memory, 4e9);
}

TEST(PlanEdges, ThreadsOfTheHostChangeNoPlanOfAGpu) {
  for (const char* words : {"--device=cuda", "--machine=h100"}) {
    auto one = json_of(fmt::format("--n_layer=2 --threads=1 {}", words));
    auto many = json_of(fmt::format("--n_layer=2 --threads=64 {}", words));
    one.erase("notes"), many.erase("notes");
    EXPECT_EQ(one, many);
  }
}

// --zero and --strategy name the same: a later word replaces an earlier one, and one that was typed
// replaces that of a file.
TEST(PlanEdges, ZeroAndStrategyReplaceEachOther) {
  const std::string words = "--model=gpt2 --ranks=4 --machine=h100 ";
  const auto row = [&](const std::string& typed, const std::string& behind) {
    return row_of(parsed(words + typed), behind);
  };
  for (const char* behind : {" --strategy=shard_optimizer", " --zero=2"}) {
    for (const char* typed : {"--zero=3", "--zero 1", "--strategy=no_shard", "--strategy no_shard"})
      EXPECT_EQ(row(typed, behind), row("", behind)) << typed << behind;
  }
  const TemporaryDirectory directory;
  const auto of_file = [&](const std::string& text, const std::string& typed) {
    return fsdp::name_of(
        parsed(directory.write("c.py", text) + " --ranks=4 " + typed).training.strategy);
  };
  EXPECT_EQ(of_file("zero = 1\n", "--strategy=no_shard"), "no_shard");
  EXPECT_EQ(of_file("strategy = 'no_shard'\n", "--zero=1"), "shard_optimizer");
  EXPECT_EQ(of_file("zero = 1\nstrategy = 'no_shard'\n", ""), "no_shard");
  EXPECT_EQ(of_file("strategy = 'no_shard'\nzero = 1\n", ""), "shard_optimizer");
}

TEST(PlanEdges, FitNotesWhatAPersonTypedAndNothingElse) {
  const std::string words = "--model=gpt2 --ranks=8 --fit=30GB ";
  const auto notes = [&](const std::string& more) {
    std::string all = printed(words + more);
    return all.substr(0, all.find("planned "));
  };
  EXPECT_EQ(notes("--machine=h100 --strategy=shard_gradients"), "");
  EXPECT_EQ(notes("--machine=h100 --unsharded_blocks=3"),
            "note: --unsharded_blocks=3 does nothing here: --fit chooses it\n");
  EXPECT_EQ(notes("--unsharded_blocks=3"),
            "note: --fit=30GB does nothing here: there is no --machine\n");
  EXPECT_NE(printed(words + "--unsharded_blocks=3").find("--unsharded_blocks=3\n"),
            std::string::npos)
      << "without a machine the number is the typed one";
}

TEST(PlanEdges, NumbersStayInsideTheirTypes) {
  for (const char* words :
       {"--parameters=9e14 --ranks=1000 --gradient_accumulation_steps=1000000",
        "--machine=h100 --memory_reserve=1e300", "--machine=h100 --fit=8.0.5GB",
        "--n_layer=1000 --n_embd=1000000 --n_head=1 --ranks=2 --gradient_accumulation_steps=2000"})
    EXPECT_NE(usage_error([&] { json_of(words); }), "") << words;
  for (const char* words : {"--parameters=9e14", "--parameters=9e14 --ranks=1000"})
    EXPECT_EQ(printed(words).find('-', printed(words).find("traffic of a step")),
              printed(words).find("-gathers"))
        << "no number is negative";
  EXPECT_NE(printed("--parameters=1").find("1 parameter in 1 unit:"), std::string::npos);
}

}  // namespace
}  // namespace nanofsdp::cli::plan_edges_test
