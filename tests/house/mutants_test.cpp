#include <gtest/gtest.h>

#include <set>

#include "house/source_tree.h"

// The catalogue of deliberate bugs follows the sources, or `make mutants` could not build them.

namespace house {
namespace {

struct Catalogue {
  std::vector<std::string> names;
  std::vector<std::pair<std::string, std::string>> originals;  // a file, and lines of it
};

Catalogue catalogue(const std::string& text) {
  Catalogue result;
  std::string file;
  char last = ' ';
  for (const std::string& line : lines(text)) {
    const char first = line.empty() ? ' ' : line[0];
    if (line.starts_with("## ")) {
      result.names.push_back(line.substr(3));
      file.clear();
    } else if (line.starts_with("file: ")) {
      file = line.substr(6);
    } else if (first == '-' && !file.empty()) {
      if (last != '-') result.originals.emplace_back(file, "\n");
      result.originals.back().second += line.substr(1) + "\n";
    }
    last = first;
  }
  return result;
}

int occurrences(const std::string& text, const std::string& part) {
  int count = 0;
  for (std::size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(Mutants, ChangeLinesThatOccurExactlyOnce) {
  const Catalogue all =
      catalogue(read("tests/mutants/mutants.txt") + read("tests/mutants/second.txt"));
  EXPECT_GE(all.originals.size(), 50u);
  for (const auto& [file, text] : all.originals) {
    EXPECT_TRUE(file.starts_with("src/")) << file;
    EXPECT_EQ(occurrences("\n" + read(file), text), 1) << file << ":" << text;
  }
}

TEST(Mutants, HaveNamesOfTheirOwnAndARowInTheTable) {
  const std::vector<std::string> names = catalogue(read("tests/mutants/mutants.txt")).names;
  const std::string table = read("tests/mutants/TABLE.md");
  std::set<std::string> seen;
  for (const std::string& name : names) {
    EXPECT_TRUE(seen.insert(name).second) << name;
    EXPECT_EQ(occurrences(table, "\n| " + name + " | "), 1)
        << name << ": `make mutants` writes the table";
  }
  EXPECT_EQ(occurrences(table, "\n| "), static_cast<int>(names.size()) + 1) << "and the heading";
  EXPECT_EQ(occurrences(table, "**nobody**"), 0);
}

TEST(Mutants, AreUnknownToTheProduct) {
  for (const auto& file : files("src", {".h", ".cpp", ".cu", ".cuh"})) {
    EXPECT_EQ(occurrences(read(file), "mutant("), 0) << file;
  }
}

}  // namespace
}  // namespace house
