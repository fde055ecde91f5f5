#include "base/transfer.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

#include "support/errors.h"

namespace nanofsdp {
namespace {

using testing::expect_error;

std::vector<std::unique_ptr<Stream>> streams() {
  std::vector<std::unique_ptr<Stream>> streams;
  streams.push_back(make_compute_stream(Device::cpu, 2));
  streams.push_back(make_communication_stream(Device::cpu));
  return streams;
}

// Work that ends late, and writes 7 into x.
template <class T>
void write_late(Stream& stream, T& x, T seven) {
  stream.enqueue([&x, seven] {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    x = seven;
  });
}

// The host reads what the work before has written, on every stream, in place and in a copy.
TEST(Transfer, ToTheHostWaitsForTheStreamsWork) {
  for (const auto& stream : streams()) {
    for (int round = 0; round < 3; ++round) {
      float x = 1, copied = 2;
      bfloat16 half = to_bfloat16(1);
      std::vector<float> room;
      const Tensor of_x(&x, {1}), of_half(&half, {1}, DType::bfloat16);
      write_late(*stream, x, 7.0f);
      EXPECT_EQ(item<float>(*stream, of_x), 7);
      x = 1;
      write_late(*stream, x, 7.0f);
      transfer(*stream, of_x, Tensor(&copied, {1}));
      EXPECT_EQ(copied, 7);
      x = 1;
      write_late(*stream, x, 7.0f);
      EXPECT_EQ(on_host(*stream, of_x, room)[0], 7);
      write_late(*stream, half, to_bfloat16(7));
      EXPECT_EQ(on_host(*stream, of_half, room)[0], 7);
      half = to_bfloat16(1);
      write_late(*stream, half, to_bfloat16(7));
      EXPECT_EQ(item<float>(*stream, of_half), 7);
    }
  }
}

TEST(Transfer, ToTheHostThrowsWhatTheStreamsWorkThrew) {
  const auto stream = make_communication_stream(Device::cpu);
  stream->enqueue([] { throw std::runtime_error("peer is gone"); });
  float x = 1;
  std::vector<float> room;
  expect_error<std::runtime_error>([&] { item<float>(*stream, Tensor(&x, {1})); }, "peer is gone");
  expect_error<std::runtime_error>([&] { on_host(*stream, Tensor(&x, {1}), room); },
                                   "peer is gone");
}

}  // namespace
}  // namespace nanofsdp
