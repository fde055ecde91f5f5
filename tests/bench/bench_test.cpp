#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "support/process.h"
#include "support/temporary_directory.h"

namespace nanofsdp::bench_test {
namespace {

using namespace std::chrono_literals;
using testing::Process;
using testing::TemporaryDirectory;

std::string bench(std::vector<std::string> options) {
  const TemporaryDirectory directory;
  options.insert(options.begin(), {"bench", "--rounds=1"});
  Process process(directory.file(""), options);
  EXPECT_EQ(process.wait(60s), 0) << process.err();
  return process.out();
}

int count(const std::string& text, const std::string& words) {
  int found = 0;
  for (std::size_t at = 0; (at = text.find(words, at)) != text.npos; ++at) ++found;
  return found;
}

TEST(Bench, CountsWhatEachRankSends) {
  const std::string out = bench({"--only=collectives", "--ranks=4", "--rows= 4 KB"});
  EXPECT_EQ(count(out, "4 ranks on this host, congestion control "), 1) << out;
  EXPECT_EQ(count(out, "all_gather 4 KB, 3072 bytes sent"), 1) << out;
  EXPECT_EQ(count(out, "reduce_scatter 4 KB, 3072 bytes sent"), 1) << out;
  EXPECT_EQ(count(out, "all_reduce 4 KB, 6144 bytes sent"), 1) << out;
  EXPECT_EQ(count(out, " % of memcpy 4 KB\n"), 1) << out;
  EXPECT_EQ(count(out, " % of sum 4 KB\n"), 1) << out;
  EXPECT_EQ(count(out, " ms "), 5) << out;
}

TEST(Bench, RefusesAChoiceOfNoRowAndAFileOfSomethingElse) {
  const TemporaryDirectory directory;
  const std::string none =
      testing::output_of(directory, {"bench", "--only=collectives", "--rows=zzzz"}, 2);
  EXPECT_EQ(count(none, "--rows: expected a part of \"title, name\" of a row, got 'zzzz'"), 1)
      << none;
  directory.write("mine.txt", "my notes\n");
  const std::string kept = testing::output_of(directory, {"bench", "--machine=mine.txt"}, 2);
  EXPECT_EQ(count(kept, "a file of something else, which would be lost"), 1) << kept;
  EXPECT_EQ(testing::read_file(directory.file("mine.txt")), "my notes\n");
  const std::string nowhere = testing::output_of(directory, {"bench", "--machine=no/m.txt"}, 2);
  EXPECT_EQ(count(nowhere, "no such directory"), 1) << nowhere;
}

// A machine file is measured whole.
TEST(Bench, RefusesAChoiceBesideAMachineFile) {
  const TemporaryDirectory directory;
  for (const std::string option : {"only=steps", "rows=gelu", "threads=1", "ranks=3"}) {
    const std::string refused =
        testing::output_of(directory, {"bench", "--machine=m.txt", "--" + option}, 2);
    const std::size_t equals = option.find('=');
    EXPECT_EQ(
        count(refused, "--" + option.substr(0, equals) +
                           ": expected nothing beside --machine, got " + option.substr(equals + 1)),
        1)
        << refused;
    EXPECT_FALSE(std::filesystem::exists(directory.file("m.txt")));
  }
  const std::string many = testing::output_of(directory, {"bench", "--ranks=1025"}, 2);
  EXPECT_EQ(count(many, "--ranks: expected at least 2 and at most 1024, got '1025'"), 1) << many;
}

// Ranks that do not communicate hold the same memory, except the scratch in which Gloo sums.
TEST(Bench, LongMeasuresStepsWithAndWithoutCommunication) {
  const std::string out = bench({"--only=steps", "--rows=4 x 128, 2 ranks"});
  EXPECT_EQ(count(out, "2 ranks, apart"), 2) << out;
  EXPECT_EQ(count(out, "2 ranks, no_shard"), 1) << out;
  EXPECT_EQ(count(out, "2 ranks, full_shard"), 2) << out;
  EXPECT_EQ(count(out, ", per parameter"), 2) << out;
  EXPECT_EQ(count(out, " MB a rank"), 5) << out;
}

TEST(Bench, LongComparesOperatorsWithWhatTheMachineCanDo) {
  const std::string out = bench({"--only=operators", "--threads=2", "--rows=cache"});
  EXPECT_EQ(count(out, "elementwise, 1 thread, in cache\n"), 1) << out;
  EXPECT_EQ(count(out, "elementwise, 2 threads, in cache\n"), 1) << out;
  EXPECT_EQ(count(out, " % of read\n"), 2 * 2) << out;
  EXPECT_EQ(count(out, " % of update\n"), 2 * 5) << out;
  EXPECT_EQ(count(out, " % of triad\n"), 2 * 7) << out;
  EXPECT_EQ(count(out, " % of copy\n"), 2 * 3) << out;
}

}  // namespace
}  // namespace nanofsdp::bench_test
