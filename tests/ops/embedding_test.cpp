#include "ops/embedding.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <string>
#include <vector>

#include "base/check.h"
#include "support/tensors.h"

namespace nanofsdp::ops::embedding_test {
namespace {

using testing::Owned;
using testing::random_tensor;
using testing::stream_of;
using testing::threads_to_try;

constexpr float kPoison = std::numeric_limits<float>::quiet_NaN();

struct Sizes {
  std::int64_t N, V, C;  // rows, rows of the table, features
};

// One row of the table; few and many indices that share a row; more rows and more columns than a
// block of threads; more rows of the table than blocks that own them.
constexpr Sizes kSizes[] = {{1, 1, 1},     {5, 3, 7},      {768, 65, 128}, {64, 64, 33},
                            {100, 1, 500}, {3, 1000, 384}, {600, 3, 1},    {5, 50257, 2}};

std::string name(const Sizes& s, int threads) {
  return "N=" + std::to_string(s.N) + " V=" + std::to_string(s.V) + " C=" + std::to_string(s.C) +
         " threads=" + std::to_string(threads);
}

Owned<std::int32_t> random_indices(std::int64_t N, std::int64_t V) {
  Owned<std::int32_t> index({N});
  std::mt19937 bits(7);
  for (std::int32_t& i : index.values) i = static_cast<std::int32_t>(bits() % V);
  index.values.back() = static_cast<std::int32_t>(V - 1);  // the last row of the table is used
  return index;
}

TEST(Embedding, ForwardCopiesRows) {
  for (const Sizes& s : kSizes) {
    for (const int threads : threads_to_try({1, 2, 3})) {
      SCOPED_TRACE(name(s, threads));
      Owned<std::int32_t> index = random_indices(s.N, s.V);
      Owned<float> weight = random_tensor({s.V, s.C}, 1), y({s.N, s.C}, kPoison);
      embedding(*stream_of(threads), {.index = index, .weight = weight, .y = y});
      Owned<float> want({s.N, s.C});
      for (std::int64_t i = 0; i < s.N * s.C; ++i) {
        want.values[i] = weight.values[index.values[i / s.C] * s.C + i % s.C];
      }
      EXPECT_EQ(y.values, want.values);
      EXPECT_EQ(weight.values, random_tensor({s.V, s.C}, 1).values);
    }
  }
}

// A sum adds the rows in order, so it has the same bits on any number of threads.
TEST(Embedding, BackwardAddsRowsInOrder) {
  for (const Sizes& s : kSizes) {
    for (const int threads : threads_to_try({1, 2, 3})) {
      SCOPED_TRACE(name(s, threads));
      Owned<std::int32_t> index = random_indices(s.N, s.V);
      Owned<float> dy = random_tensor({s.N, s.C}, 2), dweight = random_tensor({s.V, s.C}, 3);
      Owned<float> want = dweight;
      for (std::int64_t i = 0; i < s.N * s.C; ++i) {
        want.values[index.values[i / s.C] * s.C + i % s.C] += dy.values[i];
      }
      embedding(*stream_of(threads),
                EmbeddingBackward{.index = index, .dy = dy, .dweight = dweight});
      EXPECT_EQ(dweight.values, want.values);
      EXPECT_EQ(dy.values, random_tensor({s.N, s.C}, 2).values);
    }
  }
}

TEST(Embedding, NoRowsChangeNothing) {
  Owned<std::int32_t> index({0});
  Owned<float> weight = random_tensor({5, 4}, 1), rows({0, 4});
  embedding(*stream_of(2), {.index = index, .weight = weight, .y = rows});
  embedding(*stream_of(2), EmbeddingBackward{.index = index, .dy = rows, .dweight = weight});
  EXPECT_EQ(weight.values, random_tensor({5, 4}, 1).values);
}

template <class Exception, class Operands>
void expect_error(const Operands& a, const std::string& words) {
  try {
    embedding(*stream_of(2), a);
    ADD_FAILURE() << "expected an error with: " << words;
  } catch (const Exception& error) {
    EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
  }
}

// In a table of positions, the rows come again and again, in order.
TEST(Embedding, BackwardAddsPositionsInOrder) {
  constexpr std::int64_t N = 1030, T = 9, C = 5;
  Owned<std::int32_t> index({N});
  for (std::int64_t n = 0; n < N; ++n) index.values[n] = static_cast<std::int32_t>(n % T);
  Owned<float> dy = random_tensor({N, C}, 2), dweight = random_tensor({T, C}, 3);
  Owned<float> want = dweight;
  for (std::int64_t i = 0; i < N * C; ++i) want.values[i / C % T * C + i % C] += dy.values[i];
  embedding(*stream_of(1), EmbeddingBackward{.index = index, .dy = dy, .dweight = dweight});
  EXPECT_EQ(dweight.values, want.values);
}

TEST(Embedding, AnIndexOutsideTheTableIsNamedBeforeAnythingIsWritten) {
  if (testing::kDevice == Device::cuda)
    GTEST_SKIP() << "a kernel can only trap: see tests/emulation";
  for (const std::int32_t bad : {-1, 5, std::numeric_limits<std::int32_t>::min()}) {
    Owned<std::int32_t> index({4});
    index.values = {0, 4, bad, 1};
    Owned<float> weight = random_tensor({5, 3}, 1), y({4, 3}, 0.5f);
    const std::string words =
        "embedding: index of row 2: expected a row in [0, 5), got " + std::to_string(bad);
    expect_error<Error>(EmbeddingForward{.index = index, .weight = weight, .y = y}, words);
    expect_error<Error>(EmbeddingBackward{.index = index, .dy = y, .dweight = weight}, words);
    EXPECT_EQ(y.values, testing::Values<float>(12, 0.5f));
    EXPECT_EQ(weight.values, random_tensor({5, 3}, 1).values);
  }
}

TEST(Embedding, AnErrorNamesTheOperand) {
  Owned<std::int32_t> index({4}), square({2, 2});
  Owned<float> weight({5, 3}), y({4, 3}), wrong({4, 2}), vector({4});
  expect_error<ShapeError>(EmbeddingForward{.index = vector, .weight = weight, .y = y},
                           "embedding: index");
  expect_error<ShapeError>(EmbeddingForward{.index = square, .weight = weight, .y = y},
                           "embedding: index");
  expect_error<ShapeError>(EmbeddingForward{.index = index, .weight = vector, .y = y},
                           "embedding: weight");
  expect_error<ShapeError>(EmbeddingForward{.index = index, .weight = weight, .y = wrong},
                           "embedding: y");
  expect_error<ShapeError>(EmbeddingBackward{.index = index, .dy = wrong, .dweight = weight},
                           "embedding: dy");
  expect_error<ShapeError>(EmbeddingBackward{.index = index, .dy = y}, "embedding: dweight");
}

}  // namespace
}  // namespace nanofsdp::ops::embedding_test
