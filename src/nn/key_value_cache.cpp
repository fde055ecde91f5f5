#include "nn/key_value_cache.h"

#include <fmt/format.h>

#include "base/check.h"
#include "ops/elementwise.h"

namespace nanofsdp::nn {

Tensor KeyValueCache::append(Stream& stream, const void* name, Tensor qkv) {
  const std::int64_t count = qkv.dim(1), width = qkv.dim(2);
  Layer& layer = layers_[name];
  NANOFSDP_CHECK(qkv.dim(0) == 1 && layer.length + count <= capacity_, .what = "key-value cache",
                 .expected = fmt::format("one text of at most {} positions", capacity_),
                 .got = fmt::format("{} of {}", qkv.dim(0), layer.length + count));
  if (layer.rows.bytes() == 0)
    layer.rows = context_.buffer(MemoryClass::activations, capacity_ * width, qkv.dtype());
  const Tensor rows = layer.rows.tensor({capacity_ * width}, qkv.dtype());
  ops::copy(stream, {.in = qkv.view({count * width}),
                     .out = rows.slice(layer.length * width, count * width)});
  layer.length += count;
  return rows.slice(0, layer.length * width).view({1, layer.length, width});
}

}  // namespace nanofsdp::nn
