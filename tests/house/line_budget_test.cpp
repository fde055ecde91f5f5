#include <gtest/gtest.h>

#include "house/source_tree.h"

// A reference that is too long to be read in a weekend is no reference. If a room is over its
// budget: remove a feature or find a simpler idea, but keep the comments.

namespace house {
namespace {

const std::vector<std::string> kCode{".h", ".cpp"};

int lines_of(const std::vector<std::filesystem::path>& files) {
  int total = 0;
  for (const auto& file : files) total += lines_of_code(file);
  return total;
}

TEST(LineBudget, CountsCodeWithoutCommentsAndBlanks) {
  EXPECT_EQ(without_comments("a; // b\n/* c\n d */ e; \"// f\" '\"' 1'000 // g"),
            "a; \n\n e; \"// f\" '\"' 1'000 ");
  EXPECT_EQ(without_comments("R\"x(// \" )x\" // y"), "R\"x(// \" )x\" ");
}

TEST(LineBudget, EveryRoomKeepsItsOwn) {
  const auto room = [](const char* name) {
    return lines_of(files(std::filesystem::path("src") / name, kCode));
  };
  EXPECT_LE(room("fsdp"), 1900);  // with three layouts, post-forward groups and controls of a unit
  int nccl = 0;                   // counted apart, because it is for GPUs only
  for (const auto& file : files("src/comm", kCode)) {
    if (file.filename().string().starts_with("nccl")) nccl += lines_of_code(file);
  }
  EXPECT_LE(nccl, 420);  // including a list of NCCL's functions, which are not linked
  // A program calls these to have ranks. They lie among the collectives, but count as an
  // instrument.
  const int starts =
      lines_of_code("src/comm/run_ranks.h") + lines_of_code("src/comm/run_ranks.cpp");
  // 330 of these lines are messages over Gloo, for several machines. 240 are ranks that read each
  // other's memory, and 220 say who the ranks are and how they came together or failed to. 7 choose
  // the library of Gloo's connections, which is libuv on macOS.
  EXPECT_LE(room("comm") - nccl - starts, 1346);
  EXPECT_LE(room("launch"), 1000);
  EXPECT_LE(room("ops"), 1524);  // 320 are our own matrix product; 66 state costs
  EXPECT_LE(room("nn") + room("gpt"), 1000);
  int book = -nccl - starts, instruments = starts;
  for (const char* name : {"base", "ops", "nn", "gpt", "launch", "comm", "fsdp"})
    book += room(name);
  for (const char* name : {"data", "store", "train", "plan", "bench", "cli"})
    instruments += room(name);
  // 11 of these lines are the norm in parts: one call for any number of ranks. 8 keep all sums of a
  // product in ARM's registers, 18 are for systems other than Linux, and 17 count the cores that a
  // process may use.
  EXPECT_LE(book, 8612);
  EXPECT_LE(room("plan"), 958);  // 550 are a simulated machine, 240 are models in outline
  EXPECT_LE(instruments, 7388);  // 220 are for weights in several files, ours and PyTorch's
}

TEST(LineBudget, ARoomCanBeSeenAtOnce) {
  for (const auto& entry : std::filesystem::directory_iterator(kRoot / "src")) {
    if (!entry.is_directory()) continue;
    const auto there = std::filesystem::directory_iterator(entry);
    EXPECT_LE(std::ranges::distance(begin(there), end(there)), 45) << entry.path();
  }
  EXPECT_LE(files("src/train", kCode).size(), 16u);
}

TEST(LineBudget, OneOperatorFitsOnThreePages) {
  for (const auto& file : files("src/ops", {".cpp"})) {
    EXPECT_LE(lines_of_code(file), 155) << file;
  }
}

TEST(LineBudget, TheKernelsHave2500LinesAndAFileOfThem200) {
  int total = 0;
  for (const auto& file : files("src", {".cu", ".cuh"})) {
    EXPECT_LE(lines_of_code(file), 200) << file;
    total += lines_of_code(file);
  }
  EXPECT_LE(total, 2495);
}

TEST(LineBudget, AModelOfOnesOwnHas250LinesWithLora) {
  const std::filesystem::path lesson = "lessons/22_your_own_model";
  EXPECT_LE(lines_of_code(lesson / "llama.h") + lines_of_code(lesson / "lora.h"), 250);
}

TEST(LineBudget, ThePageIsAThinWindow) {
  EXPECT_LE(lines_of(files("lessons/play", kCode)), 1190);  // 250 give a browser threads and C++20
}

TEST(LineBudget, MuonHas120LinesForItsShardsAnd80ForItsMathematics) {
  const std::filesystem::path lesson = "lessons/25_whole_matrices";
  EXPECT_LE(lines_of_code(lesson / "muon.h"), 120);
  int parts = 0;
  for (const char* part : {"orthogonalise.h", "turns.h", "groups.h"})
    parts += lines_of_code(lesson / part);
  EXPECT_LE(parts, 80);
}

TEST(LineBudget, TensorParallelLayersHave150Lines) {
  EXPECT_LE(lines_of_code("lessons/26_two_dimensions/parallel.h"), 150);
}

TEST(LineBudget, NoFileIsLongerThan300Lines) {
  for (const char* folder : {"src", "tests", "lessons"}) {
    for (const auto& file :
         files(folder, {".h", ".cpp", ".cu", ".cuh", ".cmake", ".sh", ".py", ".js", ".css"})) {
      // One file is its own idea. It has 250 lines of code, as OneFile tests, and the same number
      // of lines of explanation.
      if (file == "lessons/one_file/fsdp.cpp") continue;
      EXPECT_LE(lines(read(file)).size(), 300u) << file;
    }
  }
}

}  // namespace
}  // namespace house
