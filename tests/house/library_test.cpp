#include <gtest/gtest.h>

#include "house/source_tree.h"

// What other people's programs see of us: no name but ours, and a page whose program works.

namespace house {
namespace {

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

}  // namespace
}  // namespace house
