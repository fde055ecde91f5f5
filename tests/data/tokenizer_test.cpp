#include "data/tokenizer.h"

#include <gtest/gtest.h>

#include "support/usage_error.h"

namespace nanofsdp::data {
namespace {

using nanofsdp::testing::one_line_with;
using nanofsdp::testing::usage_error;
using Tokens = std::vector<std::int32_t>;

TEST(Tokenizer, ATokenIsTheCharactersPlaceInTheSortedAlphabet) {
  const CharTokenizer tokenizer("hello\nworld");
  EXPECT_EQ(tokenizer.chars(), "\ndehlorw");
  EXPECT_EQ(tokenizer.vocab_size(), 8);
  EXPECT_EQ(tokenizer.encode("\nhold"), (Tokens{0, 3, 5, 4, 1}));
  EXPECT_EQ(tokenizer.decode(Tokens{7, 5, 4, 0}), "wol\n");
}

// Characters of each length in UTF-8, the first and the last of each.
TEST(Tokenizer, ACharacterIsACodePointNotAByte) {
  const std::string text =
      "z\u00e9\u20ac\U0001F989\x7f\u0080\u07ff\u0800\uffff\U00010000\U0010ffff";
  const CharTokenizer tokenizer(text);
  EXPECT_EQ(tokenizer.vocab_size(), 11);
  const Tokens tokens = tokenizer.encode(text);
  EXPECT_EQ(tokens, (Tokens{0, 3, 6, 9, 1, 2, 4, 5, 7, 8, 10}));  // they are sorted by code point
  EXPECT_EQ(tokenizer.decode(tokens), text);
}

// The law: decoding undoes encoding, and the alphabet alone restores the tokenizer.
TEST(Tokenizer, IsRestoredFromItsCharacters) {
  const std::string text = "The owl \U0001F989 said \"na\u00efve\"; zero: \u2205.\r\n";
  const CharTokenizer tokenizer(text);
  const CharTokenizer restored(tokenizer.chars());
  EXPECT_EQ(restored.chars(), tokenizer.chars());
  EXPECT_EQ(restored.encode(text), tokenizer.encode(text));
  EXPECT_EQ(restored.decode(tokenizer.encode(text)), text);
}

// A text begins as after the end of a line, wherever that character stands in the alphabet.
TEST(Tokenizer, OpensATextWithTheEndOfALine) {
  for (const std::string text : {"b\na", "\n", "\tb\n\ta", "\x01\x02\n", "\u00e9\t\n"}) {
    const CharTokenizer tokenizer(text);
    EXPECT_EQ(tokenizer.decode(Tokens{tokenizer.opening()}), "\n") << tokenizer.chars();
  }
  for (const std::string text : {"ba", "\tb", "\u00e9\u00e8"}) {
    EXPECT_EQ(CharTokenizer(text).opening(), 0) << text;
  }
}

TEST(Tokenizer, NamesACharacterItDoesNotKnow) {
  const CharTokenizer tokenizer("abc");
  for (const char* text : {"abd", "\u00fc", "a\nb", "!"}) {
    EXPECT_NE(usage_error([&] { tokenizer.encode(text); }), "no error") << text;
  }
  const std::string error = usage_error([&] { tokenizer.encode("ab\u00fc"); });
  EXPECT_TRUE(one_line_with(error, {"'\u00fc'", "U+00FC", "3"})) << error;
  // A character that would break the line or the terminal is shown only by its number.
  const std::string newline = usage_error([&] { tokenizer.encode("a\nb"); });
  EXPECT_TRUE(one_line_with(newline, {"U+000A"})) << newline;
}

TEST(Tokenizer, NamesTheByteAtWhichUtf8Stops) {
  const std::string_view wrong[] = {
      "ab\x80",              // a continuation byte without a first byte
      "ab\xc3",              // a character that ends too early
      "ab\xe2\x82",          // the same, later
      "ab\xc3(",             // a first byte without a continuation byte
      "ab\xc0\xaf",          // a form that is too long
      "ab\xe0\x80\xaf",      // the same
      "ab\xf0\x80\x80\xaf",  // the same
      "ab\xed\xa0\x80",      // half a UTF-16 pair, the first one
      "ab\xed\xaf\xbf",      // another one in the middle
      "ab\xed\xbf\xbf",      // the last one
      "ab\xf4\x90\x80\x80",  // a code point above U+10FFFF
      "ab\xf8\x88\x80\x80\x80",
      "ab\xff",
  };
  for (const std::string_view text : wrong) {
    const std::string error = usage_error([&] { CharTokenizer{text}; });
    EXPECT_TRUE(one_line_with(error, {"byte 2", "iconv -f ENCODING -t UTF-8"})) << error;
  }
}

}  // namespace
}  // namespace nanofsdp::data
