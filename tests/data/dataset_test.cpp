#include "data/dataset.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "support/sha256.h"
#include "support/temporary_directory.h"
#include "support/usage_error.h"

namespace nanofsdp::data {
namespace {

using nanofsdp::testing::one_line_with;
using nanofsdp::testing::TemporaryDirectory;
using nanofsdp::testing::usage_error;
using Tokens = std::vector<std::int32_t>;

constexpr std::int64_t T = 8;

/// 200 characters. All parts of T + 1 characters are different.
std::string counting_text() {
  std::string text;
  for (int i = 0; text.size() < 200; ++i) text += std::to_string(i) + " ";
  return text.substr(0, 200);
}

struct Rows {
  Rows(const Dataset& dataset, Split split, Generator& generator, std::int64_t batch_size,
       BatchRows rows)
      : x(static_cast<std::size_t>(rows.count * T)), y(x.size()) {
    dataset.draw(split, generator, batch_size, rows, {x, y});
  }
  Tokens x, y;
};

TEST(Dataset, TrainsOnTheFirstNineTenths) {
  EXPECT_EQ(Dataset(counting_text(), "t", T).size(Split::train), 180);
  EXPECT_EQ(Dataset(counting_text(), "t", T).size(Split::val), 20);
  EXPECT_EQ(Dataset(std::string(99, 'a') + "b", "t", T).size(Split::val), 10);
  EXPECT_EQ(Dataset(std::string(101, 'a'), "t", T).size(Split::train), 90);  // int(90.9)
}

TEST(Dataset, ARowOfYIsTheRowOfXOneTokenLater) {
  const std::string text = counting_text();
  const Dataset dataset(text, "t", T);
  for (const Split split : {Split::train, Split::val}) {
    Generator generator(1337);
    const Rows batch(dataset, split, generator, 6, {0, 6});
    const std::string part = split == Split::train ? text.substr(0, 180) : text.substr(180);
    Generator again(1337);
    for (std::size_t row = 0; row < 6; ++row) {
      const auto start = static_cast<std::size_t>(again.randint(part.size() - T));
      const auto decode = [&](const Tokens& tokens) {
        return dataset.tokenizer().decode(std::span(tokens).subspan(row * T, T));
      };
      EXPECT_EQ(decode(batch.x), part.substr(start, T));
      EXPECT_EQ(decode(batch.y), part.substr(start + 1, T));
    }
    EXPECT_EQ(generator.state(), again.state());  // one draw for each row, and no other
  }
}

// The law: at every world size, the ranks' rows together are the rows of one rank's batch, each
// once, and all generators have the same state afterwards.
TEST(Dataset, RanksDrawTheGlobalBatchAndTakeTheirRows) {
  const Dataset dataset(counting_text(), "t", T);
  for (const StepShape shape : {StepShape{7, 1, 3}, StepShape{4, 6, 3}, StepShape{5, 2, 4}}) {
    Generator alone(1337);
    std::vector<Rows> whole;
    for (int g = 0; g < shape.gradient_accumulation_steps; ++g) {
      whole.emplace_back(dataset, Split::train, alone, shape.batch_size,
                         BatchRows{0, shape.batch_size});
    }
    for (int rank = 0; rank < shape.ranks; ++rank) {
      const std::vector<MicroStep> plan = plan_step(shape, rank);
      Generator generator(1337);
      for (std::int64_t g = 0; g < shape.gradient_accumulation_steps; ++g) {
        BatchRows rows;
        for (const MicroStep& step : plan) {
          if (step.index == g) rows = step.rows;
        }
        const Rows mine(dataset, Split::train, generator, shape.batch_size, rows);
        const Rows& all = whole[static_cast<std::size_t>(g)];
        const auto from = rows.first * T;
        EXPECT_TRUE(std::equal(mine.x.begin(), mine.x.end(), all.x.begin() + from));
        EXPECT_TRUE(std::equal(mine.y.begin(), mine.y.end(), all.y.begin() + from));
      }
      EXPECT_EQ(generator.state(), alone.state()) << "rank " << rank;
    }
  }
}

TEST(Dataset, ReachesTheFirstAndTheLastTokenOfASplit) {
  const Dataset dataset(std::string("<") + std::string(178, '-') + ">" + std::string(20, '.'), "t",
                        T);
  const std::int32_t first = dataset.tokenizer().encode("<")[0];
  const std::int32_t last = dataset.tokenizer().encode(">")[0];
  const std::int32_t foreign = dataset.tokenizer().encode(".")[0];
  Generator generator(1);
  const Rows batch(dataset, Split::train, generator, 3000, {0, 3000});
  EXPECT_GT(std::count(batch.x.begin(), batch.x.end(), first), 0);
  EXPECT_GT(std::count(batch.y.begin(), batch.y.end(), last), 0);
  EXPECT_EQ(std::count(batch.y.begin(), batch.y.end(), foreign), 0);  // no token of the other split
}

TEST(Dataset, TakesATextThatJustHoldsABlockInEachSplit) {
  EXPECT_NO_THROW(Dataset(std::string(81, 'a') + "bbbbbbbbb", "t", 8));
  const std::string error = usage_error([] { Dataset(std::string(80, 'a'), "my.txt", 8); });
  EXPECT_TRUE(one_line_with(error, {"my.txt", "more than 8", "got 8", "--block_size=7"})) << error;
}

TEST(Dataset, RefusesAnEmptyTextAndOneThatIsNotUtf8) {
  const std::string empty = usage_error([] { Dataset("", "my.txt", 8); });
  EXPECT_TRUE(one_line_with(empty, {"my.txt", "an empty text"})) << empty;
  const std::string binary = usage_error([] { Dataset("abc\xff", "my.txt", 8); });
  EXPECT_TRUE(one_line_with(binary, {"my.txt", "byte 3", "UTF-8"})) << binary;
}

TEST(LoadDataset, ReadsTheFileOfText) {
  const TemporaryDirectory directory;
  TextOptions o;
  o.text = directory.write("mine.txt", counting_text());
  EXPECT_EQ(load_dataset(o, T).size(Split::train), 180);
  o.text =
      directory.write("crlf.txt", std::string(90, 'a') + "\r\n\r\nb\rc\n" + std::string(20, 'd'));
  EXPECT_EQ(load_dataset(o, T).tokenizer().chars(), "\nabcd");  // line ends become \n
  EXPECT_EQ(load_dataset(o, T).size(Split::train) + load_dataset(o, T).size(Split::val), 116);
}

TEST(LoadDataset, SaysWhyATextCannotBeRead) {
  const TemporaryDirectory directory;
  TextOptions o;
  const auto error_for = [&](const std::string& path) {
    o.text = path;
    return usage_error([&] { load_dataset(o); });
  };
  EXPECT_TRUE(one_line_with(error_for("/nowhere/x.txt"), {"/nowhere/x.txt", "no such file"}));
  EXPECT_TRUE(one_line_with(error_for(directory.file("")), {"a directory"}));
  EXPECT_TRUE(one_line_with(error_for(directory.write("e", "")), {"an empty text"}));
}

// The model's characters say what a token means. As many others would not do.
TEST(LoadDataset, RefusesATextOfOtherCharacters) {
  const TemporaryDirectory directory;
  TextOptions o;
  o.text = directory.write("mine.txt", std::string(90, 'a') + std::string(90, 'b'));
  for (const char* chars : {"ab", ""}) {
    o.chars = chars;
    EXPECT_EQ(load_dataset(o, T).tokenizer().chars(), "ab");
  }
  for (const char* chars : {"ac", "abc", "b", "Ab"}) {
    o.chars = chars;
    const std::string error = usage_error([&] { load_dataset(o, T); });
    EXPECT_TRUE(one_line_with(error, {"the characters of the model: '", chars, "got 'ab'"}))
        << error;
  }
}

TEST(LoadDataset, TellsTalesWithoutAnyFile) {
  const Dataset dataset = load_dataset({});
  EXPECT_EQ(dataset.name(), "tales");
  EXPECT_GE(dataset.size(Split::train) + dataset.size(Split::val), 1'000'000);
}

class Shakespeare : public ::testing::Test {
 protected:
  Shakespeare() {
    if (const char* value = std::getenv("NANOFSDP_SHAKESPEARE")) original_ = value;
    options_.dataset = "shakespeare_char";
  }
  ~Shakespeare() override {
    if (original_.empty()) {
      ::unsetenv("NANOFSDP_SHAKESPEARE");
    } else {
      ::setenv("NANOFSDP_SHAKESPEARE", original_.c_str(), 1);
    }
  }
  std::string original_;
  TextOptions options_;
};

TEST_F(Shakespeare, SaysHowToGetItWhereItIsMissing) {
  ::setenv("NANOFSDP_SHAKESPEARE", "/nowhere/input.txt", 1);
  const std::string error = usage_error([&] { load_dataset(options_); });
  EXPECT_TRUE(one_line_with(error, {"/nowhere/input.txt", "make shakespeare"})) << error;
}

// The sizes are those that nanoGPT's prepare.py prints, and the SHA-256 is that of its train.bin.
TEST_F(Shakespeare, IsNanoGPTsData) {
  if (original_.empty()) GTEST_SKIP() << "NANOFSDP_SHAKESPEARE is not set: run `make shakespeare`";
  const Dataset dataset = load_dataset(options_);
  EXPECT_EQ(dataset.tokenizer().vocab_size(), 65);
  EXPECT_EQ(dataset.tokenizer().chars().substr(0, 13), "\n !$&',-.3:;?");
  EXPECT_EQ(dataset.size(Split::train), 1'003'854);
  EXPECT_EQ(dataset.size(Split::val), 111'540);

  const Tokens tokens = dataset.tokenizer().encode(nanofsdp::testing::read_file(original_));
  const std::vector<std::uint16_t> train(tokens.begin(), tokens.begin() + 1'003'854);
  EXPECT_EQ(nanofsdp::testing::sha256(std::span<const std::uint16_t>(train)),
            "6ec305602a99ac2802745a134e1f5e33e2231b4855525b00b9aebb730ac2626f");
}

}  // namespace
}  // namespace nanofsdp::data
