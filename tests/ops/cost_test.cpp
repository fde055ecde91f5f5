#include <gtest/gtest.h>

#include "ops/adamw.h"
#include "ops/attention.h"
#include "ops/copy_chunks.h"
#include "ops/cross_entropy.h"
#include "ops/elementwise.h"
#include "ops/embedding.h"
#include "ops/gelu.h"
#include "ops/layer_norm.h"
#include "ops/matmul.h"
#include "ops/norm.h"

// The cost of each operator, counted by hand for one small shape.

namespace nanofsdp::ops::cost_test {
namespace {

Tensor of(Shape shape, DType dtype = DType::float32) { return Tensor(nullptr, shape, dtype); }

// Expects a cost without products.
void expect_moves(const Cost& cost, double flops, double read, double written, int launches = 1) {
  EXPECT_EQ(cost.products, 0);
  EXPECT_EQ(cost.attention, 0);
  EXPECT_EQ(cost.flops, flops);
  EXPECT_EQ(cost.read, read);
  EXPECT_EQ(cost.written, written);
  EXPECT_EQ(cost.launches, launches);
  EXPECT_EQ(cost.payload.bytes, 0);
}

TEST(Cost, OfElementwise) {
  const Tensor x = of({2, 3});  // 6 elements, 24 bytes
  expect_moves(cost(Add{.a = x, .b = x, .out = x}), 6, 48, 24);
  expect_moves(cost(Scale{.x = x}), 6, 24, 24);
  expect_moves(cost(Fill{.x = x}), 0, 0, 24);
  expect_moves(cost(Copy{.in = x, .out = x}), 0, 24, 24);
  expect_moves(cost(Accumulate{.in = x, .out = x}), 6, 48, 24);
  expect_moves(cost(Arange{.x = x}), 0, 0, 24);
  expect_moves(cost(Dropout{.x = x, .y = x}), 13 * 6, 24, 24);
  expect_moves(cost(GeluForward{.x = x, .y = x}), 40 * 6, 24, 24);
  expect_moves(cost(GeluBackward{.dy = x, .x = x, .dx = x}), 60 * 6, 48, 24);
}

// A CPU's cache also fetches bytes that are overwritten. In place they have been read anyway.
TEST(Cost, TellsWhatIsWrittenWithoutBeingRead) {
  float a[6]{}, b[6]{}, c[15]{}, d[15]{};
  const Shape shape{2, 3};
  const Tensor x(a, shape, DType::float32), y(b, shape, DType::float32);
  EXPECT_EQ(cost(Add{.a = x, .b = x, .out = y}).overwritten, 24);
  EXPECT_EQ(cost(Fill{.x = y}).overwritten, 24);
  EXPECT_EQ(cost(Accumulate{.in = x, .out = y}).overwritten, 0);
  EXPECT_EQ(cost(Scale{.x = y}).overwritten, 0);
  const Tensor w(c, {5, 3}, DType::float32), dy(d, {2, 5}, DType::float32);
  const Cost backward = cost(MatmulBackward{.dy = dy, .x = x, .weight = w, .dx = y, .dweight = w});
  EXPECT_EQ(backward.written, 24 + 60);
  EXPECT_EQ(backward.overwritten, 24);
}

TEST(Cost, OfCastIsOfBothWidths) {
  const Tensor wide = of({2, 3}), narrow = of({2, 3}, DType::bfloat16);
  expect_moves(cost(Cast{.in = wide, .out = narrow}), 0, 24, 12);
  expect_moves(cost(Cast{.in = narrow, .out = wide}), 0, 12, 24);
}

TEST(Cost, OfCopyChunksIsOfTheElementsCopied) {
  float there[100]{}, here[10]{};
  const Tensor rows(there, {100}), whole(here, {10}, DType::bfloat16);
  const CopyChunks a{.row = rows, .whole = whole.slice(0, 7), .chunk = 3, .stride = 40};
  expect_moves(cost(a), 0, 7 * 4, 7 * 2);
  EXPECT_EQ(cost(a).overwritten, 7 * 2);
}

TEST(Cost, OfNormAndAdamW) {
  const Tensor x = of({5}), one = of({1}), sum = of({1}, DType::float64);
  const Tensor sums = of({3}, DType::float64);
  expect_moves(cost(SquaredNorm{.x = x, .out = sum}), 10, 20, 8);
  expect_moves(cost(ClipCoefficient{.squares = sums, .norm = one, .coefficient = one}), 3, 24, 4);
  expect_moves(cost(AdamW{.param = x, .grad = x, .m = x, .v = x}), 75, 4 * 20, 3 * 20);
}

// There are 2 rows of 3 features for the norm, and 2 tokens of 5 classes for the loss.
TEST(Cost, OfLayerNormAndCrossEntropy) {
  const Tensor x = of({2, 3}), w = of({3}), row = of({2});
  expect_moves(
      cost(LayerNormForward{.x = x, .weight = w, .bias = w, .y = x, .mean = row, .rstd = row}), 48,
      24 + 12 + 12, 24 + 8 + 8);
  expect_moves(cost(LayerNormForward{.x = x, .weight = w, .y = x, .mean = row, .rstd = row}), 48,
               24 + 12, 24 + 8 + 8);
  expect_moves(cost(LayerNormBackward{.dy = x,
                                      .x = x,
                                      .weight = w,
                                      .mean = row,
                                      .rstd = row,
                                      .dx = x,
                                      .dweight = w,
                                      .dbias = w}),
               84, 24 + 24 + 12 + 8 + 8 + 12 + 12, 24 + 12 + 12);
  const Tensor logits = of({2, 5}), target = of({2}, DType::int32);
  expect_moves(
      cost(CrossEntropyForward{.logits = logits, .target = target, .loss = row, .lse = row}), 200,
      40 + 8, 16);
  expect_moves(cost(CrossEntropyBackward{.logits = logits, .target = target, .lse = row}), 200,
               40 + 8 + 8, 40);
}

// The index names 2 rows of a table of 100 rows with 3 features.
TEST(Cost, OfEmbeddingIsOfTheRowsLookedUp) {
  const Tensor index = of({2}, DType::int32), table = of({100, 3}), y = of({2, 3});
  expect_moves(cost(EmbeddingForward{.index = index, .weight = table, .y = y}), 0, 24 + 8, 24);
  expect_moves(cost(EmbeddingBackward{.index = index, .dy = y, .dweight = table}), 6, 24 + 24 + 8,
               24);
}

// Each of the three sizes of a product may be the smallest one.
TEST(Cost, OfMatmulNamesItsNarrowestSide) {
  const auto narrowest = [](std::int64_t rows, std::int64_t in, std::int64_t out) {
    return cost(MatmulForward{.x = of({rows, in}), .weight = of({out, in}), .y = of({rows, out})})
        .narrowest;
  };
  EXPECT_EQ(narrowest(4, 9, 7), 4);
  EXPECT_EQ(narrowest(9, 4, 7), 4);
  EXPECT_EQ(narrowest(9, 7, 4), 4);
}

// The product is [2, 3] by [5, 3] transposed: 30 multiply-adds.
TEST(Cost, OfMatmul) {
  const Tensor x = of({2, 3}), w = of({5, 3}), b = of({5}), y = of({2, 5});
  const Cost forward = cost(MatmulForward{.x = x, .weight = w, .bias = b, .y = y});
  EXPECT_EQ(forward.products, 60);
  EXPECT_EQ(forward.narrowest, 2);
  EXPECT_EQ(forward.read, 24 + 60 + 20);
  EXPECT_EQ(forward.written, 40);
  EXPECT_EQ(forward.launches, 1);
  EXPECT_FALSE(forward.bfloat16);

  MatmulBackward backward{.dy = y, .x = x, .weight = w, .dx = x, .dweight = w, .dbias = b};
  const Cost all = cost(backward);
  EXPECT_EQ(all.products, 120);
  EXPECT_EQ(all.read, (40 + 60) + (40 + 24 + 60) + (40 + 20));  // dx, dweight, dbias
  EXPECT_EQ(all.written, 24 + 60 + 20);
  EXPECT_EQ(all.launches, 3);

  backward.dbias = {}, backward.dweight = {};  // the parameters are frozen
  const Cost dx = cost(backward);
  EXPECT_EQ(dx.products, 60);
  EXPECT_EQ(dx.read, 40 + 60);
  EXPECT_EQ(dx.written, 24);
  EXPECT_EQ(dx.launches, 1);

  backward.dx = {}, backward.dweight = w;  // dx is not needed
  const Cost dweight = cost(backward);
  EXPECT_EQ(dweight.products, 60);
  EXPECT_EQ(dweight.read, 40 + 24 + 60);
  EXPECT_EQ(dweight.written, 60);
  EXPECT_EQ(dweight.launches, 1);

  const Tensor narrow = of({5, 3}, DType::bfloat16);
  const Cost half = cost(MatmulForward{.x = x, .weight = narrow, .y = y});
  EXPECT_TRUE(half.bfloat16);
  EXPECT_EQ(half.read, 24 + 30);
}

// 2 sequences of 3 positions have 1 + 2 + 3 pairs each. 4 query heads share 2 heads of keys and
// values, and a head has 5 features.
TEST(Cost, OfAttentionCountsCausalPairs) {
  const Tensor q = of({2, 3, 20}), kv = of({2, 3, 10}), lse = of({2, 4, 3});
  const Heads queries{q, 0, 4}, keys{kv, 0, 2};
  const Cost forward =
      cost(AttentionForward{.q = queries, .k = keys, .v = keys, .y = q, .lse = lse});
  EXPECT_EQ(forward.products, 0);
  EXPECT_EQ(forward.attention, 2 * (2 * 5) * (2 * 4 * 6));  // products of width 5, of pairs
  EXPECT_EQ(forward.flops, 20 * (2 * 4 * 6));               // exponentials
  EXPECT_EQ(forward.read, 480 + 240 + 240);
  EXPECT_EQ(forward.written, 480 + 96);
  EXPECT_EQ(forward.overwritten, 480 + 96);
  EXPECT_EQ(forward.narrowest, 3);  // tokens of a row

  const Cost backward = cost(AttentionBackward{.dy = q,
                                               .q = queries,
                                               .k = keys,
                                               .v = keys,
                                               .y = q,
                                               .lse = lse,
                                               .dq = queries,
                                               .dk = keys,
                                               .dv = keys});
  EXPECT_EQ(backward.attention, 5 * (2 * 5) * (2 * 4 * 6));
  EXPECT_EQ(backward.flops, 20 * (2 * 4 * 6));
  EXPECT_EQ(backward.read, 480 + 480 + 240 + 240 + 480 + 96);
  EXPECT_EQ(backward.written, 480 + 240 + 240);
}

// The third of 3 positions is computed alone, with a cache of the others, so it sees all 3. Its q,
// k and v are packed.
TEST(Cost, OfAttentionWhileDecoding) {
  const Tensor packed = of({1, 3, 12}), y = of({1, 1, 4}), lse = of({1, 2, 1});
  const Cost one = cost(AttentionForward{.q = {packed, 0, 2},
                                         .k = {packed, 4, 2},
                                         .v = {packed, 8, 2},
                                         .y = y,
                                         .lse = lse,
                                         .first = 2});
  EXPECT_EQ(one.attention, 2 * 2 * 4 * 3);
  EXPECT_EQ(one.flops, 20 * 2 * 3);
  EXPECT_EQ(one.written, 16 + 8);
}

}  // namespace
}  // namespace nanofsdp::ops::cost_test
