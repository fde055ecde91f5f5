#include <gtest/gtest.h>

#include "house/source_tree.h"

// Tests that no file of the page of lessons/play uses a stream. One stream brings all locales into
// the page: 50,000 bytes, for which it has no room (lessons/play/assemble.py).

namespace house {
namespace {

using Paths = std::vector<std::filesystem::path>;

// The sources that the page's build names, and those of the rooms that it takes as a whole.
Paths sources_of_the_page() {
  static const std::regex list(R"(IN ITEMS ([\w ]+)\)\s+list\(APPEND sources \$\{source\}/(\w+)/)");
  static const std::regex left_out(
      R"(.*/(gloo|nccl|sharing|library|file|load_dataset|bpe_tokenizer)[^/]*|.*/print_play\.cpp)");
  Paths all = files("lessons/play/engine", {".h", ".cpp"});
  for (const char* room : {"ops", "comm", "nn", "gpt", "fsdp", "plan", "data"}) {
    const Paths of_room = files(std::filesystem::path("src") / room, {".h", ".cpp"});
    all.insert(all.end(), of_room.begin(), of_room.end());
  }
  std::erase_if(all, [](const auto& file) { return std::regex_match(file.string(), left_out); });
  const std::string build = read("lessons/play/browser/CMakeLists.txt");
  for (std::sregex_iterator m(build.begin(), build.end(), list), end; m != end; ++m) {
    std::istringstream names((*m)[1]);
    for (std::string name; names >> name;) {
      all.push_back("src/" + (*m)[2].str() + "/" + name + ".cpp");
    }
  }
  return all;
}

TEST(Page, UsesNoStream) {
  static const std::regex stream(
      R"(#include <(?:sstream|fstream|iostream|ostream|istream|iomanip|locale|regex)>)");
  const Paths all = sources_of_the_page();
  EXPECT_EQ(std::ranges::count(all, "src/cli/command_line.cpp"), 1);
  EXPECT_EQ(std::ranges::count(all, "src/train/trainer.cpp"), 1);
  for (const auto& file : all) EXPECT_FALSE(std::regex_search(read(file), stream)) << file;
}

}  // namespace
}  // namespace house
