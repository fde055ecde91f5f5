#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "data/dataset.h"
#include "support/temporary_directory.h"
#include "support/usage_error.h"

// Files as nanoGPT's prepare.py writes them: data/NAME/train.bin and val.bin, with the files beside
// them.

namespace nanofsdp::data::encoded_dataset_test {
namespace {

namespace fs = std::filesystem;
using nanofsdp::testing::one_line_with;
using nanofsdp::testing::TemporaryDirectory;
using nanofsdp::testing::usage_error;
using Tokens = std::vector<std::int32_t>;

constexpr std::int64_t T = 8;

std::string bytes_of(const std::vector<std::uint16_t>& tokens) {
  std::string bytes;
  for (const std::uint16_t token : tokens) {
    bytes += static_cast<char>(token & 0xff);
    bytes += static_cast<char>(token >> 8);
  }
  return bytes;
}

// Works in a directory of its own that has data/owls.
class Encoded : public ::testing::Test {
 protected:
  Encoded() : before_(fs::current_path()) {
    for (int i = 0; i < 200; ++i) train_.push_back(static_cast<std::uint16_t>(i * 251));
    for (int i = 0; i < 40; ++i) val_.push_back(static_cast<std::uint16_t>(7 + i));
    fs::create_directories(directory_.file("data/owls"));
    write("train.bin", bytes_of(train_));
    write("val.bin", bytes_of(val_));
    fs::current_path(directory_.file(""));
    options_.dataset = "owls";
  }
  ~Encoded() override { fs::current_path(before_); }

  void write(const std::string& name, const std::string& content) {
    directory_.write("data/owls/" + name, content);
  }
  std::string error() const {
    return usage_error([&] { load_dataset(options_, T); });
  }

  TemporaryDirectory directory_;
  fs::path before_;
  std::vector<std::uint16_t> train_, val_;
  TextOptions options_;
};

// This is nanoGPT's get_batch: a row has T tokens, begins at randint(size - T), and y is one token
// further.
TEST_F(Encoded, DrawsWhereNanoGPTDraws) {
  const Dataset dataset = load_dataset(options_, T);
  EXPECT_EQ(dataset.name(), "data/owls");
  EXPECT_EQ(dataset.size(Split::train), 200);
  EXPECT_EQ(dataset.size(Split::val), 40);
  EXPECT_EQ(dataset.tokenizer().vocab_size(), 50304);
  for (const Split split : {Split::train, Split::val}) {
    const auto& all = split == Split::train ? train_ : val_;
    Tokens x(5 * T), y(5 * T);
    Generator generator(1337), again(1337);
    dataset.draw(split, generator, 5, {0, 5}, {x, y});
    for (std::size_t row = 0; row < 5; ++row) {
      const auto start = static_cast<std::size_t>(again.randint(all.size() - T));
      for (std::size_t t = 0; t < T; ++t) {
        EXPECT_EQ(x[row * T + t], all[start + t]);
        EXPECT_EQ(y[row * T + t], all[start + t + 1]);
      }
    }
    EXPECT_EQ(generator.state(), again.state());
  }
}

TEST_F(Encoded, HasTheVocabularyThatLiesBeside) {
  EXPECT_EQ(load_dataset(options_, T).tokenizer().decode(Tokens{1, 2}), "1 2 ");
  write("vocab.json", R"({"\u0120ow": 0, "l": 1, "s": 2})");
  EXPECT_EQ(load_dataset(options_, T).tokenizer().decode(Tokens{0, 1, 2, 3}), " owls3 ");
  EXPECT_EQ(load_dataset(options_, T).tokenizer().vocab_size(), 50304);
  options_.vocab_size = 50257;  // the size of GPT-2's own vocabulary
  EXPECT_EQ(load_dataset(options_, T).tokenizer().vocab_size(), 50257);
  write("meta.json", R"({"vocab_size": 50257})");
  EXPECT_EQ(load_dataset(options_, T).tokenizer().decode(Tokens{0, 1, 2, 3}), " owls3 ");
  fs::remove("data/owls/vocab.json");
  options_.pieces = {"owl"};  // those of the model
  EXPECT_EQ(load_dataset(options_, T).tokenizer().decode(Tokens{0}), "owl");
  fs::remove("data/owls/meta.json");
  EXPECT_EQ(load_dataset(options_, T).tokenizer().decode(Tokens{0}), "owl");
  write("meta.json", R"({"vocab_size": 64000})");
  options_ = {.dataset = "owls"};
  EXPECT_EQ(load_dataset(options_, T).tokenizer().vocab_size(), 64000);
}

TEST_F(Encoded, OfCharactersHasAnAlphabet) {
  write("meta.json", R"({"vocab_size": 3, "itos": {"0": "\n", "1": "a", "2": "\u00e9"},
                         "stoi": {"\n": 0, "a": 1, "\u00e9": 2}})");
  const Dataset dataset = load_dataset(options_, T);
  EXPECT_EQ(dataset.tokenizer().chars(), "\na\u00e9");
  EXPECT_EQ(dataset.tokenizer().decode(Tokens{1, 2, 0}), "a\u00e9\n");
  for (const char* wrong :
       {"", "[]", "{}", R"({"vocab_size": 0})", R"({"vocab_size": -1})", R"({"vocab_size": 70000})",
        R"({"vocab_size": 5.7})", R"({"vocab_size": 1, "stoi": {"a": 0.5}})",
        R"({"vocab_size": "3"})", R"({"vocab_size": 3, "stoi": {"a": 0, "b": 1}})",
        R"({"vocab_size": 2, "stoi": {"a": 1, "b": 0}})",
        R"({"vocab_size": 1, "stoi": {"a": "0"}})", R"({"vocab_size": 2, "stoi": {"ab": 0}})",
        R"({"vocab_size": 1, "stoi": [0]})"}) {
    write("meta.json", wrong);
    EXPECT_TRUE(one_line_with(error(), {"data/owls/meta.json", "meta.pkl as JSON"}))
        << wrong << error();
  }
}

// The tokens that prepare.py makes of a text have the same splits, and so the same batches, as the
// text.
TEST_F(Encoded, IsTheTextThatWasEncoded) {
  std::string text;
  for (int i = 0; text.size() < 200; ++i) text += std::to_string(i * i) + "\n";
  text.resize(200);
  const Dataset whole(text, "t", T);
  const Tokens tokens = whole.tokenizer().encode(text);
  write("train.bin", bytes_of({tokens.begin(), tokens.begin() + 180}));
  write("val.bin", bytes_of({tokens.begin() + 180, tokens.end()}));
  write("meta.json", R"({"vocab_size": 11, "stoi": {"\n": 0, "0": 1, "1": 2, "2": 3, "3": 4, "4": 5,
                         "5": 6, "6": 7, "7": 8, "8": 9, "9": 10}})");
  const Dataset encoded = load_dataset(options_, T);
  EXPECT_EQ(encoded.tokenizer().chars(), whole.tokenizer().chars());
  EXPECT_EQ(encoded.fingerprint(), whole.fingerprint());
}

