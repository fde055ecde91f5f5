#include "ops/embedding.h"

#include <algorithm>

#include "ops/operands.h"

namespace nanofsdp::ops {

void embedding(Stream& stream, const EmbeddingForward& a) {
  const Require require(stream, a.y);
  const std::int64_t N = a.index.numel(), V = a.weight.dim(0), C = a.weight.dim(1);
  require("embedding: index", a.index, {N}, DType::int32);
  require.parameter("embedding: weight", a.weight, {V, C});
  require("embedding: y", a.y, {N, C});

  enqueue(stream, a, [&stream, a, N, V, C] {
    require_indices("embedding: index of row", a.index, 0, "a row", V);
    const std::int32_t* index = a.index.data<std::int32_t>();
    const float* weight = a.weight.f32();
    float* y = a.y.f32();
    stream.parallel_for(N, grain_of(C),
                        [&](std::int64_t n) { std::copy_n(weight + index[n] * C, C, y + n * C); });
  });
}

void embedding(Stream& stream, const EmbeddingBackward& a) {
  const Require require(stream, a.dy);
  const std::int64_t N = a.index.numel(), V = a.dweight.dim(0), C = a.dweight.dim(1);
  require("embedding: index", a.index, {N}, DType::int32);
  require("embedding: dweight", a.dweight, {V, C}, DType::float32);
  require("embedding: dy", a.dy, {N, C});

  enqueue(stream, a, [&stream, a, N, V, C] {
    require_indices("embedding: index of row", a.index, 0, "a row", V);
    const std::int32_t* index = a.index.data<std::int32_t>();
    const float* dy = a.dy.f32();
    float* dweight = a.dweight.f32();
    // The threads share the columns. Each adds all rows in order, so no two threads write the same
    // element.
    stream.parallel_for(C, grain_of(N), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t n = 0; n < N; ++n) {
        const float* from = dy + n * C;
        float* to = dweight + index[n] * C;
        for (std::int64_t c = begin; c < end; ++c) to[c] += from[c];
      }
    });
  });
}

}  // namespace nanofsdp::ops
