#include <gtest/gtest.h>

#include "house/source_tree.h"

// Tests the library for other programs: it has only our own names, a page with a working program,
// and headers with comments.

namespace house {
namespace {

// The words of a list that library.cmake sets.
std::vector<std::string> words_of(const std::string& list) {
  static const std::regex word(R"(\w+)");
  const std::string cmake = read("src/cmake/library.cmake");
  const std::size_t begin = cmake.find("set(" + list) + 4 + list.size();
  const std::string text = cmake.substr(begin, cmake.find(')', begin) - begin);
  return {std::sregex_token_iterator(text.begin(), text.end(), word), {}};
}

// The headers of these rooms that the library installs.
std::vector<std::filesystem::path> public_headers(const std::vector<std::string>& rooms) {
  const std::vector<std::string> hidden = words_of("private_headers");
  std::vector<std::filesystem::path> found;
  for (const std::string& room : rooms) {
    for (const auto& file : files("src/" + room, {".h"})) {
      if (std::ranges::count(hidden, file.stem().string()) == 0) found.push_back(file);
    }
  }
  return found;
}

TEST(Library, HasNoMacroWithoutOurPrefix) {
  const std::regex macro(R"(^\s*#\s*define\s+(?!NANOFSDP_)\w+)");
  for (const auto& file : files("src", {".h", ".cuh"})) {
    for (const std::string& line : lines(read(file))) {
      EXPECT_FALSE(std::regex_search(line, macro)) << file << ": " << line;
    }
  }
}

TEST(Library, IsUsedOnItsPageAsInTheTest) {
  const std::string program = "```cpp\n" + read("tests/package/perceptron.cpp") + "```\n";
  EXPECT_NE(read("lessons/library.md").find(program), std::string::npos)
      << "tests/package/perceptron.cpp is another program";
}

TEST(Library, SaysInEveryHeaderWhatTheFileIs) {
  std::vector<std::filesystem::path> headers = public_headers(words_of("library_rooms"));
  ASSERT_GE(headers.size(), 80u) << "the lists of library.cmake are not found";
  headers.emplace_back("src/nanofsdp.h");
  for (const auto& file : headers) {
    const std::string text = read(file);
    const std::size_t first = std::min(text.find("///"), text.size());
    EXPECT_TRUE(text.substr(first).starts_with("/// @file\n/// @brief "))
        << file << ": the first comment is to be `/// @file` and `/// @brief ...`";
  }
}

// Our namespaces do not indent, so a function of a namespace begins its line.
TEST(Library, HasACommentAboveEveryFunction) {
  const std::regex function(
      R"((?!namespace|class|struct|enum|using|template|static_assert)[A-Za-z\[][^=]*\(.*)");
  const std::regex passed_over(R"((template <|namespace cuda).*)");
  int functions = 0;
  for (const auto& file : public_headers({"nn", "fsdp", "comm", "store"})) {
    const std::vector<std::string> all = lines(read(file));
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (!std::regex_match(all[i], function)) continue;
      std::size_t above = i - 1;
      while (std::regex_match(all[above], passed_over)) --above;
      EXPECT_TRUE(all[above].starts_with("///")) << file << ":" << i + 1 << ": " << all[i];
      ++functions;
    }
  }
  EXPECT_GE(functions, 50) << "this test does not find them";
}

}  // namespace
}  // namespace house
