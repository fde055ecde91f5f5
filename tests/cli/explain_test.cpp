#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <regex>
#include <sstream>
#include <string>

#include "support/process.h"
#include "support/temporary_directory.h"

// What --explain tells before training: which pieces of the parameters each rank keeps.

namespace nanofsdp {
namespace {

using namespace std::chrono_literals;

// A parameter that ranks share is told from its first element on, each piece where the last ended.
TEST(Explain, PiecesOfAParameterFollowOneAnother) {
  const std::regex piece(R"(([a-z0-9_.]+)\[([0-9]+):([0-9]+)\])");
  for (const char* ranks : {"--ranks=2", "--ranks=3", "--ranks=5"}) {
    const testing::TemporaryDirectory directory;
    testing::Process process(directory.file(""),
                             {"train", "--explain=True", ranks, "--backend=local", "--threads=1",
                              "--max_iters=1", "--eval_iters=1", "--sample=0", "--n_layer=2",
                              "--n_embd=6", "--n_head=2", "--block_size=8", "--batch_size=5"});
    EXPECT_EQ(process.wait(60s), 0) << process.err();
    std::istringstream text(process.out());
    std::map<std::string, std::int64_t> ends;  // of the pieces so far, in one unit
    int continued = 0;
    for (std::string line; std::getline(text, line);) {
      if (!line.starts_with("    rank ")) ends.clear();
      for (std::sregex_iterator i(line.begin(), line.end(), piece), none; i != none; ++i) {
        const std::int64_t begin = std::stoll((*i)[2]), end = std::stoll((*i)[3]);
        EXPECT_EQ(begin, ends[(*i)[1]]) << line;
        EXPECT_LT(begin, end) << line;
        ends[(*i)[1]] = end;
        continued += begin > 0 ? 1 : 0;
      }
    }
    EXPECT_GT(continued, 0) << process.out();
  }
}

}  // namespace
}  // namespace nanofsdp
