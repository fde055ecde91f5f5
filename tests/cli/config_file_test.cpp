#include "cli/config_file.h"

#include <gtest/gtest.h>

#include "support/temporary_directory.h"
#include "support/usage_error.h"

namespace nanofsdp::cli::config_file_test {
namespace {

using nanofsdp::testing::one_line_with;
using nanofsdp::testing::TemporaryDirectory;
using nanofsdp::testing::usage_error;

std::string value_of(const std::string& line) {
  const std::vector<Setting> settings = parse_config(line, "c.py");
  return settings.size() == 1 && settings[0].name == "x" ? settings[0].value : "not understood";
}

TEST(ConfigFile, UnderstandsPythonsConstants) {
  EXPECT_EQ(value_of("x = 64"), "64");
  EXPECT_EQ(value_of("x=-1e-3 # small"), "-1e-3");
  EXPECT_EQ(value_of("  x\t=  .5#half\r"), ".5");
  EXPECT_EQ(value_of("x = True"), "True");
  EXPECT_EQ(value_of("x = False  # no"), "False");
  EXPECT_EQ(value_of("x = 'out-char'"), "out-char");
  EXPECT_EQ(value_of("x = \"it's # not a comment\"  # a comment"), "it's # not a comment");
  EXPECT_EQ(value_of("x = ''"), "");
  EXPECT_EQ(value_of(R"(x = 'a\n\'b\' = "c" \\')"), "a\n'b' = \"c\" \\");
}

TEST(ConfigFile, KeepsOrderAndLineNumbers) {
  const auto settings = parse_config("# first\n\na = 1\n  # more\nb = 'two'", "c.py");
  ASSERT_EQ(settings.size(), 2u);
  EXPECT_EQ(settings[0].name, "a");
  EXPECT_EQ(settings[0].line, 3);
  EXPECT_EQ(settings[1].value, "two");
  EXPECT_EQ(settings[1].line, 5);
}

TEST(ConfigFile, NamesTheLineItDoesNotUnderstand) {
  for (const char* line :
       {"import time", "x = 5 * 8", "x = time.time()", "x = 'open", "x = 'a' + 'b'", "x =", "= 3",
        "x", "x y = 3", "x = none", "x = -", "x = [1]", "if x == 3:", "x += 1"}) {
    const std::string error =
        usage_error([&] { parse_config("a = 1\n" + std::string(line), "c.py"); });
    EXPECT_TRUE(one_line_with(error, {"c.py:2", "name = a number", line})) << error;
  }
}

TEST(ConfigFile, IsReadFromAFileOrElseBuiltIn) {
  const TemporaryDirectory directory;
  const std::string path = directory.write("train_shakespeare_char.py", "n_layer = 99\n");
  ASSERT_EQ(read_config(path).size(), 1u);  // the file comes before the built-in config
  const auto built_in = read_config("config/train_shakespeare_char.py");
  EXPECT_EQ(built_in.size(), 22u);
  EXPECT_EQ(read_config("train_shakespeare_char").size(), built_in.size());
}

TEST(ConfigFile, ListsTheBuiltInOnesWhereThereIsNone) {
  const std::string error = usage_error([] { read_config("config/eval_gpt2.py"); });
  EXPECT_TRUE(
      one_line_with(error, {"config/eval_gpt2.py", "train_shakespeare_char, ",
                            "train_shakespeare_char_cpu", "train_gpt2", "finetune_shakespeare"}))
      << error;
}

}  // namespace
}  // namespace nanofsdp::cli::config_file_test
