#include <gtest/gtest.h>

#include <cctype>
#include <sstream>
#include <string>

#include "lessons/readme.h"

namespace nanofsdp::lessons {
namespace {

std::string read_glossary() {
  return testing::read_file((kSource / "lessons/glossary.md").string());
}

// The target of links to PAGE#name.
std::string anchor(const std::string& name) { return "<a id=\"" + name + "\"></a>"; }

// In every page, each link to a file of the repository leads to a file, and to an anchor in it.
TEST(Links, Resolve) {
  std::vector<std::filesystem::path> pages = {kSource / "README.md"};
  for (const auto& entry : std::filesystem::recursive_directory_iterator(kSource / "lessons")) {
    if (entry.path().extension() == ".md") pages.push_back(entry.path());
  }
  static const std::regex link("\\]\\(([^)#\\s]*)(?:#([^)]*))?\\)");
  int links = 0;
  for (const auto& page : pages) {
    const std::string text =
        std::regex_replace(testing::read_file(page.string()), std::regex("```[\\s\\S]*?```"), " ");
    for (std::sregex_iterator m(text.begin(), text.end(), link), end; m != end; ++m) {
      const std::string target = (*m)[1], name = (*m)[2];
      if (target.starts_with("http")) continue;
      ++links;
      const auto file = target.empty() ? page : page.parent_path() / target;
      const bool exists = std::filesystem::exists(file);
      EXPECT_TRUE(exists) << page << ": " << target;
      if (!exists || name.empty()) continue;
      EXPECT_NE(testing::read_file(file.string()).find(anchor(name)), std::string::npos)
          << page << ": " << target << " has no " << anchor(name);
    }
  }
  EXPECT_GT(links, 10);
}

// Each lesson introduces words, in bold and linked to their entries in the glossary. A word may be
// a plural.
TEST(Links, NewWordsAreInTheGlossary) {
  const std::string glossary = read_glossary();
  static const std::regex word("\\*\\*\\[([^\\]]*)\\]\\(\\.\\./glossary\\.md#([^)]*)\\)\\*\\*");
  for (const auto& folder : lesson_folders()) {
    const std::string text = testing::read_file((folder / "README.md").string());
    int words = 0;
    for (std::sregex_iterator m(text.begin(), text.end(), word), end; m != end; ++m, ++words) {
      const std::string entry = "| " + anchor((*m)[2]) + "**";
      EXPECT_NE(glossary.find(entry), std::string::npos) << folder << ": " << entry;
    }
    EXPECT_GE(words, 1) << folder;
  }
}

// The anchor of an entry is its word, and the lesson that the entry names uses the word.
TEST(Links, LeadFromEachEntryOfTheGlossaryToItsLesson) {
  static const std::regex entry(
      "\\| <a id=\"([^\"]*)\"></a>\\*\\*([^*]*)\\*\\* \\| .* \\| \\[[0-9]+\\]\\(([^)]*)\\) \\|");
  std::istringstream glossary(read_glossary());
  int entries = 0;
  for (std::string line; std::getline(glossary, line);) {
    if (line.find("**") == line.npos) continue;
    ++entries;
    std::smatch m;
    ASSERT_TRUE(std::regex_match(line, m, entry)) << line;
    std::string word = m[2];
    for (char& c : word) c = static_cast<char>(std::tolower(c));
    EXPECT_EQ(m[1], std::regex_replace(word, std::regex("[ _]"), "-"));
    std::string lesson = testing::read_file((kSource / "lessons" / m[3].str()).string());
    for (char& c : lesson) c = static_cast<char>(std::tolower(c));
    EXPECT_NE(lesson.find(word), lesson.npos) << m[3] << " does not use the word " << word;
  }
  EXPECT_GT(entries, 10);
}

TEST(Links, LeadFromEachLessonToTheNext) {
  const auto folders = lesson_folders();
  for (std::size_t i = 0; i + 1 < folders.size(); ++i) {
    const std::string text = testing::read_file((folders[i] / "README.md").string());
    const std::string next = "](../" + folders[i + 1].filename().string() + "/README.md)";
    const std::size_t at = text.find("Next: [" + number_of(folders[i + 1]) + " · ");
    ASSERT_NE(at, text.npos) << folders[i];
    EXPECT_EQ(text.find(next, at), text.find("](", at)) << folders[i];
  }
}

// A number may be free for a future lesson.
TEST(Links, LessonsHaveANumberEach) {
  int last = -1;
  for (const auto& folder : lesson_folders()) {
    EXPECT_GT(std::stoi(number_of(folder)), last) << folder;
    last = std::stoi(number_of(folder));
  }
}

}  // namespace
}  // namespace nanofsdp::lessons
