#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "../../lessons/frame/exercise.h"
#include "lessons/readme.h"

// Tests lessons.sh, which `make exercise`, `make next`, `make mine` and `make lessons` run, in a
// tree with one exercise. A script stands for CMake: it "builds" another script in place of the
// checker.

namespace nanofsdp::lessons {
namespace {

/// The state of the reader's file.
struct Written {
  bool has_todo;
  std::string checker;           ///< the commands that stand for it; empty: it does not compile
  std::string compiler = {};     ///< the words of the compiler or the linker
  std::string alone = "exit 0";  ///< the commands that stand for the machine with this file
};

class Tree {
 public:
  explicit Tree(const Written& written) {
    write("build/release/lessons/list.txt", "04 collectives Look left.\n");
    write("build/release/lessons/mine/pieces.inc", "");
    write("build/release/lessons/mine/yours_04.with", "with");
    write("build/release/lessons/mine/yours_04.without", "without");
    write("lessons/mine/pieces.txt", "04 collectives ring_all_reduce the losses of all ranks\n");
    write("lessons/04_collectives/collectives_exercise.cpp",
          written.has_todo ? "// TODO(lesson 04): 12 lines.\n" : "done\n");
    program("bin/cmake",
            "cat made/said\nfor target; do :; done\ncp made/$target build/release/lessons/$target");
    write("made/said", written.compiler);
    program("made/your_fsdp",
            "case $2 in --alone) " + written.alone + ";; esac\necho trains with \"$@\"");
    if (!written.checker.empty()) program("made/exercise_04", written.checker);
  }

  Ran command(const std::string& words, const std::string& variables = {}) const {
    return run("(cd " + tree_.file("") + " && PATH=$PWD/bin:$PATH " + variables + " sh " +
               (kSource / "lessons/lessons.sh").string() + " " + words + " 2>&1)");
  }
  std::string file(const std::string& name) const { return tree_.file(name); }

