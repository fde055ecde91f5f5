#include <gtest/gtest.h>

#include <string>

#include "lessons/readme.h"

namespace nanofsdp::lessons {
namespace {

// Every link to a file of the repository, in every page, has its target.
TEST(Links, Resolve) {
  std::vector<std::filesystem::path> pages = {kSource / "README.md"};
  for (const auto& entry : std::filesystem::recursive_directory_iterator(kSource / "lessons")) {
    if (entry.path().extension() == ".md") pages.push_back(entry.path());
  }
  static const std::regex link("\\]\\(([^)#\\s]+)(#[^)]*)?\\)");
  int links = 0;
  for (const auto& page : pages) {
    const std::string text =
        std::regex_replace(testing::read_file(page.string()), std::regex("```[\\s\\S]*?```"), " ");
    for (std::sregex_iterator m(text.begin(), text.end(), link), end; m != end; ++m) {
      const std::string target = (*m)[1];
      if (target.starts_with("http")) continue;
      ++links;
      EXPECT_TRUE(std::filesystem::exists(page.parent_path() / target)) << page << ": " << target;
    }
  }
  EXPECT_GT(links, 10);
}

// A word in bold that links there is a word of the glossary; each lesson brings one.
TEST(Links, NewWordsAreInTheGlossary) {
  const std::string glossary = testing::read_file((kSource / "lessons/glossary.md").string());
  static const std::regex word("\\*\\*\\[([^\\]]*)\\]\\(\\.\\./glossary\\.md\\)\\*\\*");
  for (const auto& folder : lesson_folders()) {
    const std::string text = testing::read_file((folder / "README.md").string());
    int words = 0;
    for (std::sregex_iterator m(text.begin(), text.end(), word), end; m != end; ++m, ++words) {
      const std::string entry = "| **" + (*m)[1].str() + "** |";
      EXPECT_NE(glossary.find(entry), std::string::npos) << folder << ": " << entry;
    }
    EXPECT_GE(words, 1) << folder;
  }
  // Twenty-five for the first eight lessons, then one a lesson.
  static const std::regex entry("\n\\| \\*\\*");
  EXPECT_EQ(std::distance(std::sregex_iterator(glossary.begin(), glossary.end(), entry), {}),
            25 + static_cast<std::ptrdiff_t>(lesson_folders().size()) - 8);
}

TEST(Links, LessonsAreNumberedInARow) {
  int next = 1;
  for (const auto& folder : lesson_folders()) {
    EXPECT_EQ(std::stoi(number_of(folder)), next++) << folder;
  }
}

}  // namespace
}  // namespace nanofsdp::lessons
