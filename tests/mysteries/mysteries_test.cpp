#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <set>
#include <string>

#include "mystery.h"

// A mystery shows its symptom by running the library, accepts one answer, and gives hints for other
// answers.

namespace lesson::mystery {
namespace {

// The numbers of a line of symptoms that begins with `row`.
std::vector<double> numbers(const std::string& text, const std::string& row) {
  std::vector<double> all;
  const std::size_t at = text.find("\n" + row);
  if (at == text.npos) return all;
  const std::size_t begin = at + 1 + row.size();
  const std::string line = text.substr(begin, text.find('\n', begin) - begin);
  static const std::regex number(R"((\d+(?:\.\d+)?)(?: of \d+)?)");
  for (std::sregex_iterator m(line.begin(), line.end(), number), end; m != end; ++m) {
    all.push_back(std::stod((*m)[1]));
  }
  return all;
}

std::string symptoms(std::size_t number) { return all()[number - 1].symptoms(); }

// The page has a row for each mystery.
TEST(Mysteries, AreFifteen) {
  EXPECT_EQ(all().size(), 15u);
  std::ifstream file(NANOFSDP_SOURCE_DIR "/lessons/mysteries/README.md");
  const std::string page(std::istreambuf_iterator<char>(file), {});
  EXPECT_NE(page.find("Fifteen runs"), page.npos);
  EXPECT_NE(page.find("\n| 15 |"), page.npos);
  EXPECT_EQ(page.find("\n| 16 |"), page.npos);
}

TEST(Mysteries, AcceptOneAnswerAndHelpWithEveryOther) {
  for (const Mystery& mystery : all()) {
    std::set<std::string> texts;
    for (int cause = 1; cause <= static_cast<int>(mystery.causes.size()); ++cause) {
      const Reply said =
          reply(mystery, std::to_string(cause) + " " + mystery.rank + " " + mystery.unit);
      EXPECT_EQ(said.right, cause == mystery.cause) << said.text;
      EXPECT_TRUE(texts.insert(said.text).second) << "one hint for two causes: " << said.text;
      if (!said.right) {
        EXPECT_NE(said.text.find(mystery.causes[cause - 1].hint), said.text.npos);
      } else {
        EXPECT_TRUE(std::regex_search(mystery.explanation, std::regex("\\d{2,}")))
            << "names nobody who met it";
      }
    }
    const std::string cause = std::to_string(mystery.cause);
    EXPECT_FALSE(reply(mystery, cause + " 7 " + mystery.unit).right);
    EXPECT_FALSE(reply(mystery, cause + " " + mystery.rank + " h.7").right);
    for (const char* nonsense : {"", "1", "0 all all", "9 all all", "all 1 2"}) {
      EXPECT_FALSE(reply(mystery, nonsense).right) << nonsense;
    }
  }
}

// The numbers of the story are in the output of the run.
TEST(Mysteries, MemoryDoesNotFallFromOneRankToTwo) {
  const std::vector<double> sum = numbers(symptoms(1), "sum");
  ASSERT_EQ(sum.size(), 3u);
  EXPECT_EQ(sum[0], sum[1]);
  EXPECT_GT(sum[2], sum[0] / 2);
}

TEST(Mysteries, MoreIsReservedThanInUseAndDoesNotGrow) {
  const std::string text = symptoms(2);
  const auto reserved = numbers(text, "unsharded parameters reserved");
  const auto in_use = numbers(text, "unsharded parameters in use");
  ASSERT_EQ(reserved.size(), 3u);
  ASSERT_EQ(in_use.size(), 3u);
  EXPECT_GT(reserved[0], 3 * in_use[0]);
  EXPECT_EQ(reserved[0], reserved[2]);
}

TEST(Mysteries, FourUnitsAreGatheredBeforeTheForwardOfOne) {
  EXPECT_NE(symptoms(3).find("U.h.2 U.h.3 U.h.4 U.h.5"), std::string::npos) << symptoms(3);
}

TEST(Mysteries, EachBlockAddsHalfOfItself) {
  const auto unsharded = numbers(symptoms(4), "unsharded parameters");
  ASSERT_EQ(unsharded.size(), 3u);
  EXPECT_EQ(2 * (unsharded[1] - unsharded[0]), unsharded[2] - unsharded[1]);
  EXPECT_GT(unsharded[1], unsharded[0]);
}

TEST(Mysteries, OnlyUnshardedGradientsGrow) {
  const std::string text = symptoms(5);
  const auto gradients = numbers(text, "unsharded gradients");
  ASSERT_EQ(gradients.size(), 2u);
  EXPECT_GT(gradients[1], 3 * gradients[0]);
  for (const char* row : {"unsharded parameters", "optimizer", "gradient shards"}) {
    EXPECT_EQ(numbers(text, row)[0], numbers(text, row)[1]) << row;
  }
}

TEST(Mysteries, OneFrozenUnitHasGradients) {
  const std::string text = symptoms(6);
  for (const char* unit : {"h.0", "h.1", "h.3"}) EXPECT_EQ(numbers(text, unit)[1], 0) << text;
  EXPECT_GT(numbers(text, "h.2")[1], 0);
  EXPECT_GT(numbers(text, "root")[1], 0);
}

TEST(Mysteries, NormsOfTheSameRowsDiffer) {
  const auto norms = numbers(symptoms(7), "gradient norm of these rows: one process");
  ASSERT_EQ(norms.size(), 3u);  // norm, "3" ranks, norm
  EXPECT_GT(std::abs(norms[2] - norms[0]), 0.02 * norms[0]);
}

TEST(Mysteries, RanksClipDifferently) {
  const auto by = numbers(symptoms(8), "it multiplies gradients by");
  EXPECT_EQ(std::set<double>(by.begin(), by.end()).size(), 4u);
}

TEST(Mysteries, OneUnitStandsStill) {
  const std::string text = symptoms(9);
  for (const int rank : {0, 1}) {
    EXPECT_LT(10 * numbers(text, "h.1")[rank], numbers(text, "h.0")[rank]) << text;
  }
}

TEST(Mysteries, OneRankOfTheRootStandsStill) {
  const std::string text = symptoms(10);
  const auto root = numbers(text, "root");
  ASSERT_EQ(root.size(), 4u);
  EXPECT_GT(root[0], 2 * root[3]) << text;
  const auto block = numbers(text, "h.1");
  EXPECT_GT(block[3], block[0] / 2) << text;
}

TEST(Mysteries, OneBlockOfOneRankTakesAGatherLonger) {
  const std::string text = symptoms(11);
  EXPECT_GE(numbers(text, "h.1")[1], numbers(text, "h.1")[0] + 20) << text;
  EXPECT_LT(numbers(text, "h.2")[1], numbers(text, "h.1")[1]) << text;
}

TEST(Mysteries, TheErrorNamesRankAndUnits) {
  const std::string text = symptoms(12);
  for (const char* name : {"rank 1", "h.2", "h.3"}) EXPECT_NE(text.find(name), text.npos) << text;
}

// Four micro-batches make four times the reduce-scatters of one, and each row costs the same bytes.
TEST(Mysteries, AccumulationSavesNothing) {
  const std::string text = symptoms(13);
  EXPECT_EQ(numbers(text, "reduce-scatters"), (std::vector<double>{5, 20})) << text;
  const auto of_a_row = numbers(text, "the same, for each row");
  ASSERT_EQ(of_a_row.size(), 2u) << text;
  EXPECT_GT(of_a_row[0], 0);
  EXPECT_EQ(of_a_row[0], of_a_row[1]);
  EXPECT_NE(numbers(text, "rows of a rank")[0], numbers(text, "rows of a rank")[1]) << text;
}

// The sender holds the whole model, the others hold a unit; a step needs less than the sender has.
TEST(Mysteries, OnlyTheSenderHoldsTheWholeFile) {
  const std::string text = symptoms(14);
  const auto sent = numbers(text, "communication"), shards = numbers(text, "parameter shards"),
             sum = numbers(text, "all classes"),
             step = numbers(text, "a step, without activations");
  for (const auto& row : {sent, shards, sum, step}) ASSERT_EQ(row.size(), 3u) << text;
  EXPECT_EQ(sent[0], 8 * shards[0]) << text;
  EXPECT_GT(sum[0], step[0]) << text;
  for (const int rank : {1, 2}) {
    EXPECT_LT(3 * sent[rank], sent[0]) << text;
    EXPECT_LT(sum[rank], step[rank]) << text;
  }
  EXPECT_EQ(numbers(text, "optimizer"), (std::vector<double>{0, 0, 0})) << text;
}

// The steps are equally long and learn the same, and the printed number falls with the replicas.
TEST(Mysteries, PrintedTokensAreThoseOfReplicas) {
  const std::string text = symptoms(15);
  for (const char* row : {"rows of a rank", "tokens of a row", "loss of rank 0 in step 3"}) {
    const auto values = numbers(text, row);
    EXPECT_EQ(std::set<double>(values.begin(), values.end()).size(), 1u) << text;
  }
  const auto printed = numbers(text, "tokens a second, as printed"),
             ms = numbers(text, "ms of a step");
  ASSERT_EQ(printed.size(), 3u) << text;
  for (const int i : {0, 1}) EXPECT_NEAR(printed[i] * ms[i] / (printed[i + 1] * ms[i + 1]), 2, 0.1);
}

}  // namespace
}  // namespace lesson::mystery
