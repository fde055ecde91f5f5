#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>
#include <string>
#include <vector>

#include "support/process.h"
#include "support/temporary_directory.h"

// Something from outside ends a command, or a text is unusual. The user reads one line, or none.

namespace nanofsdp::cli_ends_test {
namespace {

using namespace std::chrono_literals;
using testing::output_of;
using testing::Process;
using testing::read_file;
using testing::TemporaryDirectory;
using Words = std::vector<std::string>;

const Words kSmall = {"--n_layer=1",    "--n_embd=16",    "--n_head=2",
                      "--block_size=8", "--batch_size=4", "--threads=1"};

Words command(Words words, const Words& more) {
  words.insert(words.end(), kSmall.begin(), kSmall.end());
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

// `head` ends as soon as it has a line, while the training goes on writing.
TEST(Ends, OfAReaderOfTheOutputAreNoError) {
  for (const char* ranks : {"--ranks=1", "--ranks=2", "--ranks=2 --backend=local"}) {
    const TemporaryDirectory d;
    std::string line = "cd '" + d.file("") + "' && " + NANOFSDP_BINARY + " train " + ranks;
    for (const std::string& word : kSmall) line += " " + word;
    line += " --max_iters=1000000 2>stderr | head -n 1 >stdout";
    EXPECT_EQ(std::system(line.c_str()), 0);
    EXPECT_NE(read_file(d.file("stdout")), "");
    EXPECT_EQ(read_file(d.file("stderr")), "") << ranks;
  }
}

TEST(Ends, OfCompareByASignalAreSaid) {
  const TemporaryDirectory d;
  Process process(d.file(""), command({"compare"}, {"--ranks=2", "--max_iters=1000000"}));
  process.wait_for_output("of nanoGPT's recipe");
  while (process.children().size() < 2) std::this_thread::sleep_for(1ms);
  kill(process.pid(), SIGTERM);
  EXPECT_EQ(process.wait(20s), 1);
  EXPECT_EQ(process.err(), "nanofsdp: ended by signal 15 (SIGTERM)\n");
}

// A model whose characters have no line end begins with its first character, as in training.
TEST(Sample, OfATextWithoutLineEndsHasAnOpening) {
  const TemporaryDirectory d;
  std::string text;
  for (int i = 0; i < 400; ++i) text += static_cast<char>('a' + i * i % 7);
  d.write("t", text);
  output_of(d, command({"train"}, {"--text=t", "--max_iters=1", "--out_dir=o", "--sample=0"}));
  const Words sample = {"sample", "--out_dir=o", "--max_new_tokens=9"};
  const std::string out = output_of(d, sample);
  EXPECT_EQ(out[0], 'a') << out;
  Words given = sample;
  given.push_back("--start=a");
  EXPECT_EQ(output_of(d, given), out);
  given.back() = "--start=\n\n";
  EXPECT_NE(output_of(d, given, 2).find("U+000A"), std::string::npos);
}

}  // namespace
}  // namespace nanofsdp::cli_ends_test