 private:
  void write(const std::string& name, const std::string& text) {
    const std::filesystem::path path = tree_.file(name);
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  void program(const std::string& name, const std::string& commands) {
    write(name, "#!/bin/sh\n" + commands + "\n");
    std::filesystem::permissions(tree_.file(name), std::filesystem::perms::owner_all);
  }

  testing::TemporaryDirectory tree_;
};

bool has(const Ran& ran, const std::string& words) { return ran.out.find(words) != words.npos; }

// Every command has one rule: the checker decides, whether the TODO is gone or not.
TEST(Script, AsksTheCheckerAndNotTheComment) {
  for (const bool has_todo : {false, true}) {
    const Tree tree({has_todo, "echo right in all 9 cases."});
    const Ran exercise = tree.command("exercise 4");
    EXPECT_EQ(exercise.code, 0) << exercise.out;
    EXPECT_EQ(has(exercise, "remove the comment TODO(lesson 04)"), has_todo) << exercise.out;
    const Ran next = tree.command("next");
    EXPECT_TRUE(has(next, "1 of 1 done") && has(next, "[x] 04")) << next.out;
    const Ran mine = tree.command("mine");
    EXPECT_TRUE(has(mine, "trains with --ranks=2 04\n")) << mine.out;
    EXPECT_EQ(tree.command("check").code, has_todo ? 2 : 0);
  }
}

TEST(Script, LeavesOutWhatIsNotRight) {
  for (const bool has_todo : {false, true}) {
    const Tree tree({has_todo, "echo First difference; exit 1"});
    EXPECT_EQ(tree.command("exercise 4").code, 1);
    EXPECT_TRUE(has(tree.command("next"), "0 of 1 done"));
    const Ran mine = tree.command("mine");
    EXPECT_TRUE(has(mine, "trains with --ranks=2\n")) << mine.out;
    EXPECT_EQ(has(mine, "lesson 04: yours is not right yet"), !has_todo) << mine.out;
    EXPECT_EQ(tree.command("check").code, 0);
  }
  for (const auto& [alone, words] : std::vector<std::pair<std::string, std::string>>{
           {"exit 0", "no number of this training shows its mistake"},
           {"echo step 1 differs; exit 1", "step 1 differs\n"},
           {"kill -SEGV $$", "the machine crashes"},
           {"exit 124", "the machine does not end"},
           {"exec yes hello", "the machine prints too much"}}) {
    const Ran mine = Tree({false, "exit 1", "", alone}).command("mine");
    EXPECT_TRUE(has(mine, "With it, " + words) && has(mine, "trains with")) << mine.out;
  }
  const Ran mine = Tree({false, ""}).command("mine");
  EXPECT_TRUE(has(mine, "lesson 04: your function does not compile")) << mine.out;
}

// A checker that is ended by the system cannot say what is wrong. The command names the exercise
// and the mistake that is likeliest.
TEST(Script, ExplainsACrashAndAnEndlessLoop) {
  for (const std::string signal : {"SEGV", "FPE"}) {
    const Ran ran = Tree({false, "kill -" + signal + " $$"}).command("exercise 4");
    EXPECT_EQ(ran.code, 1);
    EXPECT_TRUE(has(ran, "Exercise 04 crashed") && has(ran, "index outside an")) << ran.out;
  }
  const Ran aborted = Tree({false, "kill -ABRT $$"}).command("exercise 4");
  EXPECT_EQ(aborted.code, 1);
  EXPECT_TRUE(has(aborted, "Exercise 04 was aborted") && has(aborted, "exception")) << aborted.out;
  const Ran ran = Tree({false, "exit 124"}).command("exercise 4");  // the code of `timeout`
  EXPECT_EQ(ran.code, 1);
  EXPECT_TRUE(has(ran, "Exercise 04 did not end within a minute")) << ran.out;
}

// An exit code of 0 does not count without the words of the checker.
TEST(Script, CountsNoEarlyEnd) {
  for (const std::string checker : {"exit 0", "echo piece: right; exit 0"}) {
    const Tree tree({false, checker});
    EXPECT_TRUE(has(tree.command("next"), "0 of 1 done"));
    const Ran mine = tree.command("mine");
    EXPECT_TRUE(has(mine, "trains with --ranks=2\n")) << mine.out;
  }
  const auto ends_early = [] {
    lesson::Exercise first("piece"), second("to_fetch");
    first.end();
    std::exit(0);
  };
  EXPECT_EXIT(ends_early(), ::testing::ExitedWithCode(1), "");
  const auto ends = [] {
    lesson::Exercise exercise("piece");
    std::exit(exercise.end());
  };
  EXPECT_EXIT(ends(), ::testing::ExitedWithCode(0), "");
}

TEST(Script, KeepsFewMegabytesOfWhatAnExercisePrints) {
  const Tree tree({false, "yes hello | head -c 20000000; exit 1"});
  const Ran mine = tree.command("mine");
  EXPECT_TRUE(has(mine, "lesson 04: yours is not right yet")) << mine.out;
  EXPECT_TRUE(has(tree.command("next"), "0 of 1 done"));
  EXPECT_LT(std::filesystem::file_size(tree.file("build/release/lessons/said")), 10'000'000u);
}

TEST(Script, RefusesWhatIsNoNumber) {
  const Tree tree({false, "echo right in all 9 cases."});
  for (const std::string number : {"'.*'", "0.", "'[0-9]4'", "004", "'04 4'", "5", "''"}) {
    const Ran ran = tree.command("exercise " + number);
    EXPECT_TRUE(ran.code == 2 && has(ran, "N is to name a lesson")) << number << ran.out;
  }
  for (const std::string ranks : {"0", "1", "7", "22", "abc", "'2 3'"}) {
    const Ran ran = tree.command("mine", "RANKS=" + ranks);
    EXPECT_TRUE(ran.code == 2 && has(ran, "make mine: RANKS is to be 2 to 6")) << ran.out;
  }
  EXPECT_TRUE(has(tree.command("mine", "RANKS=6"), "trains with --ranks=6 04\n"));
}

TEST(Script, SaysThatTheFileOfAnExerciseIsMissing) {
  const Tree tree({false, "echo right in all 9 cases."});
  std::filesystem::remove(tree.file("lessons/04_collectives/collectives_exercise.cpp"));
  for (const std::string words : {"next", "exercise 4", "mine", "check"}) {
    const Ran ran = tree.command(words);
    EXPECT_TRUE(has(ran, "collectives_exercise.cpp is missing")) << words << ran.out;
    EXPECT_FALSE(has(ran, "grep")) << ran.out;
  }
}

// The words of a linker that name the cause have no "error" in them.
TEST(Script, ShowsWhatTheLinkerMisses) {
  const std::string last = "\ncollect2: error: ld returned 1 exit status\n";
  for (const std::string cause : {"a.cpp: undefined reference to `halve(int)'",
                                  "multiple definition of `halve(int)'; a.o: first defined here"}) {
    const Ran ran = Tree({true, "", cause + last}).command("exercise 4");
    EXPECT_TRUE(ran.code == 1 && has(ran, cause)) << ran.out;
  }
}

// own.sh compiles the readers' files of the machine: a helper belongs to its file, a piece to all.
TEST(Script, KeepsTheHelpersOfTwoFilesApart) {
  if (run("command -v objcopy nm").code != 0) GTEST_SKIP() << "own.sh needs binutils for this";
  const testing::TemporaryDirectory tree;
  const auto write = [&](const std::string& name, const std::string& text) {
    std::ofstream(tree.file(name)) << text;
  };
  const std::string helper = "int calls;\nint helper() { return ++calls + ";
  write("yours_01.cpp",
        helper + "10; }\nint a() __asm__(\"yours_a\");\nint a() { return helper(); }\n");
  write("yours_02.cpp",
        helper + "20; }\nint b() __asm__(\"yours_b\");\nint b() { return helper(); }\n");
  write("main.cpp",
        "int a() __asm__(\"yours_a\");\nint b() __asm__(\"yours_b\");\n"
        "int main() { return a() + b(); }\n");
  const std::string own = "sh " + (kSource / "lessons/mine/own.sh").string();
  const Ran ran = run("cd " + tree.file("") + " && for file in main yours_01 yours_02; do " + own +
                      " c++ -c $file.cpp -o $file.o || exit; done; c++ *.o -o all && ./all");
  EXPECT_EQ(ran.code, 11 + 21) << ran.out;
  EXPECT_NE(run(own + " c++ -c nowhere.cpp -o yours_03.o").code, 0);
}

}  // namespace
}  // namespace nanofsdp::lessons
