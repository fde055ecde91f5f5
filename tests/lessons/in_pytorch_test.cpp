#include <gtest/gtest.h>

#include <string>

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

class LongInPyTorch : public InPyTorch {};

TEST_P(LongInPyTorch, CountsWhatThePageSays) {
  const std::string interpreter = python();
  if (interpreter.empty()) GTEST_SKIP() << "no PyTorch with FSDP2; PYTHON=... names one";
  const testing::TemporaryDirectory directory;
  const std::string tales = directory.file("tales.txt");
  ASSERT_EQ(run(std::string(NANOFSDP_BINARY_DIR) + "/tests/print_tales > " + tales).code, 0);
  const Ran ran = run(interpreter + " " + (kSource / "lessons/in_pytorch/run.py").string() + " " +
                      number_of(GetParam()) + " --tales=" + tales);
  EXPECT_EQ(ran.code, 0) << ran.out;
  EXPECT_NE(ran.out.find("\nequal: "), ran.out.npos) << ran.out;
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
