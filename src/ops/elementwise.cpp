#include "ops/elementwise.h"

#include <Eigen/Core>
#include <algorithm>
#include <cstdint>

#include "base/transfer.h"
#include "ops/operands.h"

namespace nanofsdp::ops {
namespace {

using Map = Eigen::Map<Eigen::ArrayXf>;
using ConstMap = Eigen::Map<const Eigen::ArrayXf>;

constexpr std::int64_t kChunk = 512;

// Works in place after a copy, because y may be x: compilers vectorise a loop with one pointer.
void dropout_row(const float* x, float* y, std::int64_t n, std::uint64_t key,
                 std::uint32_t threshold, float factor) {
  for (std::int64_t begin = 0; begin < n; begin += kChunk) {
    const std::int64_t end = std::min(n, begin + kChunk);
    prefetch(x + begin + kAhead, end - begin);
    if (x != y) std::copy(x + begin, x + end, y + begin);
    for (std::int64_t i = begin; i < end; ++i)
      y[i] = keep(key, static_cast<std::uint32_t>(i), threshold) ? y[i] * factor : 0.0f;
  }
}

}  // namespace

void add(Stream& stream, const Add& a) {
  const Require require(stream, a.out);
  const std::int64_t n = a.out.numel();
  require.numel("add: a", a.a, n);
  require.numel("add: b", a.b, n);
  require.numel("add: out", a.out, n);
  enqueue_loop(stream, a, n, grain_of(), [a](std::int64_t begin, std::int64_t end) {
    const std::int64_t size = end - begin;
    Map(a.out.f32() + begin, size) =
        ConstMap(a.a.f32() + begin, size) + ConstMap(a.b.f32() + begin, size);
  });
}

void scale(Stream& stream, const Scale& a) {
  const Require require(stream);
  require.numel("scale: x", a.x, a.x.numel());
  enqueue_loop(stream, a, a.x.numel(), grain_of(), [a](std::int64_t begin, std::int64_t end) {
    Map(a.x.f32() + begin, end - begin) *= a.factor;
  });
}

void fill(Stream& stream, const Fill& a) {
  const Require require(stream);
  const DType dtype = a.x.dtype();
  const bool known = dtype == DType::float64 || dtype == DType::bfloat16;
  require.numel("fill: x", a.x, a.x.numel(), known ? dtype : DType::float32);
  const auto fill_with = [&](auto value) {
    enqueue_loop(stream, a, a.x.numel(), grain_of(), [a, value](auto begin, auto end) {
      std::fill_n(a.x.data<decltype(value)>() + begin, end - begin, value);
    });
  };
  if (dtype == DType::float64) return fill_with(double{a.value});
  if (dtype == DType::bfloat16) return fill_with(to_bfloat16(a.value));
  fill_with(a.value);
}

void copy(Stream& stream, const Copy& a) {
  const Require require(stream);
  require.numel("copy: in", a.in, a.out.numel(), a.out.dtype());
  require.numel("copy: out", a.out, a.out.numel(), a.out.dtype());
  stream.enqueue(cost(a), [&stream, a] { copy_within(stream, a.in.raw(), a.out); });
}

void accumulate(Stream& stream, const Accumulate& a) {
  const Require require(stream, a.out);
  require.numel("accumulate: in", a.in, a.out.numel());
  require.numel("accumulate: out", a.out, a.out.numel());
  add(stream, {.a = a.out, .b = a.in, .out = a.out});
}

void arange(Stream& stream, const Arange& a) {
  const Require require(stream);
  require.numel("arange: x", a.x, a.x.numel(), DType::int32);
  NANOFSDP_CHECK(a.period >= 1, .what = "arange: period", .expected = "at least 1",
                 .got = fmt::format("{}", a.period));
  enqueue(stream, a, [a] {
    std::int32_t* x = a.x.data<std::int32_t>();
    for (std::int64_t i = 0; i < a.x.numel(); ++i) x[i] = static_cast<std::int32_t>(i % a.period);
  });
}

void dropout(Stream& stream, const Dropout& a) {
  const Require require(stream, a.x);
  require("dropout: x", a.x, a.x.shape());
  require("dropout: y", a.y, a.x.shape());
  const std::uint32_t threshold = drop_threshold(a.p);
  if (a.x.empty()) return;
  const std::int64_t rows = a.x.shape().rank() > 0 ? a.x.dim(0) : 1, n = a.x.numel() / rows;
  const float factor = 1 / (1 - a.p);
  enqueue_loop(stream, a, rows, grain_of(n), [=](std::int64_t r) {
    dropout_row(a.x.f32() + r * n, a.y.f32() + r * n, n, row_key(a.key, r), threshold, factor);
  });
}

}  // namespace nanofsdp::ops
