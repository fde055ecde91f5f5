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
    const std::string text = testing::read_file(page.string());
    for (std::sregex_iterator m(text.begin(), text.end(), link), end; m != end; ++m) {
      const std::string target = (*m)[1];
      if (target.starts_with("http")) continue;
      ++links;
      EXPECT_TRUE(std::filesystem::exists(page.parent_path() / target)) << page << ": " << target;
    }
  }
  EXPECT_GT(links, 10);
}

TEST(Links, LessonsAreNumberedInARow) {
  int next = std::stoi(number_of(lesson_folders().at(0)));
  for (const auto& folder : lesson_folders()) {
    EXPECT_EQ(std::stoi(number_of(folder)), next++) << folder;
  }
}

}  // namespace
}  // namespace nanofsdp::lessons
