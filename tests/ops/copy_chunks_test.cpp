#include "ops/copy_chunks.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <vector>

#include "base/check.h"
#include "support/errors.h"
#include "support/tensors.h"

namespace nanofsdp::ops::copy_chunks_test {
namespace {

using testing::expect_error;
using testing::Owned;
using testing::random_tensor;
using testing::stream_of;
using testing::threads_to_try;

struct Chunks {
  std::int64_t numel, chunk, in_stride, out_stride;
  std::int64_t before = 0;  // elements of both memories before the first chunk
};

// One chunk; whole chunks; a short last chunk; chunks of one element; more elements than a block of
// a kernel copies, and than a row of blocks; starts at multiples of 16 bytes and elsewhere.
const std::vector<Chunks> kChunks{{1, 1, 1, 1},
                                  {5, 5, 7, 5},
                                  {12, 4, 9, 4},
                                  {12, 4, 4, 4},
                                  {11, 4, 9, 6, 3},
                                  {16, 8, 24, 8, 8},
                                  {16, 8, 24, 8, 2},
                                  {20, 8, 24, 8},
                                  {22, 8, 24, 8},
                                  {12, 3, 8, 4},
                                  {16, 8, 22, 8},
                                  {16, 8, 24, 10},
                                  {1500, 1, 3, 1},
                                  {3 * 4100, 4100, 4104, 4100, 4},
                                  {40001, 10001, 10007, 10003, 1}};

std::uint32_t bits(float x) { return std::bit_cast<std::uint32_t>(x); }
std::uint32_t bits(bfloat16 x) { return x.bits; }

// Numbers that are large, numbers that are ties, and NaN, which rounding must keep.
template <class T>
Owned<T> some(std::int64_t n) {
  Owned<float> x = random_tensor({n}, 1, 1e3f);
  for (std::size_t i = 0; i < x.values.size(); i += 5) x.values[i] = 1 + 0x1p-8f;
  for (std::size_t i = 3; i < x.values.size(); i += 7)
    x.values[i] = std::bit_cast<float>(0x7f800001);
  if constexpr (dtype_of<T> == DType::bfloat16) {
    return testing::narrow(x);
  } else {
    return x;
  }
}

// The result of cast for x, if the dtypes differ.
template <class Out, class In>
Owned<Out> as(Owned<In>& x) {
  if constexpr (dtype_of<In> == dtype_of<Out>) {
    return x;
  } else {
    Owned<Out> y(x.shape);
    cast(*stream_of(), {.in = x, .out = y});
    return y;
  }
}

// Compares every copied element, and checks that no other element has changed.
template <class In, class Out>
void expect_definition(const Chunks& c, Stream& stream) {
  const std::int64_t last = c.numel - 1, q = last / c.chunk, i = last % c.chunk + 1;
  Owned<In> in = some<In>(c.before + q * c.in_stride + i);
  Owned<Out> out({c.before + q * c.out_stride + i + 9}, Out{7}), want = out;
  const Owned<Out> same = as<Out>(in);
  for (std::int64_t e = 0; e < c.numel; ++e) {
    want.values[c.before + e / c.chunk * c.out_stride + e % c.chunk] =
        same.values[c.before + e / c.chunk * c.in_stride + e % c.chunk];
  }
  const auto from_first_chunk = [&](Tensor t) { return t.slice(c.before, t.numel() - c.before); };
  copy_chunks(stream, {.in = from_first_chunk(in),
                       .out = from_first_chunk(out),
                       .numel = c.numel,
                       .chunk = c.chunk,
                       .in_stride = c.in_stride,
                       .out_stride = c.out_stride});
  stream.synchronize();
  for (std::size_t k = 0; k < want.values.size(); ++k) {
    ASSERT_EQ(bits(out.values[k]), bits(want.values[k])) << k;
  }
}

void expect_definition_of_all_dtypes(const Chunks& c, Stream& stream) {
  SCOPED_TRACE(fmt::format("{} elements in chunks of {}, {} apart and {}, from {}", c.numel,
                           c.chunk, c.in_stride, c.out_stride, c.before));
  expect_definition<float, float>(c, stream);
  expect_definition<float, bfloat16>(c, stream);
  expect_definition<bfloat16, float>(c, stream);
  expect_definition<bfloat16, bfloat16>(c, stream);
}

TEST(CopyChunks, MovesAndCastsEveryElementAndTouchesNoOther) {
  for (const Chunks& c : kChunks) {
    for (const int threads : threads_to_try({1, 2, 3})) {
      expect_definition_of_all_dtypes(c, *stream_of(threads));
    }
  }
}

TEST(CopyChunks, RunsOnACommunicationStreamToo) {
  const auto stream = make_communication_stream(testing::kDevice);
  for (const Chunks& c : kChunks) expect_definition_of_all_dtypes(c, *stream);
}

TEST(CopyChunks, OfNoElementsAreNothing) {
  copy_chunks(*stream_of(), {});
  Owned<float> x({3}, 1.0f);
  copy_chunks(*stream_of(), {.out = x, .chunk = 1, .in_stride = 1, .out_stride = 1});
  EXPECT_EQ(x.values, testing::Values<float>(3, 1.0f));
}

TEST(CopyChunks, AnErrorNamesTheOperand) {
  Owned<float> x({12}), y({8});
  Owned<double> doubles({12});
  const CopyChunks good{.in = x, .out = y, .numel = 8, .chunk = 4, .in_stride = 8, .out_stride = 4};
  copy_chunks(*stream_of(), good);
  const auto expect = [&](auto member, auto value, const char* words) {
    CopyChunks bad = good;
    bad.*member = value;
    expect_error<ShapeError>([&] { copy_chunks(*stream_of(), bad); }, words);
  };
  using C = CopyChunks;
  expect(&C::in, x.view().slice(0, 11),
         "copy_chunks: in: expected float32 of at least 12 elements");
  expect(&C::out, y.view().slice(0, 7), "copy_chunks: out: expected float32 of at least 8");
  expect(&C::in, Tensor(), "copy_chunks: in");
  expect(&C::in, doubles.view(), "copy_chunks: in");
  expect(&C::out, doubles.view(), "copy_chunks: out");
  expect(&C::in_stride, 9, "copy_chunks: in");
  expect(&C::in_stride, 3, "copy_chunks: chunks: expected");
  expect(&C::out_stride, 3, "copy_chunks: chunks");
  expect(&C::chunk, 0, "copy_chunks: chunks");
  expect(&C::numel, 9, "copy_chunks: in");
  expect(&C::numel, -1, "copy_chunks: chunks");
}

}  // namespace
}  // namespace nanofsdp::ops::copy_chunks_test
