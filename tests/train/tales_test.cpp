#include "train/tales.h"

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
#include "support/sha256.h"
#include "train/embedded.h"

namespace nanofsdp {
namespace {

constexpr std::size_t kMegabyte = 1'000'000;

const std::string& tales() {
  static const std::string text = expand_tales(kTalesGrammar, kMegabyte);
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
            "17ef65e3b4d76ba6e6abf1d6a0da76549172638464ed85e55449a705243c5627");
  EXPECT_EQ(tales().size(), 1000097u);
}

TEST(Tales, AreToldToTheEndAndNoFurther) {
  EXPECT_EQ(expand_tales("story = Ten bytes", 1), "Ten bytes\n");
  EXPECT_EQ(expand_tales("story = Ten bytes", 10), "Ten bytes\n");
  EXPECT_EQ(expand_tales("story = Ten bytes", 11), "Ten bytes\n\nTen bytes\n");
  EXPECT_EQ(expand_tales("story = Ten bytes", 0), "");
}

TEST(Tales, BeginAlikeHoweverManyAreAskedFor) {
  EXPECT_TRUE(tales().starts_with(expand_tales(kTalesGrammar, 10'000)));
  EXPECT_EQ(tales(), expand_tales(kTalesGrammar, kMegabyte));
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
  EXPECT_GT(count.size(), 2500u);
  for (const auto& [line, times] : count) EXPECT_LE(times, 150) << line;
}

TEST(Tales, HardlyTellAStoryTwice) {
  const std::vector<std::string> stories = split(tales(), "\n\n");
  EXPECT_GT(stories.size(), 3000u);
  const std::set<std::string> different(stories.begin(), stories.end());
  EXPECT_GT(different.size(), stories.size() * 99 / 100);
}

// The first line names the hero, and half of the others do: the model sees no further back.
TEST(Tales, KeepTheirHero) {
  const std::set<std::string> heroes = {"Bruno", "Dudley", "Fern",  "Greta",
                                        "Lulu",  "Morris", "Olive", "Sid"};
  for (const std::string& story : split(tales(), "\n\n")) {
    const std::vector<std::string> lines = split(story, "\n");
    EXPECT_GE(lines.size(), 4u) << story;
    EXPECT_LE(lines.size(), 8u) << story;
    const auto named = [&](const std::string& hero) {
      return std::ranges::count_if(
          lines, [&](const std::string& line) { return line.find(hero) != line.npos; });
    };
    const auto hero = std::ranges::find_if(
        heroes, [&](const std::string& name) { return lines[0].find(name) != lines[0].npos; });
    ASSERT_NE(hero, heroes.end()) << story;
    EXPECT_GE(named(*hero), 3) << story;
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

TEST(TalesGrammar, KeepsARowForTheStory) {
  const std::string text = expand_tales(
      "story = {hero} {he} {hero} {he}\n"
      "hero he := Olive ; she\n"
      "  | Sid ; he\n",
      2000);
  std::set<std::string> stories;
  for (const std::string& story : split(text, "\n")) stories.insert(story);
  EXPECT_EQ(stories, (std::set<std::string>{"", "Olive she Olive she", "Sid he Sid he"}));
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
      {"story = {a}\na b := 1 ; 2\n  | 3\n", "line 3", "1 of 2"},
      {"story = a |\n  | b", "line 1", "empty"},
      {"story =\n", "line 1", "empty"},
      {"story = {a}\na = {b}\nb = {a}", "line", "within itself"},
      {"# x\nstory a b", "line 2", "name = ..."},
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
}  // namespace nanofsdp
