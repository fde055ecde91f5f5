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

// The lessons that the list of the lessons calls the short road.
std::vector<std::filesystem::path> short_road() {
  const std::string list = testing::read_file((kSource / "lessons/README.md").string());
  const std::size_t begin = list.find("**The short road** is the lessons ");
  const std::string text = list.substr(begin, list.find(" with ", begin) - begin);
  std::vector<std::filesystem::path> road;
  for (const auto& folder : lesson_folders()) {
    if (text.find(number_of(folder)) != text.npos) road.push_back(folder);
  }
  return road;
}

std::string link_to(const std::filesystem::path& folder) {
  return " · [^\\]]*\\]\\(\\.\\./" + folder.filename().string() + "/README\\.md\\)";
}

// On the short road a lesson leads to the next of the road, which may also be the next lesson.
TEST(Links, LeadAlongTheShortRoad) {
  const auto road = short_road();
  ASSERT_EQ(road.size(), 7u);
  for (std::size_t i = 0; i < road.size(); ++i) {
    const std::string text = testing::read_file((road[i] / "README.md").string());
    const std::string end = text.substr(text.find("\n## Takeaway\n"));
    const bool last = i + 1 == road.size();
    EXPECT_EQ(end.find("Here the short road ends.") != end.npos, last) << road[i];
    if (last) continue;
    const std::string number = number_of(road[i + 1]);
    EXPECT_TRUE(std::regex_search(
        end, std::regex("(Next|Short road): \\[" + number + link_to(road[i + 1]))))
        << road[i];
  }
}

// A lesson of the short road may name an earlier lesson beside the road, but needs it not: it says
// what it uses of this lesson, and then names it in parentheses.
TEST(Links, TheShortRoadNeedsNoLessonBesideIt) {
  const auto road = short_road();
  for (const auto& folder : road) {
    const std::string prose = Readme(folder / "README.md").prose();
    const std::string page = prose.substr(0, prose.find("\n## Takeaway\n"));
    for (const auto& other : lesson_folders()) {
      if (number_of(other) >= number_of(folder)) break;
      if (std::ranges::find(road, other) != road.end()) continue;
      const std::regex named("(\\(?)\\[?[Ll]essons? (?:[0-9]+ and )?" + number_of(other));
      std::smatch first;
      if (!std::regex_search(page, first, named)) continue;
      EXPECT_EQ(first[1], "(") << folder.filename() << " needs lesson " << number_of(other);
    }
  }
}

// The list of the lessons marks side roads. Such a page says so, and the page before it.
TEST(Links, SideRoadsAreMarked) {
  const std::string list = testing::read_file((kSource / "lessons/README.md").string());
  const auto folders = lesson_folders();
  int marked = 0;
  for (std::size_t i = 1; i < folders.size(); ++i) {
    const std::string name = folders[i].filename().string();
    const bool side = list.find("](" + name + "/README.md) (side road)") != list.npos;
    const auto read = [&](std::size_t at) {
      return testing::read_file((folders[at] / "README.md").string());
    };
    const std::string page = read(i), before = read(i - 1);
    const std::size_t idea = page.find("\n## Predict\n");
    EXPECT_EQ(page.substr(0, idea).find("side road") != page.npos, side) << name;
    const std::size_t next = before.find("Next: [" + number_of(folders[i]));
    EXPECT_EQ(before.find("side road", next) != before.npos, side) << name;
    marked += side;
  }
  EXPECT_EQ(marked, 4);
}

// Whether the form of the window has a field of this name that can have this value.
bool has_setting(const std::string& form, const std::string& name, const std::string& value) {
  if (name == "scene") return form.find("'" + value + "'") != form.npos;
  std::smatch m;
  const std::regex field("(range|choice|power)\\('" + name + "', '[^']*', ([^)]*)\\)");
  if (!std::regex_search(form, m, field)) return false;
  if (m[1] == "choice") return m[2].str().find("'" + value + "'") != std::string::npos;
  int least = 0, most = 0;
  return std::sscanf(m[2].str().c_str(), "%d, %d", &least, &most) == 2 &&
         std::atof(value.c_str()) >= least && std::atof(value.c_str()) <= most;
}

// A link into the window with a setting that the form does not have would show another scene.
TEST(Links, IntoTheWindowNameItsSettings) {
  const std::string form = testing::read_file((kSource / "lessons/play/page/settings.js").string());
  static const std::regex link("`(?:build/play/index\\.html)?#([a-z_]+=[^`]*)`");
  static const std::regex setting("([a-z_]+)=([^&]*)");
  int links = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(kSource / "lessons")) {
    if (entry.path().extension() != ".md") continue;
    const std::string text = testing::read_file(entry.path().string());
    for (std::sregex_iterator m(text.begin(), text.end(), link), end; m != end; ++m, ++links) {
      const std::string said = std::regex_replace((*m)[1].str(), std::regex("\\+"), " ");
      for (std::sregex_iterator s(said.begin(), said.end(), setting); s != end; ++s) {
        EXPECT_TRUE(has_setting(form, (*s)[1], (*s)[2])) << entry.path() << ": " << s->str();
      }
    }
  }
  EXPECT_GT(links, 10);
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
