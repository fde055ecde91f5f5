#include "base/file.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <fstream>
#include <string>

#include "base/fingerprint.h"
#include "base/rng.h"
#include "support/temporary_directory.h"
#include "support/usage_error.h"

namespace nanofsdp {
namespace {

using testing::TemporaryDirectory;

// The file is read in portions. The sizes lie around one megabyte and around zero.
TEST(File, HasTheFingerprintOfAllItsBytes) {
  const TemporaryDirectory directory;
  Generator generator(1);
  std::string bytes;
  for (const std::size_t size :
       {0u, 1u, 4096u, (1u << 20) - 1, 1u << 20, (1u << 20) + 1, 3u << 20}) {
    while (bytes.size() < size) bytes.push_back(static_cast<char>(generator.randint(256)));
    EXPECT_EQ(fingerprint_of(directory.write("bytes", bytes)), fingerprint(bytes)) << size;
  }
}

TEST(File, MayHaveAsManyBytesAsMakeSense) {
  const TemporaryDirectory directory;
  const std::string path = directory.write("bytes", "12345");
  EXPECT_EQ(read_file(path, {.what = "bytes"}, 5), "12345");
  EXPECT_TRUE(
      testing::one_line_with(testing::usage_error([&] { read_file(path, {.what = "bytes"}, 4); }),
                             {"5 bytes, more than 4"}));
}

// The system gives the size of such a file as 0, and writes its text when the file is read.
TEST(File, OfTheSystemHasAllItsBytes) {
  const std::string path = "/proc/self/limits";
  if (!std::ifstream(path)) GTEST_SKIP() << "no /proc";
  const std::string text = read_file(path, {.what = "limits"}, 1 << 20);
  EXPECT_EQ(text.find("Limit"), 0u);
  EXPECT_EQ(text.back(), '\n');
  EXPECT_EQ(read_file(path, {.what = "limits"}, text.size()), text);
  const std::string found = "limits: got " + std::to_string(text.size()) + " bytes, more than";
  EXPECT_TRUE(testing::one_line_with(
      testing::usage_error([&] { read_file(path, {.what = "limits"}, text.size() - 1); }),
      {found.c_str()}));
  const TemporaryDirectory directory;
  EXPECT_EQ(read_file(directory.write("empty", ""), {.what = "file"}, 0), "");
}

// The error gives the reason why the file cannot be opened.
TEST(File, ThatCannotBeOpenedIsMappedWithTheReason) {
  const TemporaryDirectory directory;
  const std::string path = directory.write("bytes", "12345");
  EXPECT_EQ(MappedFile(path, {.what = "bytes"}).bytes().size(), 5u);
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  const rlimit none{.rlim_cur = 0, .rlim_max = before.rlim_max};
  setrlimit(RLIMIT_NOFILE, &none);
  const std::string error = testing::usage_error([&] { MappedFile(path, {.what = "bytes"}); });
  setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_TRUE(testing::one_line_with(error, {"bytes: got Too many open files"}));
}

// As when Python reads a text, every kind of line end becomes one character.
TEST(File, HasOneCharacterAtTheEndOfALine) {
  const TemporaryDirectory directory;
  const std::string path = directory.write("text", "a\r\nb\rc\n\r\n\r\rd\n\r");
  EXPECT_EQ(read_text(path, {.what = "text"}, 100), "a\nb\nc\n\n\n\nd\n\n");
}

}  // namespace
}  // namespace nanofsdp
