#include <gtest/gtest.h>

#include <set>

#include "house/source_tree.h"

// The catalogue of deliberate bugs must follow the sources, because otherwise `make mutants` cannot
// build them.

namespace house {
namespace {

struct Catalogue {
  std::vector<std::string> names;
  std::vector<std::pair<std::string, std::string>> originals;  // a file and some of its lines
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

const std::string kFirst = "tests/mutants/mutants.txt";

// All catalogues: the first, and then the later ones in any order.
Catalogue all_catalogues() {
  std::string text = read(kFirst);
  for (const auto& file : files("tests/mutants", {".txt"}))
    if (file.filename() != "mutants.txt") text += read(file);
  return catalogue(text);
}

TEST(Mutants, ChangeLinesThatOccurExactlyOnce) {
  const Catalogue all = all_catalogues();
  EXPECT_GE(all.originals.size(), 50u);
  for (const auto& [file, text] : all.originals) {
    EXPECT_TRUE(file.starts_with("src/")) << file;
    EXPECT_EQ(occurrences("\n" + read(file), text), 1) << file << ":" << text;
  }
}

// A mutant of a later catalogue may have no row until a test notices it.
TEST(Mutants, HaveNamesOfTheirOwnAndARowInTheTable) {
  const std::string table = read("tests/mutants/TABLE.md");
  const std::size_t in_first = catalogue(read(kFirst)).names.size();
  std::set<std::string> seen;
  int rows = 0;
  for (const std::string& name : all_catalogues().names) {
    const bool waits = seen.size() >= in_first;
    EXPECT_TRUE(seen.insert(name).second) << name;
    const int here = occurrences(table, "\n| " + name + " | ");
    EXPECT_TRUE(here == 1 || (waits && here == 0)) << name << ": `make mutants` writes the table";
    rows += here;
  }
  EXPECT_EQ(occurrences(table, "\n| "), rows + 1) << "and the heading";
  EXPECT_EQ(occurrences(table, "**nobody**"), 0);
}

TEST(Mutants, AreUnknownToTheProduct) {
  for (const auto& file : files("src", {".h", ".cpp", ".cu", ".cuh"})) {
    EXPECT_EQ(occurrences(read(file), "mutant("), 0) << file;
  }
}

}  // namespace
}  // namespace house
