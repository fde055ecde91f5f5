#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "lessons/readme.h"

// Tests lessons.sh, which `make exercise`, `make next`, `make mine` and `make lessons` run, in a
// tree with one exercise. A script stands for CMake: it "builds" another script in place of the
// checker.

namespace nanofsdp::lessons {
namespace {

/// The state of the reader's file.
struct Written {
  bool has_todo;
  std::string checker;  ///< the commands that stand for it; empty: it does not compile
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
    program("bin/cmake", "for target; do :; done\ncp made/$target build/release/lessons/$target");
    program("made/your_fsdp", "echo trains with \"$@\"");
    if (!written.checker.empty()) program("made/exercise_04", written.checker);
  }

  Ran command(const std::string& words) const {
    return run("cd " + tree_.file("") + " && PATH=$PWD/bin:$PATH sh " +
               (kSource / "lessons/lessons.sh").string() + " " + words);
  }

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
  const Ran mine = Tree({false, ""}).command("mine");
  EXPECT_TRUE(has(mine, "lesson 04: your function does not compile")) << mine.out;
}

// A checker that is ended by the system cannot say what is wrong. The command names the exercise
// and the mistake that is likeliest.
TEST(Script, ExplainsACrashAndAnEndlessLoop) {
  for (const std::string signal : {"SEGV", "ABRT", "FPE"}) {
    const Ran ran = Tree({false, "kill -" + signal + " $$"}).command("exercise 4");
    EXPECT_EQ(ran.code, 1);
    EXPECT_TRUE(has(ran, "Exercise 04 crashed") && has(ran, "index outside an")) << ran.out;
  }
  const Ran ran = Tree({false, "exit 124"}).command("exercise 4");  // the code of `timeout`
  EXPECT_EQ(ran.code, 1);
  EXPECT_TRUE(has(ran, "Exercise 04 did not end within a minute")) << ran.out;
}

}  // namespace
}  // namespace nanofsdp::lessons