// Only Python reads a pickle, so the message gives the command that converts it.
TEST_F(Encoded, SaysHowToConvertAPickle) {
  write("meta.pkl", "\x80\x04\x95");
  EXPECT_TRUE(one_line_with(
      error(), {"data/owls/meta.pkl", "meta.json beside it", "python3 -c",
                "open('data/owls/meta.pkl', 'rb')", "open('data/owls/meta.json', 'w')"}))
      << error();
  write("meta.json", R"({"vocab_size": 60000})");
  EXPECT_EQ(load_dataset(options_, T).tokenizer().vocab_size(), 60000);
}

TEST_F(Encoded, NamesTheFileThatIsWrong) {
  write("val.bin", bytes_of(val_) + "x");
  EXPECT_TRUE(one_line_with(error(), {"data/owls/val.bin", "tokens of two bytes", "81 bytes"}));
  write("val.bin", bytes_of(std::vector<std::uint16_t>(8)));
  EXPECT_TRUE(one_line_with(error(), {"data/owls/val.bin", "more than 8 tokens", "16 bytes"}));
  write("train.bin", "");
  EXPECT_TRUE(one_line_with(error(), {"data/owls/train.bin", "0 bytes"}));
  fs::remove("data/owls/train.bin");
  EXPECT_TRUE(one_line_with(error(), {"--dataset=owls", "data/owls/train.bin", "prepare.py",
                                      "no such file", "--text=FILE"}))
      << error();
  fs::create_directory("data/owls/train.bin");
  EXPECT_TRUE(one_line_with(error(), {"a directory"}));
}

TEST_F(Encoded, NamesATokenThatTheModelLacks) {
  options_.vocab_size = 40'000;  // the largest token of this file is 49,949
  const Dataset dataset = load_dataset(options_, T);
  Tokens x(50 * T), y(50 * T);
  Generator generator(1);
  const std::string error = usage_error([&] {
    dataset.draw(Split::train, generator, 50, {0, 50}, {x, y});
  });
  EXPECT_TRUE(
      one_line_with(error, {"data/owls/train.bin, token 1", "below the vocabulary's 40000"}))
      << error;
  EXPECT_NO_THROW(dataset.draw(Split::val, generator, 50, {0, 50}, {x, y}));
}

