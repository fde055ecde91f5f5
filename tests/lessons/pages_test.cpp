#include <gtest/gtest.h>

#include <map>
#include <set>
#include <sstream>
#include <string>

#include "lessons/arithmetic.h"
#include "lessons/readme.h"

// Tests all pages: a letter has one meaning through the whole book, and no digit changes by
// accident. No program prints the numbers of pages that are not lessons, so all digits of such a
// page are sealed. Numbers that follow from others stand in the page's equations.

namespace nanofsdp::lessons {
namespace {

std::string read(const std::string& path) { return testing::read_file((kSource / path).string()); }

// The paths of the README and of the pages that are not lessons. A lesson is the README of its
// folder.
std::vector<std::string> pages() {
  std::vector<std::string> found = {"README.md"};
  for (const auto& entry : std::filesystem::recursive_directory_iterator(kSource / "lessons")) {
    const auto path = std::filesystem::relative(entry.path(), kSource);
    const bool is_lesson =
        path.filename() == "README.md" && std::isdigit(path.parent_path().filename().string()[0]);
    if (path.extension() == ".md" && !is_lesson) found.push_back(path.string());
  }
  std::ranges::sort(found);
  return found;
}

TEST(Pages, BesideLessonsAreSealed) {
  std::string seals;
  for (const std::string& page : pages()) seals += hash_of_digits(read(page)) + " " + page + "\n";
  const std::string file = "tests/lessons/seals.txt";
  if (updating()) std::ofstream(kSource / file) << seals;
  EXPECT_EQ(read(file), seals)
      << "digits of these pages have changed; if they were meant to: UPDATE_LESSONS=1";
}

TEST(Pages, BesideLessonsQuoteTheCodeAsItIs) {
  for (const std::string& name : pages()) {
    Readme page(kSource / name);
    for (const Quote& quote : page.quotes()) {
      const std::size_t hash = quote.source.find('#');
      if (quote.kind != "from" || hash == quote.source.npos) continue;
      const std::string code =
          snippet(read(quote.source.substr(0, hash)), quote.source.substr(hash + 1));
      if (updating() && quote.text != code)
        page.rewrite(quote, code);
      else
        EXPECT_EQ(quote.text, code) << name << "; UPDATE_LESSONS=1 rewrites it";
    }
  }
}

TEST(Pages, BesideLessonsCalculateRight) {
  int equations = 0;
  for (const std::string& name : pages()) {
    for (const std::string& equation : Readme(kSource / name).equations()) {
      EXPECT_EQ(complaint(equation), "") << name;
      ++equations;
    }
  }
  EXPECT_GT(equations, 0);
}

// The table for teachers has a row for each lesson, and names the functions of its exercise.
TEST(Pages, ForTeachersNameEveryExercise) {
  const std::string page = read("lessons/teachers.md");
  static const std::regex name("`(\\w+)`");
  int exercises = 0;
  for (const auto& folder : lesson_folders()) {
    const std::string begin = "\n| " + number_of(folder) + " | `";
    const std::size_t at = page.find(begin);
    ASSERT_NE(at, page.npos) << folder;
    const std::string row = page.substr(at + begin.size() - 1, page.find(" | ", at + 6) - at - 6);
    const std::string header =
        testing::read_file((folder / (name_of(folder) + "_exercise.h")).string());
    for (std::sregex_iterator m(row.begin(), row.end(), name), end; m != end; ++m) {
      EXPECT_NE(header.find(" " + (*m)[1].str() + "("), header.npos) << folder << ": " << (*m)[1];
    }
    ++exercises;
  }
  const std::string points = "the " + std::to_string(exercises) + " exercises give " +
                             std::to_string(10 * exercises) + ".";
  EXPECT_NE(page.find(points), page.npos) << points;
}

// The single letters of a text, without articles, pronouns, C++, h.0, and the s of MB/s.
std::set<char> letters(const std::string& text) {
  std::set<char> found;
  const auto is_word = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '\'' || c == '_' || (c & 0x80) != 0;
  };
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i], before = i == 0 ? ' ' : text[i - 1];
    const char after = i + 1 < text.size() ? text[i + 1] : ' ';
    if (!std::isalpha(static_cast<unsigned char>(c)) || is_word(before) || is_word(after)) continue;
    const char second = i + 2 < text.size() ? text[i + 2] : ' ';
    const bool is_name = after == '.' && std::isdigit(static_cast<unsigned char>(second));
    const bool is_article = c == 'a' || (c == 'A' && after == ' ');
    if (before == '.' || is_name || is_article || c == 'I' || (c == 'C' && after == '+')) continue;
    if (c != 's' || before != '/') found.insert(c);
  }
  return found;
}

// The lessons in which a letter has a meaning: "*", or their numbers.
std::map<char, std::string> read_table() {
  std::map<char, std::string> table;
  std::istringstream lines(read("tests/lessons/letters.txt"));
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line.starts_with("#")) continue;
    EXPECT_FALSE(table.contains(line[0])) << "two meanings: " << line;
    std::istringstream words(line.substr(1));
    std::string& where = table[line[0]];
    for (std::string word; words >> word && (word == "*" || std::isdigit(word[0]));) where += word;
  }
  return table;
}

TEST(Pages, UseEachLetterForOneThing) {
  const auto table = read_table();
  std::set<char> used;
  for (const auto& folder : lesson_folders()) {
    const Readme page(folder / "README.md");
    std::string text = std::regex_replace(page.prose(), std::regex("`[^`\n]*`"), "``");
    text += " " + std::regex_replace(page.formulas(), std::regex("([A-Za-z_])"), " $1 ");
    const std::string picture = testing::read_file((folder / (name_of(folder) + ".svg")).string());
    static const std::regex word(">([^<>]+)</text>");
    for (std::sregex_iterator m(picture.begin(), picture.end(), word), end; m != end; ++m) {
      text += " " + (*m)[1].str();
    }
    for (const char letter : letters(text)) {
      used.insert(letter);
      const auto row = table.find(letter);
      const bool known =
          row != table.end() &&
          (row->second == "*" || row->second.find(number_of(folder)) != std::string::npos);
      EXPECT_TRUE(known) << folder.filename() << " uses " << letter
                         << ", which letters.txt does not give a meaning there";
    }
  }
  for (const auto& [letter, where] : table)
    EXPECT_TRUE(used.contains(letter)) << letter << " is not used";
}

TEST(Pages, LettersOfATextAreSeen) {
  EXPECT_EQ(letters("A rank sends n / W floats at 2 MB/s, C++ or not; it's x's I, h.0, a `b`."),
            (std::set<char>{'n', 'W', 'b'}));
}

}  // namespace
}  // namespace nanofsdp::lessons
