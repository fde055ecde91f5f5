#include <gtest/gtest.h>

#include <cctype>
#include <sstream>
#include <string>

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

}  // namespace
}  // namespace nanofsdp::help_test
