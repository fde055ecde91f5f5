#include "data/tales.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "data/embedded.h"
#include "support/sha256.h"

namespace nanofsdp::data {
namespace {

const std::string& tales() {
  static const std::string text = expand_tales(kTalesGrammar, kTalesBytes);
  return text;
}

std::vector<std::string> split(const std::string& text, std::string_view separator) {
  std::vector<std::string> pieces;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(separator, begin), text.size());
    pieces.push_back(text.substr(begin, end - begin));
    begin = end + separator.size();
  }
  return pieces;
}

// What the expansion of a wrong grammar says; empty if nothing.
std::string complaint(std::string_view grammar) {
  try {
    expand_tales(grammar, 1);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

TEST(Tales, AreTheSameOnEveryMachine) {
  EXPECT_EQ(testing::sha256(std::span<const char>(tales())),
            "4951f991a61cba51bc89bef2a169e23d0cce2f81d46d526c7aa5f17820cdf274");
  EXPECT_EQ(tales().size(), 1000238u);
}

TEST(Tales, AreToldToTheEndAndNoFurther) {
  EXPECT_EQ(expand_tales("story = Ten bytes", 1), "Ten bytes\n");
  EXPECT_EQ(expand_tales("story = Ten bytes", 10), "Ten bytes\n");
  EXPECT_EQ(expand_tales("story = Ten bytes", 11), "Ten bytes\n\nTen bytes\n");
  EXPECT_EQ(expand_tales("story = Ten bytes", 0), "");
}

TEST(Tales, BeginAlikeHoweverManyAreAskedFor) {
  EXPECT_TRUE(tales().starts_with(expand_tales(kTalesGrammar, 10'000)));
  EXPECT_EQ(tales(), expand_tales(kTalesGrammar, kTalesBytes));
}

TEST(Tales, UseFewCharacters) {
  const std::set<char> used(tales().begin(), tales().end());
  EXPECT_LE(used.size(), 60u);
  for (const char c : used)
    EXPECT_TRUE(std::isalpha(static_cast<unsigned char>(c)) ||
                std::string_view("\n .,!?'\"-:").find(c) != std::string_view::npos)
        << c;
}

// A line fits the model's context, so that it sees where its sentence began.
TEST(Tales, HaveShortCleanLines) {
  for (const std::string& line : split(tales(), "\n")) {
    EXPECT_LE(line.size(), 64u) << line;
    if (line.empty()) continue;
    EXPECT_EQ(line.find("  "), line.npos) << line;
    EXPECT_NE(line.front(), ' ') << line;
    EXPECT_FALSE(std::islower(static_cast<unsigned char>(line.front()))) << line;
    EXPECT_NE(std::string_view(".!?\"").find(line.back()), std::string_view::npos) << line;
    EXPECT_EQ(std::ranges::count(line, '"') % 2, 0) << line;
  }
}

TEST(Tales, RepeatNoSentenceTooOften) {
  std::map<std::string, int> count;
  for (const std::string& line : split(tales(), "\n"))
    if (!line.empty()) ++count[line];
  EXPECT_GT(count.size(), 700u);
  for (const auto& [line, times] : count) EXPECT_LE(times, 350) << line;
}

TEST(Tales, HardlyTellAStoryTwice) {
  const std::vector<std::string> stories = split(tales(), "\n\n");
  EXPECT_GT(stories.size(), 3000u);
  const std::set<std::string> different(stories.begin(), stories.end());
  EXPECT_GT(different.size(), stories.size() * 98 / 100);
}

// A story has one hero, one friend and no stranger.
TEST(Tales, KeepTheirHero) {
  const std::map<std::string, std::string> friends = {
      {"Olive", "Hugo"},    {"Fern", "Percy"},  {"Sid", "Rosa"}, {"Greta", "Morris"},
      {"Dudley", "knight"}, {"Bruno", "Mabel"}, {"Wanda", "Kit"}};
  for (const std::string& story : split(tales(), "\n\n")) {
    const std::vector<std::string> lines = split(story, "\n");
    EXPECT_GE(lines.size(), 4u) << story;
    EXPECT_LE(lines.size(), 8u) << story;
    int heroes = 0;
    for (const auto& [hero, companion] : friends) {
      const bool present = story.find(hero) != story.npos;
      heroes += present;
      if (present)
        EXPECT_NE(lines[0].find(hero), std::string::npos) << story;
      else
        EXPECT_EQ(story.find(companion), story.npos) << story;
    }
    EXPECT_EQ(heroes, 1) << story;
  }
}

// The notation, one law at a time.

TEST(TalesGrammar, DealsAlternativesLikeCards) {
  for (const std::string& story :
       split(expand_tales("story = {x}{x}{x}\nx = a | b | c", 400), "\n\n")) {
    const std::set<char> dealt{story[0], story[1], story[2]};
    EXPECT_EQ(dealt, (std::set<char>{'a', 'b', 'c'})) << story;
  }
}

TEST(TalesGrammar, SetsCapitalsAndArticles) {
  EXPECT_EQ(expand_tales("story = {X} {a x} {A x} {a X} {y} {a y}\nx = owl\ny = bat", 1),
            "Owl an owl An owl an Owl bat a bat\n");
}

TEST(TalesGrammar, BreaksLinesAndTidiesSpace) {
  EXPECT_EQ(expand_tales("# nothing\n\nstory =\n  one  /\n\t two\r\n   three   \n", 1),
            "one\ntwo three\n");
}

TEST(TalesGrammar, SaysWhatIsWrongAndWhere) {
  const struct {
    std::string_view grammar, line, what;
  } cases[] = {
      {"story = a\n  | {b}", "line 2", "'b'"},
      {"story = {a\n", "line 1", "braces"},
      {"story = a}\n", "line 1", "braces"},
      {"story = {a {b}}\n", "line 1", "braces"},
      {"story = {}\n", "line 1", "''"},
      {"story = a\n\nstory = b", "line 3", "'story' again"},
      {"story = a |\n  | b", "line 1", "empty"},
      {"story =\n", "line 1", "empty"},
      {"story = {a}\na = {b}\nb = {a}", "line", "within itself"},
      {"# x\nstory a b", "line 2", "name = ..."},
      {"story = a\n= b", "line 2", "name = ..."},
      {"story = a\nb c = d", "line 2", "'b c ='"},
      {"  | a", "line 1", "continues no rule"},
      {"tale = a\n", "line 1", "'story'"},
      {"", "line 0", "'story'"},
  };
  for (const auto& c : cases) {
    const std::string said = complaint(c.grammar);
    EXPECT_NE(said.find(c.line), said.npos) << c.grammar << "\n-> " << said;
    EXPECT_NE(said.find(c.what), said.npos) << c.grammar << "\n-> " << said;
  }
}

}  // namespace
}  // namespace nanofsdp::data
