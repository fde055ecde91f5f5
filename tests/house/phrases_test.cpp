#include <gtest/gtest.h>

#include <algorithm>
#include <regex>
#include <string>
#include <vector>

#include "house/source_tree.h"

// Pages and public headers are read by people for whom English is a second or a third language.
// phrases.txt lists what they would have to decode; no page and no comment of a header has it.

namespace house {
namespace {

struct Phrase {
  std::regex regex;
  std::string instead;
};

std::vector<Phrase> read_phrases() {
  std::vector<Phrase> phrases;
  for (const std::string& line : lines(read("tests/house/phrases.txt"))) {
    const std::size_t arrow = line.find(" -> ");
    if (arrow == line.npos || line.starts_with('#')) continue;
    const std::string pattern = line.substr(0, line.find_last_not_of(' ', arrow) + 1);
    const bool word = pattern[0] != '[';  // "travels" is to be a word, but "[.] who" is none
    const std::string spaced = std::regex_replace(pattern, std::regex(" "), "\\s+");
    phrases.push_back({std::regex((word ? "\\b(?:" : "(?:") + spaced + ")\\b", std::regex::icase),
                       line.substr(arrow + 4)});
  }
  return phrases;
}

// Replaces every match by blanks, but keeps the ends of lines: the rest stays in its line.
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

// The comments of a header, each in its line.
std::string comments_of(const std::string& header) {
  std::string result;
  for (const std::string& line : lines(header)) {
    const std::size_t slashes = line.find("//");
    const std::size_t begin = line.find_first_not_of("/<!", slashes);
    if (slashes != line.npos && begin != line.npos) result += line.substr(begin);
    result += '\n';
  }
  return result;
}

// "12: on the wire -> bytes sent", for each phrase that the text has.
std::vector<std::string> found_in(const std::string& text) {
  static const std::vector<Phrase> phrases = read_phrases();
  std::vector<std::string> found;
  for (const Phrase& phrase : phrases) {
    for (std::sregex_iterator m(text.begin(), text.end(), phrase.regex), end; m != end; ++m) {
      const auto line = 1 + std::count(text.begin(), text.begin() + m->position(), '\n');
      const std::string words = std::regex_replace(m->str(), std::regex("\\s+"), " ");
      found.push_back(std::to_string(line) + ": " + words + " -> " + phrase.instead);
    }
  }
  return found;
}

void expect_none(const std::filesystem::path& file, const std::string& text) {
  for (const std::string& phrase : found_in(text)) ADD_FAILURE() << file.string() << ":" << phrase;
}

TEST(Phrases, AreSeenInPagesAndComments) {
  EXPECT_EQ(found_in(prose_of("A row\ntravels, *for\nnothing*.")),
            (std::vector<std::string>{"2: travels -> is sent, is copied",
                                      "2: for nothing -> without need"}));
  EXPECT_EQ(found_in(prose_of("```\nnobody\n```\n[a](whoever.md) `whoever` The traveller asks.")),
            std::vector<std::string>{});
  EXPECT_EQ(found_in(comments_of("int nobody;  ///< what goes on\n/// the wire\n")),
            std::vector<std::string>{"1: on the wire -> bytes sent; the dtype of communication"});
}

TEST(Phrases, AreInNoLesson) {
  for (const auto& page : files("lessons", {".md"})) expect_none(page, prose_of(read(page)));
}

TEST(Phrases, AreNotInTheReadme) { expect_none("README.md", prose_of(read("README.md"))); }

TEST(Phrases, AreInNoPublicHeader) {
  for (const auto& header : files("src", {".h"})) expect_none(header, comments_of(read(header)));
}

}  // namespace
}  // namespace house
