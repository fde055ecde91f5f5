#include "lessons/arithmetic.h"

#include <gtest/gtest.h>

namespace nanofsdp::lessons {
namespace {

TEST(Arithmetic, EvaluatesFormulas) {
  EXPECT_EQ(Formula("2 + 3 * (4 - 1) / 2 ^ 2").value(), 4.25);
  EXPECT_EQ(Formula("-3 + ceil(25 / 2) - floor(1.5)").value(), 9);
  EXPECT_THROW(Formula("2 +").value(), std::invalid_argument);
  EXPECT_THROW(Formula("2 apples").value(), std::invalid_argument);
}

TEST(Arithmetic, RoundsToTheDigitsShown) {
  EXPECT_EQ(complaint("4.1744 = ln(65)"), "");
  EXPECT_NE(complaint("4.1745 = ln(65)"), "");
  EXPECT_EQ(complaint("804,096 = 4 * 196864 + 16640"), "");
  EXPECT_NE(complaint("804,097 = 4 * 196864 + 16640"), "");
  EXPECT_EQ(complaint("3,216,384 = 12,865,536 / 4"), "");
  EXPECT_NE(complaint("3,216,384 = 12,865,537 / 4"), "");
  EXPECT_NE(complaint("about 5"), "");
}

TEST(Arithmetic, FindsTheNumbersOfAProse) {
  EXPECT_EQ(numerals("In lesson 07, 25 is odd: 2 x 13 = 26. 804,096 or 4.17, 16.5; x32, wpe_64; "
                     "arXiv 2304.11277, section 3.2"),
            (std::vector<std::string>{"25", "13", "26", "804,096", "16.5"}));
  EXPECT_TRUE(holds_number("shard 13, padding 1", "13"));
  EXPECT_TRUE(holds_number("804096 parameters", "804,096"));
  EXPECT_TRUE(holds_number("804,096 parameters", "804096"));
  EXPECT_FALSE(holds_number("804096 parameters", "804"));
  EXPECT_FALSE(holds_number("1804096 parameters", "804,096"));
  EXPECT_EQ(numerals("12,865,536 bytes; 80,24 is no number with groups of three"),
            (std::vector<std::string>{"12,865,536", "80", "24"}));
  EXPECT_FALSE(holds_number("shard 131", "13"));
}

}  // namespace
}  // namespace nanofsdp::lessons
