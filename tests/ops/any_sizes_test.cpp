#include <gtest/gtest.h>

#include <deque>
#include <functional>
#include <initializer_list>
#include <limits>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "base/check.h"
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
#include "support/device.h"

// Tests every operator with sizes and numbers that make no sense: 0 among them, and -1. It
// computes, or it throws an Error. It never ends the program.

namespace nanofsdp::ops::any_sizes_test {
namespace {

// Draws the operands of one call, and owns their elements, which are zeros.
class Operands {
 public:
  explicit Operands(std::uint32_t seed) : bits_(seed) {}

  std::int64_t from(std::int64_t least, std::int64_t most) {
    return least +
           static_cast<std::int64_t>(bits_() % static_cast<std::uint32_t>(most - least + 1));
  }
  std::int64_t size() { return from(0, 3); }
  template <class T>
  T one_of(std::initializer_list<T> values) {
    return values.begin()[bits_() % values.size()];
  }
  float number() {
    return one_of({0.0f, 0.5f, 1.0f, 2.0f, -0.1f, std::numeric_limits<float>::quiet_NaN()});
  }
  DType dtype() {
    return one_of(
        {DType::float32, DType::bfloat16, DType::float64, DType::int32, DType::float8_e4m3});
  }
  Tensor tensor(Shape shape, DType dtype = DType::float32) {
    auto& elements = memory_.emplace_back(static_cast<std::size_t>(shape.numel() + 1));
    return Tensor(elements.data(), shape, dtype, testing::kDevice);
  }

