#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "support/process.h"
#include "support/temporary_directory.h"

// Tests `nanofsdp compare`: four trainings, and what it says of them.

namespace nanofsdp::compare_test {
namespace {

using namespace std::chrono_literals;
using testing::Process;
using testing::TemporaryDirectory;

// The words of the row of each stage.
std::vector<std::vector<std::string>> stages(const std::string& out) {
  std::vector<std::vector<std::string>> rows;
  std::istringstream text(out);
  for (std::string line; std::getline(text, line);) {
    if (!line.starts_with("zero ")) continue;
    std::istringstream row(line);
    rows.emplace_back(std::istream_iterator<std::string>(row),
                      std::istream_iterator<std::string>());
  }
  return rows;
}

TEST(Compare, ShowsFourStagesWithTheSameBits) {
  const TemporaryDirectory home;
  Process process(home.file(""), {"compare", "--max_iters=2", "--threads=1", "--transport=shared"});
  EXPECT_EQ(process.wait(60s), 0) << process.err();
  const std::string out = process.out();
  const auto rows = stages(out),
             told = stages(testing::read_file(NANOFSDP_SOURCE_DIR "/README.md"));
  ASSERT_EQ(told.size(), rows.size());
  std::vector<std::string> bytes;
  for (const auto& row : rows) {
    bytes.push_back(row[3]);
    EXPECT_EQ(row.back(), rows[0].back()) << out;
  }
  for (std::size_t i = 0; i < rows.size(); ++i) {  // the bytes are those of the README
    EXPECT_TRUE(std::equal(rows[i].begin(), rows[i].begin() + 8, told[i].begin())) << out;
  }
  EXPECT_EQ(bytes, (std::vector<std::string>{"16.00", "10.00", "7.00", "4.00"})) << out;
  EXPECT_NE(out.find("The same bits in every row."), std::string::npos);
}

// The stages that keep parameters unsharded keep them twice where they compute in a lower
// precision.
TEST(Compare, CountsTheCopyInALowerPrecision) {
  const TemporaryDirectory home;
  Process process(home.file(""), {"compare", "--max_iters=2", "--threads=1", "--transport=shared",
                                  "--param_dtype=bfloat16"});
  EXPECT_EQ(process.wait(60s), 0) << process.err();
  std::vector<std::string> bytes;
  for (const auto& row : stages(process.out())) bytes.push_back(row[3]);
  EXPECT_EQ(bytes, (std::vector<std::string>{"20.00", "11.00", "8.00", "4.00"})) << process.out();
}

// Stages that reduce after every micro-batch add in another order than stages that reduce at the
// end. If a rank has several micro-batches, the rows differ.
TEST(Compare, SaysWhetherTheRowsAreTheSame) {
  for (const char* micro_batches : {"2", "4", "8"}) {
    const TemporaryDirectory directory;
    Process process(directory.file(""),
                    {"compare", "--ranks=2", "--max_iters=2", "--n_layer=1", "--n_head=1",
                     "--n_embd=8", "--block_size=8", "--batch_size=2", "--threads=1",
                     std::string("--gradient_accumulation_steps=") + micro_batches});
    const int exit_code = process.wait(60s);
    const auto rows = stages(process.out());
    ASSERT_EQ(rows.size(), 4u) << process.err();
    const bool same =
        std::ranges::all_of(rows, [&](const auto& row) { return row.back() == rows[0].back(); });
    EXPECT_EQ(same, micro_batches == std::string("2")) << process.out();
    EXPECT_EQ(exit_code, same ? 0 : 1);
    EXPECT_TRUE(process.out().ends_with(same ? "in every row.\n" : "bits.md says why they may.\n"))
        << process.out();
  }
}

// Only ZeRO-3 has groups that keep a unit until backward.
TEST(Compare, GivesEachStageTheOptionsThatItHas) {
  const TemporaryDirectory directory;
  const std::string out = testing::output_of(
      directory, {"compare", "--max_iters=2", "--n_layer=1", "--n_head=1", "--n_embd=8",
                  "--batch_size=4", "--threads=1", "--reshard_after_forward=2"});
  EXPECT_EQ(stages(out).size(), 4u) << out;
  EXPECT_NE(out.find("The same bits in every row."), std::string::npos) << out;
}

TEST(Compare, EndsWhereNumbersAreNone) {
  const TemporaryDirectory directory;
  std::vector<std::string> words = {"compare", "--ranks=2", "--n_layer=1", "--n_head=1",
                                    "--n_embd=8"};
  words.insert(words.end(), {"--learning_rate=1e30", "--warmup_iters=0", "--max_iters=8"});
  EXPECT_EQ(testing::output_of(directory, words, 1).find("The same bits"), std::string::npos);
  const std::string out = testing::output_of(directory, {"compare", "--max_iters=1"}, 2);
  EXPECT_NE(out.find("--max_iters: expected 2 or more, got 1"), std::string::npos) << out;
}

TEST(Compare, RefusesWhatItSetsItself) {
  const TemporaryDirectory directory;
  const std::string help = testing::output_of(directory, {"compare", "--help=all"});
  EXPECT_TRUE(help.starts_with("nanofsdp compare")) << help;
  EXPECT_NE(help.find("--ranks=4 "), help.npos) << help;
  EXPECT_NE(help.find("--max_iters=100 "), help.npos) << help;
  for (const std::string option :
       {"zero=2", "strategy=no_shard", "backend=local", "shard_size=2", "eval_only=True",
        "eval_interval=9", "eval_iters=9", "log_interval=9", "sample=9", "out_dir=o",
        "always_save_checkpoint=True", "init_from=gpt2", "pretrained=p", "metrics=m", "reference=r",
        "trace=t", "products=p", "explain=True"}) {
    const std::string name = "--" + option.substr(0, option.find('='));
    EXPECT_EQ(help.find(name + "="), help.npos) << help;
    Process process(directory.file(""), {"compare", "--" + option});
    EXPECT_EQ(process.wait(60s), 2);
    EXPECT_NE(process.err().find(name + ": expected an option of this command"), std::string::npos)
        << process.err();
    EXPECT_EQ(process.out(), "");
  }
}

}  // namespace
}  // namespace nanofsdp::compare_test
