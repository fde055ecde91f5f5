#include "store/owned_directory.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>

#include "support/temporary_directory.h"
#include "support/usage_error.h"

namespace nanofsdp::store::owned_directory_test {
namespace {

namespace fs = std::filesystem;
using namespace nanofsdp::testing;

// What own_directory() says in another process.
std::string error_elsewhere(const std::string& path) {
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  const pid_t pid = fork();
  if (pid == 0) {
    const std::string error = usage_error([&] { own_directory(path); });
    _exit(write(ends[1], error.data(), error.size()) < 0);
  }
  close(ends[1]);
  std::string error(4096, ' ');
  error.resize(static_cast<std::size_t>(std::max<ssize_t>(read(ends[0], &error[0], 4096), 0)));
  close(ends[0]);
  waitpid(pid, nullptr, 0);
  return error;
}

TEST(OwnedDirectory, HasOneOwnerThatIsNamed) {
  const TemporaryDirectory d;
  auto owned = own_directory(d.file("o/p"));
  const std::string error = error_elsewhere(d.file("o/p"));
  const std::string me = "that of process " + std::to_string(getpid()) + ";";
  EXPECT_TRUE(one_line_with(error, {"--out_dir=", "/o/p", me.c_str(), "wait"})) << error;
  EXPECT_EQ(error_elsewhere(d.file("q")), "no error");
  own_directory(d.file("q"));
  owned = nullptr;
  EXPECT_EQ(error_elsewhere(d.file("o/p")), "no error");
}

// The ranks of a killed launcher hold the folder a moment longer, and its user starts it again at
// once.
TEST(OwnedDirectory, IsWaitedForWhileItsOwnerEnds) {
  const TemporaryDirectory d;
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t pid = fork();
  if (pid == 0) {
    const auto owned = own_directory(d.file("o"));
    const bool told = write(ends[1], "x", 1) == 1;
    usleep(300'000);
    _exit(told ? 0 : 1);
  }
  char byte = 0;
  ASSERT_EQ(read(ends[0], &byte, 1), 1);
  EXPECT_EQ(usage_error([&] { own_directory(d.file("o")); }), "no error");
  int status = 1;
  waitpid(pid, &status, 0);
  EXPECT_EQ(status, 0);
  close(ends[0]), close(ends[1]);
}

TEST(OwnedDirectory, OfWhichNoneCanBeMadeIsRefused) {
  const TemporaryDirectory d;
  d.write("file", "x");
  const std::string error = usage_error([&] { own_directory(d.file("file/o")); });
  EXPECT_TRUE(one_line_with(error, {"--out_dir", "file/o", "Not a directory"})) << error;
}

TEST(SetAside, NeverTakesThePlaceOfWhatWasSetAsideBefore) {
  const TemporaryDirectory d;
  const auto aside = [&] { return set_aside(d.file(""), {"a", "b"}); };
  EXPECT_EQ(aside(), "");
  EXPECT_TRUE(d.empty());
  d.write("a", "1");
  EXPECT_EQ(aside(), d.file("set_aside.1"));
  d.write("set_aside.2", "somebody's");
  d.write("a", "2");
  fs::create_directory(d.file("b"));
  d.write("b/c", "3");
  EXPECT_EQ(aside(), d.file("set_aside.3"));
  EXPECT_EQ(read_file(d.file("set_aside.1/a")), "1");
  EXPECT_EQ(read_file(d.file("set_aside.2")), "somebody's");
  EXPECT_EQ(read_file(d.file("set_aside.3/a")), "2");
  EXPECT_EQ(read_file(d.file("set_aside.3/b/c")), "3");
  fs::create_symlink("nowhere", d.file("a"));
  EXPECT_EQ(aside(), d.file("set_aside.4"));
  EXPECT_TRUE(fs::is_symlink(d.file("set_aside.4/a")));
}

}  // namespace
}  // namespace nanofsdp::store::owned_directory_test
