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
  std::int64_t numel, chunk, stride;
  std::int64_t first = 0;   // elements of a shard before its chunk
  std::int64_t before = 0;  // elements of both memories before the row, and before the whole
};

// One chunk; whole chunks; a short last chunk; chunks of one element; more elements than a block of
// a kernel copies, and than a row of blocks; starts at multiples of 16 bytes and elsewhere.
const std::vector<Chunks> kChunks{{1, 1, 1},
                                  {5, 5, 7},
                                  {12, 4, 9},
                                  {12, 4, 4},
                                  {11, 4, 9, 3},
                                  {16, 8, 24, 8},
                                  {16, 8, 24, 16, 8},
                                  {16, 8, 24, 2},
                                  {16, 8, 24, 8, 2},
                                  {20, 8, 24},
                                  {22, 8, 24},
                                  {12, 3, 8},
                                  {16, 8, 22},
                                  {1500, 1, 3},
                                  {3 * 4100, 4100, 4104, 4},
                                  {40001, 10001, 10007, 1}};

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
void expect_definition(const Chunks& c, bool into_row, Stream& stream) {
  const std::int64_t last = c.numel - 1, q = last / c.chunk, i = last % c.chunk + 1;
  const std::int64_t of_row = c.before + q * c.stride + c.first + i, of_whole = c.before + c.numel;
  Owned<In> in = some<In>(into_row ? of_whole : of_row);
  Owned<Out> out({(into_row ? of_row : of_whole) + 9}, Out{7}), want = out;
  const Owned<Out> same = as<Out>(in);
  for (std::int64_t e = 0; e < c.numel; ++e) {
    const std::int64_t at = c.before + e / c.chunk * c.stride + c.first + e % c.chunk;
    want.values[into_row ? at : c.before + e] = same.values[into_row ? c.before + e : at];
  }
  const auto behind = [&](Tensor t) { return t.slice(c.before, t.numel() - c.before); };
  copy_chunks(stream, {.row = behind(into_row ? Tensor(out) : Tensor(in)),
                       .whole = behind(into_row ? Tensor(in) : Tensor(out)).slice(0, c.numel),
                       .first = c.first,
                       .chunk = c.chunk,
                       .stride = c.stride,
                       .into_row = into_row});
  stream.synchronize();
  for (std::size_t k = 0; k < want.values.size(); ++k) {
    ASSERT_EQ(bits(out.values[k]), bits(want.values[k])) << k;
  }
}

void expect_definition_of_all_dtypes(const Chunks& c, Stream& stream) {
  for (const bool into_row : {false, true}) {
    SCOPED_TRACE(fmt::format("{} elements in chunks of {}, {} apart, from {} in a shard, from {}{}",
                             c.numel, c.chunk, c.stride, c.first, c.before,
                             into_row ? ", into the row" : ""));
    expect_definition<float, float>(c, into_row, stream);
    expect_definition<float, bfloat16>(c, into_row, stream);
    expect_definition<bfloat16, float>(c, into_row, stream);
    expect_definition<bfloat16, bfloat16>(c, into_row, stream);
  }
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
  copy_chunks(*stream_of(), {.row = x, .chunk = 1, .stride = 1});
  EXPECT_EQ(x.values, testing::Values<float>(3, 1.0f));
}

TEST(CopyChunks, AnErrorNamesTheOperand) {
  Owned<float> x({12}), y({8});
  Owned<double> doubles({12});
  Owned<float8_e4m3> bytes({24});
  const CopyChunks good{.row = x, .whole = y, .chunk = 4, .stride = 8};
  copy_chunks(*stream_of(), good);
  const auto expect = [&](auto member, auto value, const char* words) {
    CopyChunks bad = good;
    bad.*member = value;
    expect_error<ShapeError>([&] { copy_chunks(*stream_of(), bad); }, words);
  };
  using C = CopyChunks;
  expect(&C::row, x.view().slice(0, 11),
         "copy_chunks: row: expected float32 of at least 12 elements");
  expect(&C::row, Tensor(), "copy_chunks: row");
  expect(&C::row, doubles.view(), "copy_chunks: row");
  expect(&C::row, bytes.view().slice(0, 23),
         "copy_chunks: row: expected float8_e4m3 of at least 24");
  expect(&C::whole, doubles.view().slice(0, 8), "copy_chunks: whole");
  expect(&C::whole, bytes.view().slice(0, 8), "copy_chunks: whole: expected float32");
  expect(&C::first, 1, "copy_chunks: row");
  expect(&C::first, 5, "copy_chunks: chunks");
  expect(&C::first, -1, "copy_chunks: chunks");
  expect(&C::stride, 9, "copy_chunks: row");
  expect(&C::stride, 3, "copy_chunks: chunks: expected an element or more, inside a shard");
  expect(&C::chunk, 0, "copy_chunks: chunks");
  CopyChunks bad{.row = bytes, .whole = y, .chunk = 4, .stride = 8, .into_row = true};
  expect_error<ShapeError>([&] { copy_chunks(*stream_of(), bad); }, "copy_chunks: row");
}

}  // namespace
}  // namespace nanofsdp::ops::copy_chunks_test
