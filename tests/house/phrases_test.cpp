#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <regex>
#include <string>
#include <vector>

#include "house/source_tree.h"

// Pages and comments are read by people for whom English is a second or a third language.
// phrases.txt lists the phrases that they would have to decode. No page and no comment has them.

namespace house {
namespace {

struct Phrase {
  std::string begin;  // the letters with which every match begins
  std::regex regex;
  std::string instead;
  bool of_comments = false;  // a page may have the phrase
  bool has_capital = false;  // the other phrases are found in upper and in lower case
};

std::vector<Phrase> read_phrases() {
  std::vector<Phrase> phrases;
  bool of_comments = false;
  for (const std::string& line : lines(read("tests/house/phrases.txt"))) {
    of_comments |= line == "comments:";
    const std::size_t arrow = line.find(" -> ");
    if (arrow == line.npos || line.starts_with('#')) continue;
    const std::string pattern = line.substr(0, line.find_last_not_of(' ', arrow) + 1);
    const bool word = pattern[0] != '[';  // "travels" must be a word, but "[.] who" is not a word
    const std::string spaced = std::regex_replace(pattern, std::regex(" "), "\\s+");
    std::string begin = pattern.substr(0, pattern.find_first_of(" ([,:?"));
    if (begin.size() < pattern.size() && pattern[begin.size()] == '?') begin.pop_back();
    phrases.push_back({begin, std::regex((word ? "\\b(?:" : "(?:") + spaced + ")(?!\\w)"),
                       line.substr(arrow + 4), of_comments, std::isupper(begin[0]) != 0});
  }
  return phrases;
}

// Replaces every match by blanks, but keeps the ends of lines, so the rest stays in its line.
std::string without(std::string text, const char* pattern) {
  const std::regex regex(pattern);
  std::string result;
  std::size_t from = 0;
  for (std::sregex_iterator m(text.begin(), text.end(), regex), end; m != end; ++m) {
    const auto begin = static_cast<std::size_t>(m->position());
    result += text.substr(from, begin - from);
    for (const char c : m->str()) result += c == '\n' ? '\n' : ' ';
    from = begin + static_cast<std::size_t>(m->length());
  }
  return result + text.substr(from);
}

// A page without what it quotes, addresses and marks of bold and italic.
std::string prose_of(const std::string& page) {
  return without(without(without(page, "```[^`]*```"), "\\]\\([^)\\s]*\\)|<[^>\n]*>|`[^`\n]*`"),
                 "[*_]");
}

// The comments of a source, each in its line. "< " marks those that stand behind code.
std::string comments_of(const std::string& source) {
  std::string result;
  for (const std::string& line : lines(source)) {
    const std::size_t slashes = line.find("//");
    const std::size_t begin = line.find_first_not_of("/<!", slashes);
    if (slashes != line.npos && begin != line.npos) {
      result += (line.find_first_not_of(' ') < slashes ? "<" : "") + line.substr(begin);
    }
    result += '\n';
  }
  return result;
}

std::string in_lower_case(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

// "12: on the wire -> bytes sent", for each phrase that the text has.
std::vector<std::string> found_in(const std::string& text, bool comments = false) {
  static const std::vector<Phrase> phrases = read_phrases();
  const std::string lower = in_lower_case(text);
  std::vector<std::string> found;
  for (const Phrase& phrase : phrases) {
    if (phrase.of_comments && !comments) continue;
    const std::string& all = phrase.has_capital ? text : lower;
    std::smatch match;
    for (std::size_t at = 0; (at = all.find(phrase.begin, at)) < all.size(); ++at) {
      using namespace std::regex_constants;
      const auto flags = at > 0 ? match_continuous | match_prev_avail : match_continuous;
      const auto begin = all.begin() + static_cast<std::ptrdiff_t>(at);
      if (!std::regex_search(begin, all.end(), match, phrase.regex, flags)) continue;
      const auto line = 1 + std::count(all.begin(), begin, '\n');
      const std::string words = std::regex_replace(match.str(), std::regex("\\s+"), " ");
      found.push_back(std::to_string(line) + ": " + words + " -> " + phrase.instead);
    }
  }
  return found;
}

void expect_none(const std::filesystem::path& file, const std::vector<std::string>& found) {
  for (const std::string& phrase : found) ADD_FAILURE() << file.string() << ":" << phrase;
}

TEST(Phrases, AreSeenInPagesAndComments) {
  EXPECT_EQ(found_in(prose_of("A row\ntravels, *for\nnothing*. So many rows.")),
            (std::vector<std::string>{"2: travels -> is sent, is copied",
                                      "2: for nothing -> without need"}));
  EXPECT_EQ(found_in(prose_of("```\nnobody\n```\n[a](whoever.md) `whoever` The traveller asks.")),
            std::vector<std::string>{});
  EXPECT_EQ(found_in(comments_of("int nobody;  ///< it goes on\n/// the wire\n"), true),
            std::vector<std::string>{"1: on the wire -> bytes sent; the dtype of communication"});
}

TEST(Phrases, OfCommentsAreFragmentsAtTheirBegin) {
  const std::string fragments =
      "/// Sums, of rows\n/// of a rank. Of a row: none.\nint n;  // of it";
  EXPECT_EQ(found_in(comments_of(fragments), true),
            (std::vector<std::string>{"2: Of a -> begin with the subject: \"The size of ...\"",
                                      "3: < of -> a noun: \"the size of ...\""}));
}

TEST(Phrases, AreInNoLesson) {
  for (const auto& page : files("lessons", {".md"}))
    expect_none(page, found_in(prose_of(read(page))));
}

TEST(Phrases, AreNotInTheReadme) {
  expect_none("README.md", found_in(prose_of(read("README.md"))));
}

TEST(Phrases, AreInNoComment) {
  for (const char* const folder : {"src", "tests"}) {
    for (const auto& file : files(folder, {".h", ".cpp", ".cu", ".cuh"})) {
      if (file.filename() == "phrases_test.cpp") continue;  // this file quotes some
      expect_none(file, found_in(comments_of(read(file)), true));
    }
  }
}

}  // namespace
}  // namespace house
