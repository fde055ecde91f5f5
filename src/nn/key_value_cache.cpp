#include "nn/key_value_cache.h"

#include <fmt/format.h>

#include "base/check.h"
#include "ops/elementwise.h"

namespace nanofsdp::nn {

Tensor KeyValueCache::append(Stream& stream, const void* layer, Tensor qkv) {
  const std::int64_t count = qkv.dim(1), width = qkv.dim(2), length = length_ + count;
  NANOFSDP_CHECK(qkv.dim(0) == 1 && length <= capacity_, .what = "key-value cache",
                 .expected = fmt::format("one text of at most {} positions", capacity_),
                 .got = fmt::format("{} of {}", qkv.dim(0), length));
  const std::int64_t all = capacity_ * width;  // elements of all rows that fit
  Buffer& memory = layers_[layer];
  if (memory.bytes() == 0) memory = context_.buffer(MemoryClass::activations, all, qkv.dtype());
  const std::uint64_t bytes = static_cast<std::uint64_t>(all) * size_of(qkv.dtype());
  NANOFSDP_CHECK(memory.bytes() == bytes, .what = "key-value cache",
                 .expected = fmt::format("rows that fill {} bytes, as before", memory.bytes()),
                 .got = fmt::format("{}", bytes));
  const Tensor rows = memory.tensor({all}, qkv.dtype());
  ops::copy(stream,
            {.in = qkv.view({count * width}), .out = rows.slice(length_ * width, count * width)});
  return rows.slice(0, length * width).view({1, length, width});
}

}  // namespace nanofsdp::nn
