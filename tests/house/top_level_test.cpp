#include <gtest/gtest.h>

#include <cstdio>
#include <memory>
#include <set>

#include "house/source_tree.h"

namespace house {
namespace {

/// The paths that git tracks. There are none if this is not a checkout, or if git refuses to say.
std::vector<std::string> tracked_files() {
  const std::string command = "git -C '" + kRoot.string() + "' ls-files 2>/dev/null";
  const auto close = [](FILE* pipe) { return pclose(pipe); };
  const std::unique_ptr<FILE, decltype(close)> pipe(popen(command.c_str(), "r"), close);
  std::string output;
  for (int c = 0; pipe && (c = std::fgetc(pipe.get())) != EOF;) output += static_cast<char>(c);
  return lines(output);
}

TEST(TopLevel, HasAFixedListOfEntries) {
  const std::set<std::string> expected{"src",      "lessons",   "tests",  "data", "CMakeLists.txt",
                                       "Makefile", "README.md", "LICENSE"};
  const std::vector<std::string> tracked = tracked_files();
  if (tracked.empty()) GTEST_SKIP() << "not a git checkout";
  for (const std::string& file : tracked) {
    const std::string entry = file.substr(0, file.find('/'));
    EXPECT_TRUE(entry.starts_with('.') || expected.contains(entry)) << file;
  }
}

}  // namespace
}  // namespace house
