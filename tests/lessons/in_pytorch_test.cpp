#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "lessons/readme.h"

// Tests the lines of PyTorch at the end of each lesson: they are lines of a program, and where a
// PyTorch is, the program counts what its page says.

namespace nanofsdp::lessons {
namespace {

class InPyTorch : public ::testing::TestWithParam<std::filesystem::path> {
 protected:
  std::string name() const { return "lessons/" + GetParam().filename().string(); }
};

// What UPDATE_LESSONS=1 rewrites, and another test compares, are blocks that name their source.
TEST_P(InPyTorch, ShowsLinesOfItsProgramOnly) {
  const std::string page = Readme(GetParam() / "README.md").text();
  const std::string section = page.substr(page.find("\n## In PyTorch\n"));
  static const std::regex block("\n```python\n"), quoted("<!-- from: (\\S+)#\\w+ -->\n```python\n");
  const auto count = [&section](const std::regex& pattern) {
    return std::distance(std::sregex_iterator(section.begin(), section.end(), pattern), {});
  };
  EXPECT_NE(section.find("`make torch N=" + number_of(GetParam()) + "`"), section.npos);
  EXPECT_EQ(count(block), count(quoted)) << "a block of Python does not name its program";
  for (std::sregex_iterator m(section.begin(), section.end(), quoted), end; m != end; ++m) {
    EXPECT_EQ((*m)[1], name() + "/in_pytorch.py");
  }
}

TEST_P(InPyTorch, HasAProgramThatSaysOnHowManyRanksItRunsAndThatCompares) {
  const std::string program = testing::read_file((GetParam() / "in_pytorch.py").string());
  const std::regex first("\"\"\"The lines of lesson " + number_of(GetParam()) +
                         " in PyTorch, on [1-9] ranks?\\.\"\"\"\n\nfrom prelude import \\*\n");
  EXPECT_TRUE(std::regex_search(program, first, std::regex_constants::match_continuous));
  EXPECT_NE(program.find("\ncompare("), program.npos);
  EXPECT_TRUE(program.ends_with("\nfinish()\n"));
}

// An interpreter that has a PyTorch with FSDP2: PYTHON, or the one of `make parity TORCH=install`.
std::string python() {
  const char* named = std::getenv("PYTHON");
  for (const std::string& path :
       {std::string(named == nullptr ? "" : named),
        std::string(NANOFSDP_SOURCE_DIR) + "/build/torch/bin/python", std::string("python3")}) {
    if (path.empty()) continue;
    if (run(path + " -c 'from torch.distributed.fsdp import fully_shard'").code == 0) return path;
  }
  return "";
}

// Runs `make torch` of a lesson whose folder lies in `lessons`, under an interpreter with PyTorch.
Ran make_torch(const std::string& interpreter, const std::filesystem::path& lessons,
               const std::string& number) {
  const testing::TemporaryDirectory directory;
  const std::string tales = directory.file("tales.txt");
  EXPECT_EQ(run(std::string(NANOFSDP_BINARY_DIR) + "/tests/print_tales > " + tales).code, 0);
  return run(interpreter + " " + (lessons / "in_pytorch/run.py").string() + " " + number +
             " --tales=" + tales);
}

class LongInPyTorch : public InPyTorch {};

TEST_P(LongInPyTorch, CountsWhatThePageSays) {
  const std::string interpreter = python();
  if (interpreter.empty()) GTEST_SKIP() << "no PyTorch with FSDP2; PYTHON=... names one";
  const Ran ran = make_torch(interpreter, kSource / "lessons", number_of(GetParam()));
  EXPECT_EQ(ran.code, 0) << ran.out;
  EXPECT_NE(ran.out.find("\nequal: "), ran.out.npos) << ran.out;
}

// The programs of an invented lesson, and the last line that each must print.
TEST(LongMakeTorch, FailsIfANumberIsNotAsExpected) {
  const std::string interpreter = python();
  if (interpreter.empty()) GTEST_SKIP() << "no PyTorch with FSDP2; PYTHON=... names one";
  const testing::TemporaryDirectory directory;
  const std::filesystem::path lessons = directory.file("lessons");
  std::filesystem::create_directories(lessons / "77_seven");
  std::filesystem::copy(kSource / "lessons/in_pytorch", lessons / "in_pytorch");
  std::ofstream(lessons / "77_seven/README.md")
      << "<!-- output: lessons/77_seven -->\n```text\nseven: 7\n```\n";
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"compare('equal', page('seven:'), 7)", "equal: 1\n"},
      {"compare('another', page('seven:'), 8)", "NOT AS EXPECTED: 1 of 1\n"},
      {"compare('as told', page('seven:'), 8, 8, 'why')", "equal: 0, different for a reason: 1\n"},
      {"compare('not as told', page('seven:'), 9, 8, 'why')", "NOT AS EXPECTED: 1 of 1\n"},
      {"compare('told in vain', page('seven:'), 7, 7, 'why')", "NOT AS EXPECTED: 1 of 1\n"},
      {"compare('equal', page('seven:'), 7)\nassert rank == 0", "AssertionError\n"}};
  for (const auto& [line, last] : cases) {
    std::ofstream(lessons / "77_seven/in_pytorch.py")
        << "\"\"\"The lines of lesson 77 in PyTorch, on 2 ranks.\"\"\"\n\nfrom prelude import *\n"
        << line << "\nfinish()\n";
    const Ran ran = make_torch(interpreter, lessons, "77");
    EXPECT_EQ(ran.code == 0, last.starts_with("equal")) << line;
    EXPECT_TRUE(ran.out.ends_with(last)) << line << "\n" << ran.out;
  }
}

// Lesson 25 needs a PyTorch with Muon; for other lessons an older one will do.
TEST(LongMakeTorch, LeavesOutWhatPyTorchIsTooOldFor) {
  const std::string interpreter = python();
  if (interpreter.empty()) GTEST_SKIP() << "no PyTorch with FSDP2; PYTHON=... names one";
  const std::string old = interpreter +
                          " -c 'import runpy, sys, torch; vars(torch.optim).pop(\"Muon\", 0); "
                          "sys.argv.pop(0); runpy.run_path(sys.argv[0], run_name=\"__main__\")'";
  const Ran ran = make_torch(old, kSource / "lessons", "25");
  EXPECT_EQ(ran.code, 0) << ran.out;
  EXPECT_NE(ran.out.find("needs PyTorch 2.9 or later"), ran.out.npos) << ran.out;
}

TEST(MakeTorch, SaysHowToGetPyTorch) {
  const Ran ran = run("cd " + std::string(NANOFSDP_SOURCE_DIR) +
                      " && PYTHON=/no/such/python sh lessons/in_pytorch/torch.sh 11");
  EXPECT_EQ(ran.code, 0);
  EXPECT_NE(ran.out.find("python3 -m pip install torch"), ran.out.npos) << ran.out;
}

const auto lesson = [](const auto& info) { return number_of(info.param); };
INSTANTIATE_TEST_SUITE_P(Lessons, InPyTorch, ::testing::ValuesIn(lesson_folders()), lesson);
INSTANTIATE_TEST_SUITE_P(Lessons, LongInPyTorch, ::testing::ValuesIn(lesson_folders()), lesson);

}  // namespace
}  // namespace nanofsdp::lessons
