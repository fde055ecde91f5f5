#include <gtest/gtest.h>

#include <regex>
#include <sstream>
#include <string>

#include "house/source_tree.h"
#include "lessons/arithmetic.h"
#include "lessons/readme.h"

// Tests the file that has the whole idea: its output, and the quotes of it in its page and in the
// README.

namespace nanofsdp::lessons {
namespace {

const std::filesystem::path kFolder = kSource / "lessons" / "one_file";

Ran fsdp(const std::string& ranks) {
  return run(std::string(NANOFSDP_BINARY_DIR) + "/lessons/one_file " + ranks);
}

// The lines that begin with `begin`, joined.
std::string lines_with(const std::string& text, const std::string& begin) {
  std::string found;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with(begin)) found += line + "\n";
  return found;
}

// The pages quote the line of each run from `output`.
void expect_quoted(const std::string& output) {
  int quotes = 0;
  for (const auto& path : {kFolder / "README.md", kSource / "README.md"}) {
    Readme page(path);
    for (const Quote& quote : page.quotes()) {
      const std::size_t hash = quote.source.find('#');
      std::string actual =
          quote.kind == "output"
              ? output
              : snippet(testing::read_file((kSource / quote.source.substr(0, hash)).string()),
                        quote.source.substr(hash + 1));
      if (actual.ends_with('\n')) actual.pop_back();
      if (updating() && actual != quote.text) page.rewrite(quote, actual);
      EXPECT_EQ(updating() ? actual : quote.text, actual) << quote.source;
      ++quotes;
    }
    for (const std::string& equation : page.equations()) EXPECT_EQ(complaint(equation), "");
  }
  EXPECT_EQ(quotes, 2);
}

// Losses are equal to the last digit. Each parameter takes 16 bytes, in equal shards. Formulas give
// the other numbers.
TEST(OneFile, TrainsAlikeWithoutAndWithFsdpAndSendsWhatAFormulaSays) {
  const std::string plain = fsdp("plain").out;
  EXPECT_EQ(std::count(plain.begin(), plain.end(), '\n'), 10);
  EXPECT_TRUE(std::regex_search(plain, std::regex("step 100  loss 0\\.00[0-9]+\n$"))) << plain;
  const std::int64_t block = 2 * 64 * 128, root = 128 * 4 + 64 * 128;
  std::string quoted;
  for (const std::int64_t W : {1, 2, 3, 4, 7}) {
    const Ran ran = fsdp(std::to_string(W));
    ASSERT_EQ(ran.code, 0) << "a run that fails is not quoted";
    EXPECT_EQ(lines_with(ran.out, "step"), plain) << W;
    const std::int64_t b = (block + W - 1) / W, r = (root + W - 1) / W;
    const std::string line = lines_with(ran.out, "a rank keeps");
    EXPECT_EQ(line, "a rank keeps " + std::to_string(16 * (3 * b + r)) + " B, borrows at most " +
                        std::to_string(8 * W * (b + r)) + ", sends " +
                        std::to_string(4 * (W - 1) * (9 * b + 2 * r)) +
                        " in 11 collectives a step\n");
    if (W == 1 || W == 2 || W == 4) quoted += "fsdp " + std::to_string(W) + ": " + line;
  }
  expect_quoted(quoted);
}

TEST(OneFile, RefusesWhatIsNoNumberOfRanks) {
  for (const char* ranks : {"", "0", "17", "-1", "many", "2 2"}) {
    EXPECT_EQ(fsdp(ranks).code, 2) << ranks;
    EXPECT_EQ(fsdp(ranks).out, "");
  }
}

TEST(OneFile, IsAtMost250LinesOfStandardCppAndPosix) {
  EXPECT_LE(house::lines_of_code(kFolder / "fsdp.cpp"), 250);
  const std::string text = testing::read_file((kFolder / "fsdp.cpp").string());
  EXPECT_EQ(text.find("#include \""), text.npos);
}

}  // namespace
}  // namespace nanofsdp::lessons