 private:
  std::mt19937 bits_;
  std::deque<testing::Values<double>> memory_;
};

using Call = std::function<void(Operands&, Stream&)>;

void call_attention(Operands& o, Stream& stream) {
  const std::int64_t B = o.size(), T = o.size(), D = o.size(), H = o.from(1, 3);
  const auto heads = [&](std::int64_t number) {
    return Heads{o.tensor({B, T, number * D + o.size()}), o.from(-1, 1),
                 static_cast<int>(number + o.one_of({0, 0, 0, -3}))};
  };
  const auto several = [&] { return o.one_of<std::int64_t>({H, H, 1, 2}); };
  const std::int64_t first = o.one_of<std::int64_t>({0, 0, 1, -1}), H_kv = several();
  const float dropout = o.number();
  const Tensor scratch = o.tensor({4096});
  const Heads q = heads(H), k = heads(H_kv), v = heads(H_kv);
  if (o.from(0, 1) == 0) {
    const std::int64_t n = std::max<std::int64_t>(T - first, 0);
    return attention(stream, AttentionForward{.q = q,
                                              .k = k,
                                              .v = v,
                                              .y = o.tensor({B, n, H * D}),
                                              .lse = o.tensor({B, H, n}),
                                              .scratch = scratch,
                                              .dropout = dropout,
                                              .first = first});
  }
  const Tensor y = o.tensor({B, T, H * D});
  attention(stream, AttentionBackward{.dy = y,
                                      .q = q,
                                      .k = k,
                                      .v = v,
                                      .y = y,
                                      .lse = o.tensor({B, H, T}),
                                      .dq = heads(H),
                                      .dk = heads(H_kv),
                                      .dv = heads(H_kv),
                                      .scratch = scratch,
                                      .dropout = dropout});
}

void call_layer_norm(Operands& o, Stream& stream) {
  const std::int64_t R = o.size(), C = o.size();
  const Tensor x = o.tensor({R, C}), row = o.tensor({C}), column = o.tensor({R});
  layer_norm(stream, LayerNormForward{x, row, row, o.tensor({R, C}), column, o.tensor({R})});
  layer_norm(stream, LayerNormBackward{x, x, row, column, column, o.tensor({R, C}),
                                       o.tensor({o.one_of({C, C, C + 1})}), o.tensor({C})});
}

void call_matmul(Operands& o, Stream& stream) {
  const std::int64_t N = o.size(), K = o.size(), M = o.size();
  const Tensor x = o.tensor({N, K}), weight = o.tensor({M, K}), y = o.tensor({N, M});
  matmul(stream, MatmulForward{x, weight, o.tensor({M}), y});
  matmul(stream, MatmulBackward{y, x, weight, o.tensor({N, K}),
                                o.tensor({M, o.one_of({K, K, K + 1})}), o.tensor({M})});
}

void call_cross_entropy(Operands& o, Stream& stream) {
  const std::int64_t N = o.size(), V = o.size();
  const Tensor logits = o.tensor({N, V}), lse = o.tensor({N});
  const Tensor target = o.tensor({o.one_of({N, N, N + 1})}, DType::int32);
  cross_entropy(stream, CrossEntropyForward{logits, target, o.tensor({N}), lse});
  cross_entropy(stream, CrossEntropyBackward{logits, target, lse, o.number()});
}

void call_embedding(Operands& o, Stream& stream) {
  const std::int64_t N = o.size(), V = o.size(), C = o.size();
  const Tensor index = o.tensor({N}, DType::int32), y = o.tensor({N, C});
  embedding(stream, EmbeddingForward{index, o.tensor({V, C}), y});
  embedding(stream, EmbeddingBackward{index, y, o.tensor({V, C})});
}

void call_elementwise(Operands& o, Stream& stream) {
  const std::int64_t n = o.size();
  const auto other = [&] { return o.one_of({n, n, n, n + 1}); };
  add(stream, {o.tensor({n}), o.tensor({other()}), o.tensor({n})});
  scale(stream, {o.tensor({n}), o.number()});
  fill(stream, {o.tensor({n}, o.one_of({DType::float32, DType::bfloat16})), o.number()});
  accumulate(stream, {o.tensor({n}), o.tensor({other()})});
  gelu(stream, GeluForward{o.tensor({n, n}), o.tensor({n, n})});
  gelu(stream, GeluBackward{o.tensor({n}), o.tensor({n}), o.tensor({other()})});
  copy(stream, {o.tensor({n}), o.tensor({other()})});
}

void call_norm(Operands& o, Stream& stream) {
  squared_norm(stream, {.x = o.tensor({o.size()}),
                        .out = o.tensor({o.from(0, 2)}, DType::float64),
                        .part = o.from(-1, 2),
                        .offset = o.from(-1, 1)});
  clip_coefficient(stream, {.squares = o.tensor({o.size()}, DType::float64),
                            .max_norm = o.number(),
                            .norm = o.tensor({1}),
                            .coefficient = o.tensor({1})});
}

const std::pair<const char*, Call> kCalls[] = {
    {"adamw",
     [](Operands& o, Stream& stream) {
       const std::int64_t n = o.size();
       adamw(stream, {.param = o.tensor({n}),
                      .grad = o.tensor({n}),
                      .m = o.tensor({n}),
                      .v = o.tensor({n}),
                      .lr = o.number(),
                      .beta1 = o.one_of({0.9, 0.0, 1.0}),
                      .beta2 = o.one_of({0.9, 0.0, -0.1}),
                      .step = o.from(-1, 3)});
     }},
    {"attention", call_attention},
    {"copy_chunks",
     [](Operands& o, Stream& stream) {
       copy_chunks(stream, {.row = o.tensor({o.size()}),
                            .whole = o.tensor({o.size()}),
                            .first = o.from(-1, 1),
                            .chunk = o.from(-1, 2),
                            .stride = o.from(-1, 2),
                            .into_row = o.from(0, 1) == 1});
     }},
    {"cast",
     [](Operands& o, Stream& stream) {
       const std::int64_t n = o.size();
       const DType out = o.dtype();
       cast(stream, {.in = o.tensor({n}, o.dtype()),
                     .out = o.tensor({o.one_of({n, 8 * n})}, out),
                     .message = o.from(-1, 3)});
     }},
    {"cross_entropy", call_cross_entropy},
    {"elementwise", call_elementwise},
    {"arange",
     [](Operands& o, Stream& stream) {
       arange(stream, {o.tensor({o.size()}, DType::int32), o.from(-1, 2)});
     }},
    {"dropout",
     [](Operands& o, Stream& stream) {
       const Shape shape{o.size(), o.size()};
       dropout(stream, {.x = o.tensor(shape), .y = o.tensor(shape), .p = o.number()});
     }},
    {"embedding", call_embedding},
    {"layer_norm", call_layer_norm},
    {"matmul", call_matmul},
    {"norm", call_norm},
};

TEST(Operators, ComputeOrRefuseWhateverTheSizes) {
  for (const auto& [name, call] : kCalls) {
    int computed = 0, refused = 0;
    auto stream = testing::stream_of(2);
    for (std::uint32_t seed = 0; seed < 200; ++seed) {
      Operands operands(seed);
      try {
        call(operands, *stream);
        stream->synchronize();
        ++computed;
      } catch (const Error&) {
        stream = testing::stream_of(2);
        ++refused;
      }
    }
    EXPECT_GT(computed, 0) << name;
    EXPECT_GT(refused, 0) << name;
  }
}

}  // namespace
}  // namespace nanofsdp::ops::any_sizes_test
