#include "nn/key_value_cache.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "base/check.h"
#include "nn/tape.h"
#include "support/tensors.h"

namespace nanofsdp::nn {
namespace {

using testing::Owned;

constexpr std::int64_t kWidth = 6;  // 3C

Owned<float> rows(std::int64_t count, float first) {
  Owned<float> tensor({1, count, kWidth});
  std::iota(tensor.values.begin(), tensor.values.end(), first);
  return tensor;
}

TEST(KeyValueCache, HandsOutAllPositionsOfALayer) {
  Context context;
  KeyValueCache cache(context, 5);
  EXPECT_EQ(cache.length(), 0);
  const int one = 0, other = 0;  // stand for two layers
  Owned<float> prompt = rows(3, 0), next = rows(1, 18), elsewhere = rows(3, 100);
  EXPECT_EQ(cache.append(*context.compute, &one, prompt).shape(), (Shape{1, 3, kWidth}));
  EXPECT_EQ(cache.append(*context.compute, &other, elsewhere).dim(1), 3);
  EXPECT_EQ(cache.length(), 0) << "the pass is not over";
  cache.advance(3);
  EXPECT_EQ(cache.length(), 3);
  const Tensor all = cache.append(*context.compute, &one, next);
  context.compute->synchronize();
  EXPECT_EQ(all.shape(), (Shape{1, 4, kWidth}));
  const auto got = all.span<float>();
  const std::vector<float> want = rows(4, 0).values;
  EXPECT_EQ(std::vector<float>(got.begin(), got.end()), want);
}

TEST(KeyValueCache, ForgetsAndBeginsAgainInTheSameMemory) {
  Context context;
  KeyValueCache cache(context, 4);
  const int layer = 0;
  Owned<float> four = rows(4, 0), one = rows(1, 50);
  cache.append(*context.compute, &layer, four);
  cache.advance(4);
  const std::int64_t bytes = 4 * kWidth * 4;
  EXPECT_EQ(context.ledger.count(MemoryClass::activations).reserved, bytes);
  cache.clear();
  EXPECT_EQ(cache.length(), 0);
  const Tensor all = cache.append(*context.compute, &layer, one);
  context.compute->synchronize();
  EXPECT_EQ(all.shape(), (Shape{1, 1, kWidth}));
  EXPECT_EQ(*all.f32(), 50);
  EXPECT_EQ(context.ledger.count(MemoryClass::activations).reserved, bytes);
  EXPECT_EQ(context.ledger.allocations(), 1);
}

// A pass without the cache has none, even if the pass before had one.
TEST(KeyValueCache, BelongsToThePassesThatDecode) {
  Context context;
  KeyValueCache cache(context, 4);
  Tape tape(context);
  for (const bool training : {false, true}) {
    tape.begin_decoding(cache);
    EXPECT_EQ(tape.cache(), &cache);
    tape.end();
    tape.begin(training);
    EXPECT_EQ(tape.cache(), nullptr);
    tape.end();
  }
}

TEST(KeyValueCache, RefusesMorePositionsThanFitAndSeveralTexts) {
  Context context;
  KeyValueCache cache(context, 4);
  const int layer = 0;
  Owned<float> three = rows(3, 0), two = rows(2, 0), texts({2, 1, kWidth});
  cache.append(*context.compute, &layer, three);
  cache.advance(3);
  EXPECT_THROW(cache.append(*context.compute, &layer, two), Error);
  EXPECT_EQ(cache.length(), 3);
  cache.clear();
  EXPECT_THROW(cache.append(*context.compute, &layer, texts), Error);
}

// The addresses of new layers lie before and behind that of the layer which has rows.
TEST(KeyValueCache, IsUnchangedByRowsThatItRefuses) {
  Context context;
  const int layers[3] = {};
  for (const int* const layer : {&layers[0], &layers[1], &layers[2]}) {
    KeyValueCache cache(context, 4);
    Owned<float> three = rows(3, 0), one = rows(1, 18), two = rows(2, 0), texts({2, 1, kWidth});
    Owned<float> narrow({1, 1, kWidth - 1}), wide({1, 1, kWidth + 1});
    cache.append(*context.compute, &layers[1], three);
    cache.advance(3);
    for (const Tensor& wrong : {two.view(), texts.view()}) {
      EXPECT_THROW(cache.append(*context.compute, layer, wrong), Error);
      EXPECT_EQ(cache.length(), 3);
    }
    for (const Tensor& wrong : {narrow.view(), wide.view()}) {
      EXPECT_THROW(cache.append(*context.compute, &layers[1], wrong), Error);
      EXPECT_EQ(cache.length(), 3);
    }
    const Tensor all = cache.append(*context.compute, &layers[1], one);
    const auto got = all.span<float>();
    EXPECT_EQ(std::vector<float>(got.begin(), got.end()), rows(4, 0).values);
  }
}

}  // namespace
}  // namespace nanofsdp::nn