// The largest token of the validation text is 46, and there are enough rows to draw it.
TEST_F(Encoded, KnowsTheTokensBelowItsVocabulary) {
  for (int vocabulary = 40; vocabulary < 50; ++vocabulary) {
    write("meta.json", "{\"vocab_size\": " + std::to_string(vocabulary) + "}");
    const Dataset dataset = load_dataset(options_, T);
    Tokens x(500 * T), y(500 * T);
    Generator generator(1);
    const std::string error = usage_error([&] {
      dataset.draw(Split::val, generator, 500, {0, 500}, {x, y});
    });
    EXPECT_EQ(error == "no error", vocabulary > 46) << vocabulary << ": " << error;
  }
}

// As many tokens with other texts are other tokens.
TEST_F(Encoded, RefusesDataOfOtherPieces) {
  write("vocab.json", R"({"ow": 0, "l": 1, "s": 2})");
  options_.vocab_size = 50304;
  options_.pieces = {"ow", "l", "s"};
  EXPECT_EQ(error(), "no error");
  options_.pieces = {"l", "ow", "s"};
  EXPECT_TRUE(one_line_with(error(), {"data/owls", "the 50304 tokens of the model", "50304 others",
                                      "the model's tokenizer"}))
      << error();
  options_.pieces = {"a", "b"};
  options_.vocab_size = 2;
  options_.text = directory_.write("t.txt", std::string(90, 'a') + std::string(90, 'b'));
  EXPECT_TRUE(one_line_with(error(), {"t.txt", "the 2 tokens of the model", "2 others"}))
      << error();
}

// A pretrained model has tokens of its own.
TEST_F(Encoded, RefusesDataOfAnotherVocabulary) {
  options_.vocab_size = 50257;
  write("meta.json", R"({"vocab_size": 64000})");
  EXPECT_TRUE(one_line_with(error(), {"data/owls", "the 50257 tokens of the model", "64000"}));
  options_.dataset = "tales";
  EXPECT_TRUE(one_line_with(error(), {"tales", "50257", "prepare.py"})) << error();
}

TEST_F(Encoded, HasAFingerprintOfItsTokens) {
  const std::uint64_t before = load_dataset(options_, T).fingerprint();
  EXPECT_EQ(load_dataset(options_, T).fingerprint(), before);
  for (const auto& [name, tokens] : {std::pair("train.bin", &train_), {"val.bin", &val_}}) {
    const std::string bytes = bytes_of(*tokens);
    for (const std::size_t changed : {std::size_t{0}, bytes.size() / 3, bytes.size() - 1}) {
      std::string other = bytes;
      other[changed] ^= 1;
      write(name, other);
      EXPECT_NE(load_dataset(options_, T).fingerprint(), before) << name << " " << changed;
    }
    write(name, bytes + "ab");
    EXPECT_NE(load_dataset(options_, T).fingerprint(), before) << name;
    write(name, bytes);
  }
}

// The bytes of this process that are in memory.
std::int64_t resident() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmRSS:")) return std::stoll(line.substr(6)) * 1024;
  }
  return -1;
}

// The file has ten gigabytes of tokens, but takes almost no space on the disk or in memory. The
// test takes seconds, because the system must find a page for each token that is read.
TEST_F(Encoded, AFileLargerThanMemoryCostsOnlyWhatIsDrawn) {
  constexpr std::uintmax_t kBytes = 10'000'000'000;
  std::error_code error;
  fs::resize_file("data/owls/train.bin", kBytes, error);
  if (error || resident() < 0) GTEST_SKIP() << "no sparse files, or no /proc, here";
  const std::int64_t before = resident();
  const Dataset dataset = load_dataset(options_, T);
  EXPECT_EQ(dataset.size(Split::train), 5'000'000'000);
  Tokens x(64 * T), y(64 * T);
  Generator generator(1337);
  dataset.draw(Split::train, generator, 64, {0, 64}, {x, y});
  const std::uint64_t fingerprint = dataset.fingerprint();
  EXPECT_LT(resident() - before, 100'000'000);
  EXPECT_NE(fingerprint, 0u);
}

}  // namespace
}  // namespace nanofsdp::data::encoded_dataset_test
