#include <gtest/gtest.h>

#include <cctype>
#include <regex>
#include <set>
#include <sstream>
#include <string>

#include "plan/transformer.h"
#include "support/process.h"
#include "support/temporary_directory.h"

// Tests the help of the program and of its commands, which all have one form.

namespace nanofsdp::help_test {
namespace {

using testing::output_of;
using testing::TemporaryDirectory;

TEST(Help, OfEachCommandNamesTheCommandAndHasHeadings) {
  const TemporaryDirectory directory;
  const std::string program = output_of(directory, {"--help"});
  for (const std::string command :
       {"train", "eval", "sample", "export", "compare", "plan", "bench"}) {
    EXPECT_NE(program.find("\n  nanofsdp " + command + " "), program.npos) << program;
    for (const char* flag : {"--help", "--help=all"}) {
      const std::string help = output_of(directory, {command, flag});
      EXPECT_TRUE(help.starts_with("nanofsdp " + command + " ")) << help;
      std::istringstream text(help);
      std::string before_last, last;
      int headings = 0;
      for (std::string line; std::getline(text, line); before_last = last, last = line) {
        const bool is_heading = line.starts_with("  --") && !last.starts_with("  --");
        headings += is_heading;
        EXPECT_TRUE(!is_heading || (before_last.empty() && std::isupper(last[0]) != 0))
            << "a heading has an empty line above it\n"
            << help;
      }
      EXPECT_GE(headings, 1) << help;
    }
  }
}

// The help of --model lists every model, behind the length of its rows.
TEST(Help, ListsTheModelsWithTheirRows) {
  const TemporaryDirectory directory;
  const std::string help = output_of(directory, {"plan", "--help"});
  for (const plan::TransformerShape& shape : plan::transformers()) {
    const std::size_t at = help.find(" " + std::string(shape.name));
    ASSERT_NE(at, help.npos) << shape.name;
    const std::size_t before = help.rfind(": ", at), begin = help.rfind(' ', before - 1) + 1;
    std::string rows = help.substr(begin, before - begin);
    std::erase(rows, ',');
    EXPECT_EQ(rows, std::to_string(shape.block_size)) << shape.name;
  }
}

// data/help/options.txt has words for each option, and no others.
TEST(Help, HasWordsForEachOption) {
  const TemporaryDirectory directory;
  std::set<std::string> used;
  for (const std::string command :
       {"train", "eval", "sample", "export", "compare", "plan", "bench"}) {
    std::istringstream help(output_of(directory, {command, "--help=all"}));
    const std::regex option(R"(  --(\w+)=.* (\S.*))");
    std::smatch match;
    for (std::string line; std::getline(help, line);) {
      if (!line.starts_with("  --")) continue;
      EXPECT_TRUE(std::regex_match(line, match, option)) << command << line;
      used.insert({match[1], command + "." + match[1].str()});
    }
  }
  std::istringstream words(
      testing::read_file(std::string(NANOFSDP_SOURCE_DIR) + "/data/help/options.txt"));
  for (std::string line; std::getline(words, line);) {
    const std::string name = line.substr(0, line.find(' '));
    EXPECT_TRUE(line.empty() || line[0] == '#' || used.contains(name)) << line;
  }
}

}  // namespace
}  // namespace nanofsdp::help_test
