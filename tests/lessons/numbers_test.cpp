#include <gtest/gtest.h>

#include <map>
#include <set>
#include <sstream>
#include <string>

#include "lessons/arithmetic.h"
#include "lessons/readme.h"

// Tests that pages agree. numbers.txt lists every number that stands on two pages, with its meaning
// and its pages. If a number changes on one page only, its row is wrong.

namespace nanofsdp::lessons::numbers_test {
namespace {

constexpr const char* kList = "tests/lessons/numbers.txt";

std::string read(const std::string& path) { return testing::read_file((kSource / path).string()); }

// A short name: "08" of a lesson, "plan" of lessons/plan.md, "lessons" of lessons/README.md.
std::string name_of_page(const std::filesystem::path& path) {
  const std::string folder = path.parent_path().filename().string();
  if (path == kSource / "README.md") return "README";
  if (path.stem() != "README") return path.stem().string();
  return std::isdigit(folder[0]) ? number_of(path.parent_path()) : folder;
}

// The pages by their names: prose and outputs, without code, commands, comments and addresses.
std::map<std::string, std::string> texts() {
  std::map<std::string, std::string> found;
  const auto add = [&](const std::filesystem::path& path) {
    std::string text = testing::read_file(path.string());
    for (const char* gone : {"<!--[\\s\\S]*?-->", "```(?:cpp|sh|python)[\\s\\S]*?```",
                             "\\]\\([^)]*\\)", "https?://\\S+", "`[^`\n]*`"}) {
      text = std::regex_replace(text, std::regex(gone), " ");
    }
    found[name_of_page(path)] = text;
  };
  add(kSource / "README.md");
  for (const auto& entry : std::filesystem::recursive_directory_iterator(kSource / "lessons")) {
    if (entry.path().extension() == ".md") add(entry.path());
  }
  return found;
}

// The numbers that are seldom equal by chance: from a thousand on, and fractions of five
// characters.
std::set<std::string> long_numbers(const std::string& text) {
  static const std::regex pattern("(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]+)(?:\\.[0-9]+)?");
  std::set<std::string> found;
  for (std::sregex_iterator m(text.begin(), text.end(), pattern), end; m != end; ++m) {
    const auto at = static_cast<std::size_t>(m->position());
    const bool in_word = at > 0 && (std::isalnum(static_cast<unsigned char>(text[at - 1])) ||
                                    text[at - 1] == '.' || text[at - 1] == '_');
    const std::string number = without_commas(m->str());
    const bool fraction = number.find('.') != number.npos && number.size() >= 5;
    if (!in_word && (fraction || std::atof(number.c_str()) >= 1000)) found.insert(number);
  }
  return found;
}

struct Row {
  std::string meaning = "?";
  std::string pages;
};

// The rows "number | meaning | pages", by their numbers.
std::map<std::string, Row> read_rows(const std::string& list) {
  static const std::regex line("([0-9.]+) \\| (.*) \\| (.*)");
  std::map<std::string, Row> rows;
  std::istringstream lines(list);
  std::smatch m;
  for (std::string text; std::getline(lines, text);) {
    if (std::regex_match(text, m, line)) rows[m[1]] = {m[2], m[3]};
  }
  return rows;
}

// The rows as the pages have them now.
std::map<std::string, Row> shared(const std::map<std::string, Row>& known) {
  std::map<std::string, Row> rows;
  for (const auto& [page, text] : texts()) {
    for (const std::string& number : long_numbers(text)) {
      rows[number].pages += (rows[number].pages.empty() ? "" : " ") + page;
    }
  }
  std::erase_if(rows,
                [](const auto& row) { return row.second.pages.find(' ') == std::string::npos; });
  for (auto& [number, row] : rows) {
    if (known.contains(number)) row.meaning = known.at(number).meaning;
  }
  return rows;
}

TEST(Numbers, OnTwoPagesAreListedAndAgree) {
  std::string list = read(kList);
  const auto listed = read_rows(list);
  const auto now = shared(listed);
  if (updating()) {
    list.erase(list.find("\n\n") + 2);
    std::vector<std::pair<double, std::string>> lines;
    for (const auto& [number, row] : now) {
      lines.emplace_back(std::atof(number.c_str()),
                         number + " | " + row.meaning + " | " + row.pages + "\n");
    }
    std::ranges::sort(lines);
    for (const auto& line : lines) list += line.second;
    std::ofstream(kSource / kList) << list;
  }
  for (const auto& [number, row] : read_rows(list)) {
    const auto found = now.find(number);
    EXPECT_EQ(found == now.end() ? "one page" : found->second.pages, row.pages)
        << "was " << number << ", " << row.meaning << ", changed on one page only? If not: "
        << "UPDATE_LESSONS=1 rewrites " << kList;
    EXPECT_NE(row.meaning, "?") << number << " needs a meaning in " << kList;
  }
  for (const auto& [number, row] : now) {
    EXPECT_TRUE(read_rows(list).contains(number)) << number << " stands on " << row.pages;
  }
  EXPECT_GT(now.size(), 50u);
}

// Small numbers and words: each pattern finds the same on all pages that have it, and at least two
// have it.
TEST(Numbers, OfOneThingAreTheSameInWords) {
  const std::map<std::string, std::string> pages = texts();
  std::istringstream lines(read("tests/lessons/same.txt"));
  int patterns = 0;
  for (std::string line; std::getline(lines, line);) {
    const std::size_t bar = line.find(" | ");
    if (line.starts_with('#') || bar == line.npos) continue;
    ++patterns;
    const std::regex pattern(std::regex_replace(line.substr(bar + 3), std::regex(" "), "\\s+"));
    std::map<std::string, std::string> said;  // the pages of each
    int having = 0;
    for (const auto& [page, text] : pages) {
      std::sregex_iterator m(text.begin(), text.end(), pattern), end;
      having += m != end;
      for (; m != end; ++m) {
        std::string what = (*m)[1];
        for (char& c : what) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
        said[without_commas(what)] += " " + page;
      }
    }
    std::string all;
    for (const auto& [what, where] : said) all += what + " on" + where + "; ";
    EXPECT_EQ(said.size(), 1u) << line.substr(0, bar) << ": " << all;
    EXPECT_GE(having, 2) << line.substr(0, bar) << ": " << all;
  }
  EXPECT_GE(patterns, 5);
}

// The list of the lessons, and the README, count what the tree has.
TEST(Numbers, OfLessonsAndRoomsAreThoseOfTheTree) {
  const char* const words[] = {"twenty-five", "twenty-six", "twenty-seven", "twenty-eight"};
  const std::size_t lessons = lesson_folders().size();
  ASSERT_TRUE(lessons >= 25 && lessons <= 28);
  EXPECT_NE(read("README.md").find(std::string(words[lessons - 25]) + " [lessons]"),
            std::string::npos);
  for (const auto& folder : lesson_folders()) {
    EXPECT_NE(read("lessons/README.md").find("](" + folder.filename().string() + "/README.md)"),
              std::string::npos);
  }
}

TEST(Numbers, LongOnesOfATextAreFound) {
  EXPECT_EQ(long_numbers("802,432 of 12; h100, v1.2345, 3.9831 and 4096 of 4,096, x8192, 22.4"),
            (std::set<std::string>{"802432", "3.9831", "4096"}));
}

}  // namespace
}  // namespace nanofsdp::lessons::numbers_test
