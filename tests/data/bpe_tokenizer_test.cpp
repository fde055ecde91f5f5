#include "data/bpe_tokenizer.h"

#include <gtest/gtest.h>

#include <set>

#include "support/temporary_directory.h"
#include "support/usage_error.h"

namespace nanofsdp::data {
namespace {

using nanofsdp::testing::one_line_with;
using nanofsdp::testing::TemporaryDirectory;
using nanofsdp::testing::usage_error;
using Tokens = std::vector<std::int32_t>;

const std::string kVocab = NANOFSDP_SOURCE_DIR "/tests/parity/gpt2/vocab.json";

BpeTokenizer small() { return {300, read_vocab(kVocab)}; }

// GPT-2's first 256 pieces are the bytes, in GPT-2's own order. Every byte occurs once.
TEST(BpeTokenizer, KnowsEveryByte) {
  const BpeTokenizer tokenizer = small();
  std::set<std::string> bytes;
  for (std::int32_t token = 0; token < 256; ++token) {
    const std::string byte = tokenizer.decode(Tokens{token});
    EXPECT_EQ(byte.size(), 1u) << token;
    bytes.insert(byte);
  }
  EXPECT_EQ(bytes.size(), 256u);
  EXPECT_EQ(tokenizer.decode(Tokens{0, 32, 93, 198, 220, 188}), std::string("!A~\n \0", 6));
  EXPECT_EQ(tokenizer.decode(Tokens{94, 187, 255, 254}), "\xa1\xff\xad\xa0");
}

TEST(BpeTokenizer, ReadsPiecesAsBytes) {
  const BpeTokenizer tokenizer = small();
  EXPECT_EQ(tokenizer.decode(Tokens{259, 262, 220, 69, 260}), " the owl f\xc3\xa9");
  // Half of a character is decoded as half of a character.
  EXPECT_EQ(tokenizer.decode(Tokens{127}), "\xc3");
  EXPECT_EQ(tokenizer.decode(Tokens{263}), "<|endoftext|>");
  EXPECT_EQ(tokenizer.opening(), 263);
}

// Tokens that pad the vocabulary have no piece, and without vocab.json no token has one.
TEST(BpeTokenizer, ShowsTheRestAsNumbers) {
  EXPECT_EQ(small().decode(Tokens{262, 264, 299, 262}), " owl264 299  owl");
  const BpeTokenizer blind(50304, {});
  EXPECT_EQ(blind.decode(Tokens{464, 0, 50256}), "464 0 50256 ");
  EXPECT_EQ(blind.opening(), 0);
  EXPECT_EQ(blind.encode("TOKENS:" + blind.decode(Tokens{464, 0, 50256})), (Tokens{464, 0, 50256}));
}

TEST(BpeTokenizer, TakesAPieceOrNumbersAsAPrompt) {
  const BpeTokenizer tokenizer = small();
  EXPECT_EQ(tokenizer.encode("!"), (Tokens{0}));
  EXPECT_EQ(tokenizer.encode("\n"), (Tokens{198}));
  EXPECT_EQ(tokenizer.encode(" the"), (Tokens{259}));
  EXPECT_EQ(tokenizer.encode("\xc3\xa9"), (Tokens{260}));
  EXPECT_EQ(tokenizer.encode("7"), (Tokens{22}));  // the token of the digit
  EXPECT_EQ(tokenizer.encode("<|endoftext|>"), (Tokens{263}));
  EXPECT_EQ(tokenizer.encode("TOKENS:1,2, 299\n"), (Tokens{1, 2, 299}));
  EXPECT_EQ(tokenizer.encode("TOKENS: 0"), (Tokens{0}));
  for (const char* text : {"Once upon a time", "", "12", "TOKENS:", "TOKENS:1x", "TOKENS:300",
                           "TOKENS:-1", "TOKENS:1 two", "TOKENS:1 99999999999", "tokens:1"}) {
    const std::string error = usage_error([&] { tokenizer.encode(text); });
    EXPECT_TRUE(one_line_with(error, {"--start", "TOKENS:", "below 300", "tiktoken"})) << error;
  }
}

TEST(BpeTokenizer, RefusesWhatIsNotOfBytes) {
  EXPECT_TRUE(one_line_with(usage_error([] {
                              BpeTokenizer(3, {"a", "b c"});
                            }),
                            {"GPT-2's bytes", "'b c'"}));
  EXPECT_TRUE(one_line_with(usage_error([] { BpeTokenizer(3, {"\u0144"}); }), {"GPT-2's bytes"}));
  EXPECT_TRUE(one_line_with(usage_error([] { BpeTokenizer(1, {"a", "b"}); }), {"at most 1", "2"}));
}

TEST(ReadVocab, WantsEveryTokenOnce) {
  const TemporaryDirectory directory;
  EXPECT_EQ(read_vocab(directory.write("v", R"({"b": 1, "\u0120a": 0})")),
            (std::vector<std::string>{"\u0120a", "b"}));
  for (const char* text :
       {"", "[]", "{}", "7", "{", R"({"a": 1})", R"({"a": 0, "b": 0})", R"({"a": -1})",
        R"({"a": 0.5})", R"({"a": "0"})", R"({"": 0})", R"({"a": 18446744073709551615})"}) {
    const std::string path = directory.write("v", text);
    const std::string error = usage_error([&] { read_vocab(path); });
    EXPECT_TRUE(one_line_with(error, {"vocabulary '", "vocab.json"})) << text << error;
  }
  const std::string error = usage_error([] { read_vocab("/nowhere/vocab.json"); });
  EXPECT_TRUE(one_line_with(error, {"/nowhere/vocab.json", "no such file"})) << error;
  EXPECT_TRUE(read_vocab_in("/nowhere").empty());
}

}  // namespace
}  // namespace nanofsdp::data
