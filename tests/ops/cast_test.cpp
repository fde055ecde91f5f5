#include "ops/copy_chunks.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/transfer.h"
#include "support/errors.h"
#include "support/tensors.h"

namespace nanofsdp::ops::cast_test {
namespace {

using testing::expect_error;
using testing::Owned;
using testing::random_tensor;
using testing::stream_of;
using testing::threads_to_try;

Owned<bfloat16> narrow(Tensor in, int threads = 1) {
  Owned<bfloat16> out(in.shape(), bfloat16{0x7fff});
  cast(*stream_of(threads), {.in = in, .out = out});
  return out;
}

Owned<float> widen(Tensor in, int threads = 1) {
  Owned<float> out(in.shape(), std::numeric_limits<float>::quiet_NaN());
  cast(*stream_of(threads), {.in = in, .out = out});
  return out;
}

TEST(Cast, EveryBfloat16SurvivesTheWayToFloat32AndBack) {
  Owned<bfloat16> all({65536});
  for (int i = 0; i < 65536; ++i) all.values[i].bits = static_cast<std::uint16_t>(i);
  for (const int threads : threads_to_try({1, 2, 3})) {
    Owned<float> wide = widen(all, threads);
    const Owned<bfloat16> back = narrow(wide, threads);
    for (int i = 0; i < 65536; ++i) {
      ASSERT_EQ(std::bit_cast<std::uint32_t>(wide.values[i]), static_cast<std::uint32_t>(i) << 16);
      if (std::isnan(wide.values[i])) {
        ASSERT_TRUE(std::isnan(to_float32(back.values[i]))) << i;
      } else {
        ASSERT_EQ(back.values[i].bits, i);
      }
    }
  }
}

// Each element is rounded as the scalar function rounds it, in whole vectors and in the rest.
TEST(Cast, RoundsAsToBfloat16DoesForEverySize) {
  for (const std::int64_t n : {0, 1, 2, 15, 16, 17, 31, 33, 1003, 100003}) {
    Owned<float> in = random_tensor({n}, 1, 1e3f);
    // Sometimes a tie.
    for (std::size_t i = 0; i < in.values.size(); i += 5) in.values[i] = 1 + 0x1p-8f;
    if (n > 1) in.values[1] = NAN;
    for (const int threads : threads_to_try({1, 2})) {
      const Owned<bfloat16> out = narrow(in, threads);
      for (std::size_t i = 0; i < in.values.size(); ++i) {
        ASSERT_EQ(out.values[i].bits, to_bfloat16(in.values[i]).bits) << "n=" << n << " i=" << i;
      }
    }
  }
}

TEST(Cast, AnErrorNamesTheOperand) {
  const auto stream = stream_of(1);
  Owned<float> floats({4});
  Owned<bfloat16> halves({4}), wrong({5});
  Owned<double> doubles({4});
  const auto expect = [&](Tensor in, Tensor out, const char* words) {
    expect_error<ShapeError>([&] { cast(*stream, {.in = in, .out = out}); }, words);
  };
  expect(floats, wrong, "cast: out: expected bfloat16 of 4 elements");
  expect(floats, floats, "cast: out");
  expect(halves, halves, "cast: out");
  expect(doubles, halves, "cast: in");
  expect(floats, doubles, "cast: out");
}

// The host reads a device's bfloat16 as float32, and rounds float32 that it sends to bfloat16
// memory.
TEST(Cast, HappensOnTheWayBetweenHostAndDevice) {
  for (const std::int64_t n : {1, 511, 512, 513, 5000}) {
    const Owned<float> sent = random_tensor({n}, 3);
    Owned<bfloat16> there({n}, bfloat16{0x7fff});
    const auto stream = stream_of();
    std::vector<float> host(sent.values.begin(), sent.values.end()), room;
    transfer(*stream, Tensor(host.data(), {n}), there);
    const std::span<const float> back = on_host(*stream, there, room);
    for (std::int64_t i = 0; i < n; ++i) {
      ASSERT_EQ(there.values[i].bits, to_bfloat16(host[i]).bits) << i << " of " << n;
      ASSERT_EQ(back[i], to_float32(there.values[i])) << i << " of " << n;
    }
    Owned<std::int32_t> tokens({n});
    expect_error<ShapeError>([&] { transfer(*stream, tokens, there); }, "transfer of a tensor");
  }
}

// A transfer to a longer tensor would leave the end of it as it was.
TEST(Cast, TransfersAsManyElementsAsThereIsRoomFor) {
  const auto stream = stream_of();
  for (const std::int64_t more : {-1, 1}) {
    Owned<float> there({5});
    std::vector<float> host(static_cast<std::size_t>(5 + more), 1.0f);
    const Tensor here(host.data(), {5 + more});
    for (const auto& [in, out] : {std::pair<Tensor, Tensor>{here, there}, {there, here}}) {
      expect_error<ShapeError>([&, in = in, out = out] { transfer(*stream, in, out); },
                               fmt::format("expected {} float32, got {}", out.numel(), in.numel()));
    }
  }
}

// A kernel must convert there: a copy of the bytes would give other numbers.
TEST(Cast, IsNoTransferWithinADevice) {
  for (const Device device : {Device::cuda, Device::simulated_cpu, Device::simulated_cuda}) {
    const auto at = [&](DType dtype) { return Tensor(Address{64}, {4}, dtype, device); };
    const auto send = [&](DType in, DType out) { transfer(*stream_of(), at(in), at(out)); };
    const char* const use_cast = "; use ops::cast: the host converts what it sends or gets";
    const std::string to_half = "transfer of a tensor: expected 4 bfloat16, got 4 float32";
    const std::string to_float = "transfer of a tensor: expected 4 float32, got 4 bfloat16";
    expect_error<ShapeError>([&] { send(DType::float32, DType::bfloat16); }, to_half + use_cast);
    expect_error<ShapeError>([&] { send(DType::bfloat16, DType::float32); }, to_float + use_cast);
  }
}

}  // namespace
}  // namespace nanofsdp::ops::cast_test
