#include "base/file.h"

#include <gtest/gtest.h>

#include <string>

#include "base/fingerprint.h"
#include "base/rng.h"
#include "support/temporary_directory.h"
#include "support/usage_error.h"

namespace nanofsdp {
namespace {

using testing::TemporaryDirectory;

// It is read in portions, which must not show: around one megabyte and around none.
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

// As Python reads a text: whatever ends a line, it is one character, and adds no line.
TEST(File, HasOneCharacterAtTheEndOfALine) {
  const TemporaryDirectory directory;
  const std::string path = directory.write("text", "a\r\nb\rc\n\r\n\r\rd\n\r");
  EXPECT_EQ(read_text(path, {.what = "text"}, 100), "a\nb\nc\n\n\n\nd\n\n");
}

}  // namespace
}  // namespace nanofsdp
