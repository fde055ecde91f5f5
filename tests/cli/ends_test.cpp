#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>
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
  for (const char* ranks :
       {"--ranks=1", "--ranks=2", "--ranks=2 --backend=local", "--ranks=2 --transport=gloo"}) {
    const TemporaryDirectory d;
    std::string line = "cd '" + d.file("") + "' && " + NANOFSDP_BINARY + " train " + ranks;
    for (const std::string& word : kSmall) line += " " + word;
    line += " --max_iters=1000000 2>stderr | head -n 1 >stdout";
    EXPECT_EQ(std::system(line.c_str()), 0);
    EXPECT_NE(read_file(d.file("stdout")), "");
    EXPECT_EQ(read_file(d.file("stderr")), "") << ranks;
  }
}

// A pager reads nothing until a key is pressed, and Ctrl-S stops all that a terminal prints. Here
// The reader of the metrics ends, and the run says what it cannot write. Steps would be lost.
TEST(Ends, OfAReaderOfTheMetricsAreErrors) {
  for (const char* ranks : {"--ranks=1", "--ranks=2", "--ranks=2 --transport=gloo"}) {
    const TemporaryDirectory d;
    std::string line = "cd '" + d.file("") + "' && mkfifo m && { head -c 300 m >read & } && " +
                       NANOFSDP_BINARY + " train " + ranks + " --metrics=m --max_iters=1000000";
    for (const std::string& word : kSmall) line += " " + word;
    const int status = std::system((line + " >text 2>stderr").c_str());
    EXPECT_EQ(WEXITSTATUS(status), 2) << ranks;
    EXPECT_EQ(read_file(d.file("stderr")), "nanofsdp: cannot write --metrics: got Broken pipe\n")
        << ranks;
  }
}

TEST(Ends, OfADiskSayWhyATraceIsNotWritten) {
  const TemporaryDirectory d;
  const std::string error =
      output_of(d, command({"train"}, {"--max_iters=1", "--sample=0", "--trace=/dev/full"}), 2);
  EXPECT_NE(error.find("got '/dev/full' (No space left on device)"), error.npos) << error;
}

// stdout and stderr are one pipe, and `head` has filled it. A third run writes its metrics to a
// pipe. Its reader opens the pipe late, and reads even later. Each pause exceeds the timeout.
TEST(Pauses, OfAReaderAreNoErrorOfTheOtherRanks) {
  const TemporaryDirectory d;
  std::string train = std::string(NANOFSDP_BINARY) + " train --ranks=2 --timeout=2";
  for (const std::string& word : kSmall) train += " " + word;
  train += " --eval_iters=1 --max_iters=400 --sample=9";
  const std::string paused = "; echo $? >code; } | (sleep 7; tr -d '\\0' >text)) & ";
  const std::string full = "; { head -c 65536 /dev/zero; ";
  const auto in = [&](const char* name) {
    std::filesystem::create_directory(d.file(name));
    return "(cd '" + d.file(name) + "'";
  };
  const std::string line = in("gloo") + full + train + " 2>&1" + paused +  //
                           in("local") + full + train + " --backend=local 2>&1" + paused +
                           in("metrics") + "; mkfifo m; { " + train +
                           " --metrics=m >text 2>&1; echo $? >code; : >m; } & "
                           "sleep 4; exec 3<m; sleep 4; cat <&3 >read; wait) & wait";
  EXPECT_EQ(std::system(line.c_str()), 0);
  for (const char* name : {"gloo", "local", "metrics"}) {
    const std::string text = read_file(d.file(name + std::string("/text")));
    EXPECT_EQ(read_file(d.file(name + std::string("/code"))), "0\n") << name << text;
    EXPECT_NE(text.find("--- a sample ---"), std::string::npos) << name;
  }
  EXPECT_NE(read_file(d.file("metrics/read")).find("{\"iter\":399,"), std::string::npos);
}

// Some programs make their pipes non-blocking, and a program that they start inherits such a
// stdout.
TEST(Pauses, OfTheReaderOfANonBlockingPipeAreWaitedFor) {
  const TemporaryDirectory d;
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const auto [out, in] = ends;
  fcntl(in, F_SETFL, O_NONBLOCK);
  while (write(in, d.file("").data(), 1) == 1) continue;
  std::thread reader([out = out] {
    std::this_thread::sleep_for(1s);
    for (char some[4096]; read(out, some, sizeof some) > 0;) continue;
  });
  const std::string line =
      fmt::format("{} train --help=all 2>'{}' >&{}", NANOFSDP_BINARY, d.file("stderr"), in);
  EXPECT_EQ(std::system(line.c_str()), 0) << read_file(d.file("stderr"));
  close(in);
  reader.join();
  close(out);
}

TEST(Ends, OfCompareByASignalAreSaid) {
  const TemporaryDirectory d;
  Process process(d.file(""), command({"compare"}, {"--ranks=2", "--max_iters=1000000"}));
  process.wait_for_output("under each stage");
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
