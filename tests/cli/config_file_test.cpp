#include "cli/config_file.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "support/temporary_directory.h"
#include "support/usage_error.h"

namespace nanofsdp::cli::config_file_test {
namespace {

using nanofsdp::testing::one_line_with;
using nanofsdp::testing::TemporaryDirectory;
using nanofsdp::testing::usage_error;

// The file's own settings, without the defaults.
std::vector<Setting> settings_of(const std::string& text) {
  std::vector<Setting> settings = parse_config(text, "c.py").settings;
  std::erase_if(settings, [](const Setting& setting) { return setting.line == 0; });
  return settings;
}

std::string value_of(const std::string& line, const std::string& before = "") {
  const std::vector<Setting> settings = settings_of(before + line);
  return !settings.empty() && settings.back().name == "x" ? settings.back().value
                                                          : "not understood";
}

TEST(ConfigFile, UnderstandsPythonsConstants) {
  EXPECT_EQ(value_of("x = 64"), "64");
  EXPECT_EQ(value_of("x=-1e-3 # small"), "-0.001");
  EXPECT_EQ(value_of("x = 1e-3"), "1e-3") << "as it was typed";
  EXPECT_EQ(value_of("  x\t=  .5#half\r"), ".5");
  EXPECT_EQ(value_of("x = 600_000"), "600000");
  EXPECT_EQ(value_of("x = 9007199254740993"), "9007199254740993") << "not through a double";
  EXPECT_EQ(value_of("x = True"), "True");
  EXPECT_EQ(value_of("x = False  # no"), "False");
  EXPECT_EQ(value_of("x = 'out-char'"), "out-char");
  EXPECT_EQ(value_of("x = \"it's # not a comment\"  # a comment"), "it's # not a comment");
  EXPECT_EQ(value_of("x = ''"), "");
  EXPECT_EQ(value_of(R"(x = 'a\n\'b\' = "c" \\')"), "a\n'b' = \"c\" \\");
  EXPECT_EQ(value_of("x = 'Zoë'"), "Zoë");
  EXPECT_EQ(value_of("\xef\xbb\xbfx = 1"), "1") << "behind a byte order mark";
}

TEST(ConfigFile, ComputesAsPythonDoes) {
  EXPECT_EQ(value_of("x = 5 * 8"), "40");
  EXPECT_EQ(value_of("x = 2 + 3 * 4 - 1"), "13");
  EXPECT_EQ(value_of("x = (2 + 3) * 4"), "20");
  EXPECT_EQ(value_of("x = 10 - 4 - 3"), "3");
  EXPECT_EQ(value_of("x = 2 ** 3 ** 2"), "512");
  EXPECT_EQ(value_of("x = -2 ** 2"), "-4");
  EXPECT_EQ(value_of("x = 2 ** -1"), "0.5");
  EXPECT_EQ(value_of("x = 7 // 2 * 2 + 7 % 4"), "9");
  EXPECT_EQ(value_of("x = -7 // 2"), "-4");
  EXPECT_EQ(value_of("x = -7 % 4"), "1");
  EXPECT_EQ(value_of("x = 600000 / 2"), "300000") << "whole, so that steps can be counted by it";
  EXPECT_EQ(value_of("x = int(6e5 / 7)"), "85714");
  EXPECT_EQ(value_of("x = int(-1.5)"), "-1") << "towards 0, as Python's int";
  EXPECT_EQ(value_of("x = 'a' + \"b\" + '\\u00e9'"), "ab\u00e9");
  EXPECT_EQ(value_of("x = y / 10", "y = 6e-4\n"), "5.9999999999999995e-05");
  EXPECT_EQ(value_of("x = max_iters", "max_iters = 5000\n"), "5000");
  EXPECT_EQ(value_of("x = learning_rate / 10"), "5.9999999999999995e-05") << "of nanoGPT's";
  EXPECT_EQ(value_of("x = 'ft-' + str(5)"), "ft-5");
  for (const auto& [typed, printed] : {std::pair{"1e-3", "0.001"},
                                       {"5e-5", "5e-05"},
                                       {".5", "0.5"},
                                       {"2.", "2.0"},
                                       {"1_000.0", "1000.0"},
                                       {"1e22", "1e+22"},
                                       {"1_000", "1000"},
                                       {"6 * 7", "42"}})
    EXPECT_EQ(value_of("x = str(" + std::string(typed) + ")"), printed);
  const std::string time = value_of("x = 'ft-' + str(time.time())");
  EXPECT_GT(std::stod(time.substr(3)), 1.7e9);
}

TEST(ConfigFile, KeepsOrderAndLineNumbers) {
  const std::string text = "# first\nimport time\na = 1\n  # more\nb = 'two'";
  const std::vector<Setting> settings = settings_of(text);
  ASSERT_EQ(settings.size(), 2u);
  EXPECT_TRUE(parse_config(text, "c.py").imports);
  EXPECT_FALSE(parse_config("a = 1", "c.py").imports);
  EXPECT_EQ(settings[0].name, "a");
  EXPECT_EQ(settings[0].line, 3);
  EXPECT_EQ(settings[1].value, "two");
  EXPECT_EQ(settings[1].line, 5);
}

TEST(ConfigFile, NamesTheLineItDoesNotUnderstandAndWhatItExpectedThere) {
  using Refused = std::pair<std::string, std::string>;
  for (const auto& [line, expected] :
       {Refused{"x = 'open", "a quoted string"},
        Refused{"x =", "a number"},
        Refused{"= 3", "name = value"},
        Refused{"x", "name = value"},
        Refused{"x y = 3", "name = value"},
        Refused{"x = none", "a name from above"},
        Refused{"x = -", "a number"},
        Refused{"x = [1]", "a number"},
        Refused{"x == 3", "name = value"},
        Refused{"if x == 3:", "name = value"},
        Refused{"x += 1", "name = value"},
        Refused{"x = 1 / 0", "a divisor other than 0"},
        Refused{"x = 5 % (2 - 2)", "a divisor other"},
        Refused{"x = 1 + 'a'", "a number, not 'a'"},
        Refused{"x = True * 2", "a number, not 'True'"},
        Refused{"x = 1 2", "one value and no more"},
        Refused{"x = 5k", "one value and no more"},
        Refused{"x = (1", "a closing parenthesis"},
        Refused{"x = open('y')", "str(x), int(x) or time.time()"},
        Refused{"x = 'a\\q'", "escapes in strings to be"},
        Refused{"x = 1e999", "a finite number"},
        Refused{"x = " + std::string(900, '(') + "1", "a closing parenthesis"},
        Refused{"x = " + std::string(1200, '1'), "name = value"}}) {
    const std::string error = usage_error([&] { parse_config("a = 1\n" + line, "c.py"); });
    EXPECT_TRUE(one_line_with(error, {"c.py:2: expected ", expected.c_str()})) << error;
  }
}

TEST(ConfigFile, IsReadFromAFileOrElseBuiltIn) {
  const TemporaryDirectory directory;
  const std::string path = directory.write("train_shakespeare_char.py", "n_layer = 99\n");
  const auto last = [](const std::string& name) { return read_config(name).settings.back(); };
  EXPECT_EQ(last(path).value, "99") << "the file wins";
  EXPECT_EQ(last("config/train_shakespeare_char.py").name, "warmup_iters");
  EXPECT_EQ(last("train_shakespeare_char").name, "warmup_iters");
  for (const char* other :
       {"my/train_gpt2.py", "train_gpt2.yaml", "./train_gpt2", "config/x/train_gpt2"})
    EXPECT_TRUE(one_line_with(usage_error([&] { read_config(other); }), {other, "no such file"}));
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
