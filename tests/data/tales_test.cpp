#include "data/tales.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <regex>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
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

// The error of expanding a wrong grammar; empty if there is none.
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

// A line is shorter than the model's context, so the model sees where its sentence began.
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

// A story has one hero and one friend, and no other of these.
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

// Each of these tests is about one law of the notation.

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

TEST(TalesGrammar, RefusesARuleThatIsNotThere) {
  EXPECT_NE(complaint("story = {a b}").find("a rule named 'b'"), std::string::npos);
  for (const char* open : {"story = {b", "story = a {b\nb = c", "story = {b} {\nb = c"})
    EXPECT_NE(complaint(open).find("a } behind"), std::string::npos) << open;
  EXPECT_NE(complaint("").find("a rule named 'story'"), std::string::npos);
  EXPECT_EQ(complaint("story = {a b}\nb = c"), "");
}

// For each rule of a grammar, the rules that it uses.
std::map<std::string, std::set<std::string>> uses(const std::string& grammar) {
  const std::regex begin(R"(([a-z_]+) =( .*)?)"), reference(R"(\{([aA] )?([A-Z]?[a-z_]*)\})");
  std::map<std::string, std::set<std::string>> found;
  std::string name;
  for (const std::string& line : split(grammar, "\n")) {
    if (line.empty() || line[0] == '#') continue;
    std::smatch match;
    if (line[0] != ' ') {
      EXPECT_TRUE(std::regex_match(line, match, begin)) << line;
      name = match[1];
      EXPECT_TRUE(found.try_emplace(name).second) << name << " again";
    }
    for (std::sregex_iterator at(line.begin(), line.end(), reference), end; at != end; ++at) {
      std::string used = (*at)[2];
      used[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(used[0])));
      found[name].insert(used);
    }
    EXPECT_EQ(std::regex_replace(line, reference, "").find_first_of("{}"), line.npos) << line;
  }
  return found;
}

TEST(TalesGrammar, OfOursIsWellFormedAndEnds) {
  std::map<std::string, std::set<std::string>> rules = uses(std::string(kTalesGrammar));
  ASSERT_TRUE(rules.contains("story"));
  std::set<std::string> used{"story"};
  for (const auto& [name, others] : rules) {
    for (const std::string& other : others) EXPECT_TRUE(rules.contains(other)) << other;
    used.insert(others.begin(), others.end());
  }
  EXPECT_EQ(used.size(), rules.size()) << "some are not used";
  // Rules that use no rules have an end. Then rules that use only such rules have one, and so on:
  // in the end all rules.
  std::set<std::string> ends;
  for (std::size_t round = 0; round < rules.size(); ++round) {
    for (const auto& [name, others] : rules) {
      if (std::ranges::includes(ends, others)) ends.insert(name);
    }
  }
  EXPECT_EQ(ends.size(), rules.size()) << "some use themselves";
}

}  // namespace
}  // namespace nanofsdp::data
