#include "ops/copy_chunks.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <span>

#include "base/transfer.h"
#include "ops/operands.h"

namespace nanofsdp::ops {
namespace {

// Copies elements [begin, end) of the whole.
void copy(const CopyChunks& a, std::int64_t begin, std::int64_t end) {
  while (begin < end) {
    const std::int64_t q = begin / a.chunk, i = begin % a.chunk;
    const std::int64_t n = std::min(end - begin, a.chunk - i);
    const Tensor row = a.row.slice(q * a.stride + a.first + i, n), whole = a.whole.slice(begin, n);
    a.into_row ? convert(whole, row) : convert(row, whole);
    begin += n;
  }
}

// The same if the row has messages.
void widen(const CopyChunks& a, std::int64_t begin, std::int64_t end) {
  float* const whole = a.whole.f32();
  while (begin < end) {
    const std::int64_t q = begin / a.chunk, i = a.first + begin % a.chunk;
    const float8_e4m3* const message = a.row.data<float8_e4m3>() + q * float8_bytes(a.stride);
    const auto& block = reinterpret_cast<const Float8Block*>(message)[i / kFloat8Block];
    const std::int64_t n =
        std::min({end - begin, a.chunk - begin % a.chunk, kFloat8Block - i % kFloat8Block});
    const float8_e4m3* const x = block.x + i % kFloat8Block;
    for (std::int64_t k = 0; k < n; ++k) whole[begin + k] = from_float8(x[k]) * block.scale;
    begin += n;
  }
}

// Rounds the elements of one message.
void round(std::span<const float> x, Float8Block* block) {
  for (; !x.empty(); ++block) {
    const std::span<const float> in = x.first(std::min<std::size_t>(x.size(), kFloat8Block));
    auto largest = std::bit_cast<std::uint32_t>(0x1p-100f);  // bits have the order of magnitudes
    for (const float each : in)
      largest = std::max(largest, std::bit_cast<std::uint32_t>(std::abs(each)));
    const float magnitude = std::bit_cast<float>(largest), factor = 448 / magnitude;
    block->scale = magnitude / 448;
    for (std::size_t i = 0; i < in.size(); ++i) block->x[i] = to_float8(in[i] * factor);
    x = x.subspan(in.size());
  }
}

void round_to_messages(Stream& stream, const Cast& a) {
  const std::int64_t n = a.in.numel(), each = std::max<std::int64_t>(1, a.message);
  const Require require(stream);
  require.numel("cast: in", a.in, n / each * each, DType::float32);
  require.numel("cast: out", a.out, n / each * float8_bytes(each), DType::float8_e4m3);
  if (n == 0) return;
  enqueue_loop(stream, a, n / each, grain_of(each), [a, each](std::int64_t q) {
    float8_e4m3* const message = a.out.data<float8_e4m3>() + q * float8_bytes(each);
    round(a.in.slice(q * each, each).span<float>(), reinterpret_cast<Float8Block*>(message));
  });
}

}  // namespace

void copy_chunks(Stream& stream, const CopyChunks& a) {
  const std::int64_t n = a.whole.numel();
  if (n == 0) return;
  NANOFSDP_CHECK_SHAPE(
      a.chunk > 0 && a.first >= 0 && a.first + a.chunk <= a.stride, .what = "copy_chunks: chunks",
      .expected = "an element or more, inside a shard",
      .got = fmt::format("[{}, {}) of {} elements", a.first, a.first + a.chunk, a.stride));
  const std::int64_t q = (n - 1) / a.chunk, i = (n - 1) % a.chunk;  // the place of the last element
  const bool messages = a.row.dtype() == DType::float8_e4m3 && !a.into_row;
  const Require require(stream, a.whole);
  require.at_least("copy_chunks: row", a.row,
                   messages ? (q + 1) * float8_bytes(a.stride) : q * a.stride + a.first + i + 1,
                   messages);
  messages ? require.numel("copy_chunks: whole", a.whole, n)
           : require.at_least("copy_chunks: whole", a.whole, n);
  const auto body = messages ? widen : copy;
  enqueue_loop(stream, a, n, grain_of(),
               [a, body](std::int64_t begin, std::int64_t end) { body(a, begin, end); });
}

void cast(Stream& stream, const Cast& a) {
  if (a.out.dtype() == DType::float8_e4m3) return round_to_messages(stream, a);
  const Require require(stream);
  std::int64_t each = a.in.numel();
  if (a.in.dtype() == DType::float8_e4m3) {
    each = std::max<std::int64_t>(1, a.message);
    require.numel("cast: in", a.in, a.out.numel() / each * float8_bytes(each), a.in.dtype());
  } else {
    const bool narrow = a.in.dtype() == DType::float32;
    require.numel("cast: in", a.in, each, narrow ? DType::float32 : DType::bfloat16);
    require.numel("cast: out", a.out, each, narrow ? DType::bfloat16 : DType::float32);
  }
  copy_chunks(stream, {.row = a.in, .whole = a.out, .chunk = each, .stride = each});
}

}  // namespace nanofsdp::ops
