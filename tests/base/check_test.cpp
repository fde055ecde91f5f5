#include "base/check.h"

#include <gtest/gtest.h>

#include <string>
#include <type_traits>

#include "support/errors.h"

namespace nanofsdp {
namespace {

using testing::expect_error;

TEST(Check, SaysWhatExpectedGotAndHint) {
  EXPECT_EQ(describe({.what = "a", .expected = "b", .got = "c", .hint = "d"}),
            "a: expected b, got c; d");
}

TEST(Check, LeavesOutWhatIsEmpty) {
  EXPECT_EQ(describe({.what = "a"}), "a");
  EXPECT_EQ(describe({.what = "a", .got = "c"}), "a: got c");
  EXPECT_EQ(describe({.what = "a", .expected = "b"}), "a: expected b");
  EXPECT_EQ(describe({.what = "a", .hint = "d"}), "a; d");
}

TEST(Check, EndsWithThePlaceBelowSrc) {
  EXPECT_EQ(describe({.what = "a"}, "/home/me/src/nanofsdp/src/ops/gelu.cpp", 12),
            "a [src/ops/gelu.cpp:12]");
  EXPECT_EQ(describe({.what = "a"}, "other/file.cpp", 3), "a [other/file.cpp:3]");
}

TEST(Check, PassesInSilenceAndDoesNotBuildTheMessage) {
  const auto costly = [] {
    ADD_FAILURE() << "the message of a check that holds";
    return std::string();
  };
  NANOFSDP_CHECK(1 < 2, .what = costly());
  NANOFSDP_CHECK_SHAPE(true, .what = costly());
}

TEST(Check, LooksAtItsConditionOnce) {
  int looks = 0;
  NANOFSDP_CHECK(++looks > 0, .what = "counted");
  EXPECT_EQ(looks, 1);
}

TEST(Check, ThrowsTheTypeItIsNamedAfter) {
  expect_error<Error>([] { NANOFSDP_CHECK(false, .what = "x", .got = "y"); }, "x: got y [");
  expect_error<ShapeError>([] { NANOFSDP_CHECK_SHAPE(false, .what = "x"); }, "check_test.cpp:");
  expect_error<Error>([] { NANOFSDP_CHECK_SHAPE(false, .what = "a shape is an error"); }, "shape");
}

TEST(Check, IsOneStatement) {
  if (false)
    NANOFSDP_CHECK(false, .what = "never looked at");
  else
    SUCCEED();
}

// Mistakes of the user end with exit code 2, and without a file and line of the source.
TEST(UsageError, IsNoErrorOfTheProgram) {
  static_assert(!std::is_base_of_v<Error, UsageError>);
  try {
    throw UsageError({.what = "--ranks", .expected = "at least 1", .got = "0"});
  } catch (const UsageError& error) {
    EXPECT_STREQ(error.what(), "--ranks: expected at least 1, got 0");
  }
}

// Characters of Latin-1's second block move the cursor, too. Their UTF-8 begins as that of letters.
TEST(UsageError, ShowsWhatMovesTheCursor) {
  const UsageError error({.what = "\x1b[2J \xc2\x9b \xc2\x85 \xc2\xa0 \xc3\x9f"});
  EXPECT_STREQ(error.what(), "\\x1b[2J \xc2\\x9b \xc2\\x85 \xc2\xa0 \xc3\x9f");
}

TEST(Words, OfAnErrorAreItsOwnUnlessItHasNone) {
  EXPECT_EQ(words_of(std::runtime_error("the disk is full")), "the disk is full");
  EXPECT_EQ(words_of(std::bad_alloc()), "memory ran out");
  EXPECT_EQ(words_of(std::bad_array_new_length()), "memory ran out");
}

}  // namespace
}  // namespace nanofsdp
