#include <gtest/gtest.h>

#include <map>
#include <string>

#include "house/source_tree.h"

// README lists the files to read in a weekend, in order, with their lengths.

namespace house {
namespace {

// A number as README writes it, "1,749".
int number(std::string text) {
  std::erase(text, ',');
  return std::stoi(text);
}

// Lines of code by the name of a header and its .cpp.
std::map<std::string, int> files_of(const std::string& room) {
  std::map<std::string, int> found;
  for (const auto& file : files("src/" + room, {".h", ".cpp"}))
    found[file.stem().string()] += lines_of_code(file);
  return found;
}

TEST(ReadingPath, NamesEveryFileOfTheRoomsAndItsLines) {
  const std::string readme = read("README.md");
  const std::regex row(R"(\d\. \[`src/(\w+)`\]\([^)]*\), ([\d,]+) lines: ([^\n]*)\.\n)");
  const std::regex file("(\\w+) ([\\d,]+)");
  using Matches = std::sregex_iterator;
  int rooms = 0, all = lines_of_code("src/comm/communicator.h");
  for (Matches m(readme.begin(), readme.end(), row), end; m != end; ++m, ++rooms) {
    const std::string room = (*m)[1], names = (*m)[3];
    std::map<std::string, int> told;
    int sum = 0;
    for (Matches f(names.begin(), names.end(), file); f != end; ++f)
      sum += told[(*f)[1]] = number((*f)[2]);
    EXPECT_EQ(told, files_of(room)) << room;
    EXPECT_EQ(number((*m)[2]), sum) << room;
    all += sum;
  }
  EXPECT_EQ(rooms, 3);
  std::smatch total;
  ASSERT_TRUE(std::regex_search(readme, total, std::regex("These are ([\\d,]+) lines of code")));
  EXPECT_EQ(number(total[1]), all);
}

}  // namespace
}  // namespace house
