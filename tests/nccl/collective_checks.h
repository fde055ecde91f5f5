#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "base/buffer.h"
#include "base/context.h"
#include "base/transfer.h"
#include "comm/nccl.h"
#include "comm/rank_data.h"

namespace nanofsdp::testing {

/// @file
/// @brief The results that NCCL's collectives must give, with operands in the memory of the GPU.
/// Ranks are processes on a GPU, or threads under the emulation.

/// Numbers in the memory of a device.
template <class T>
class OnDevice {
 public:
  OnDevice(Context& context, const std::vector<T>& values)
      : stream_(*context.compute),
        size_(static_cast<std::int64_t>(values.size())),
        buffer_(context.ledger, MemoryClass::activations, values.size() * sizeof(T),
                context.device) {
    std::vector<T> copy = values;
    transfer(stream_, host(copy), tensor());
    stream_.synchronize();
  }

  Tensor tensor() const { return buffer_.tensor({size_}, dtype_of<T>); }

  std::vector<T> values() const {
    std::vector<T> values(static_cast<std::size_t>(size_));
    transfer(stream_, tensor(), host(values));
    stream_.synchronize();
    return values;
  }

 private:
  static Tensor host(std::vector<T>& values) {
    return Tensor(values.data(), {static_cast<std::int64_t>(values.size())}, dtype_of<T>);
  }

  Stream& stream_;
  std::int64_t size_;
  Buffer buffer_;
};

/// Expects the bits of a sum in rank order. On NCCL's ring the sums are equal except for the order
/// of terms and, for bfloat16, one rounding at each hop. The error is relative to the sum of
/// magnitudes, because the terms may cancel.
template <class T, class Out>
void expect_sum(const std::vector<Out>& got, int world_size, std::int64_t first, comm::ReduceOp op,
                comm::Reduction reduction) {
  if (reduction == comm::Reduction::ordered) {
    const auto want = summed<T, Out>(world_size, static_cast<std::int64_t>(got.size()), op, first);
    EXPECT_EQ(first_difference(got, want), -1);
    return;
  }
  const double unit = sizeof(T) == 2 ? 0x1p-8 : 0x1p-23;
  const double scale = op == comm::ReduceOp::sum ? 1 : 1.0 / world_size;
  for (std::size_t i = 0; i < got.size(); ++i) {
    double sum = 0, magnitude = 0;
    for (int rank = 0; rank < world_size; ++rank) {
      const double x = as_float(as<T>(number(rank, first + static_cast<std::int64_t>(i))));
      sum += x;
      magnitude += std::abs(x);
    }
    ASSERT_NEAR(as_float(got[i]), sum * scale, magnitude * scale * unit * world_size) << "at " << i;
  }
}

template <class T>
void check_all_gather(Context& context, comm::Communicator& world, std::int64_t n) {
  const int size = world.size(), rank = world.rank();
  std::vector<T> want;
  for (int peer = 0; peer < size; ++peer)
    std::ranges::copy(numbers<T>(peer, n), std::back_inserter(want));
  const OnDevice<T> in(context, numbers<T>(rank, n)), out(context, std::vector<T>(want.size()));
  world.all_gather(*context.gather, in.tensor(), out.tensor()).synchronize();
  EXPECT_EQ(first_difference(out.values(), want), -1);
  EXPECT_EQ(first_difference(in.values(), numbers<T>(rank, n)), -1);

  std::vector<T> mine(want.size());
  std::ranges::copy(numbers<T>(rank, n), mine.begin() + rank * n);
  const OnDevice<T> whole(context, mine);
  const Event done =
      world.all_gather(*context.gather, whole.tensor().slice(rank * n, n), whole.tensor());
  context.compute->wait(done);
  EXPECT_EQ(first_difference(whole.values(), want), -1) << "in place";
}

template <class T>
void check_sums(Context& context, comm::Communicator& world, std::int64_t n, comm::ReduceOp op,
                comm::Reduction reduction) {
  const int size = world.size(), rank = world.rank();
  const std::vector<T> mine = numbers<T>(rank, size * n);
  const OnDevice<T> in(context, mine), out(context, std::vector<T>(static_cast<std::size_t>(n)));
  world.reduce_scatter(*context.reduce, in.tensor(), out.tensor(), op).synchronize();
  expect_sum<T>(out.values(), size, rank * n, op, reduction);
  EXPECT_EQ(first_difference(in.values(), mine), -1) << "the input changed";

  world.reduce_scatter(*context.reduce, in.tensor(), in.tensor().slice(rank * n, n), op);
  context.reduce->synchronize();
  std::vector<T> rest = in.values();
  expect_sum<T>(slice(rest, rank * n, n), size, rank * n, op, reduction);
  std::ranges::copy(slice(mine, rank * n, n), rest.begin() + rank * n);
  EXPECT_EQ(first_difference(rest, mine), -1) << "in place, outside the rank's chunk";

  const OnDevice<T> x(context, mine);
  world.all_reduce(*context.reduce, x.tensor(), op).synchronize();
  expect_sum<T>(x.values(), size, 0, op, reduction);

  const OnDevice<T> again(context, mine);
  const OnDevice<float> part(context, std::vector<float>(static_cast<std::size_t>(n)));
  world.reduce_scatter(*context.reduce, again.tensor(), part.tensor(), op).synchronize();
  expect_sum<T>(part.values(), size, rank * n, op, reduction);
  const OnDevice<T> once_more(context, mine);
  const OnDevice<float> all(context, std::vector<float>(mine.size()));
  world.all_reduce(*context.reduce, once_more.tensor(), all.tensor(), op).synchronize();
  expect_sum<T>(all.values(), size, 0, op, reduction);
}

/// Checks every collective with n elements for each rank.
inline void check_collectives(Context& context, comm::Communicator& world, std::int64_t n,
                              comm::Reduction reduction = comm::Reduction::ordered) {
  SCOPED_TRACE("n = " + std::to_string(n) + ", rank " + std::to_string(world.rank()));
  check_all_gather<float>(context, world, n);
  check_all_gather<bfloat16>(context, world, n);
  for (const comm::ReduceOp op : {comm::ReduceOp::sum, comm::ReduceOp::average}) {
    check_sums<float>(context, world, n, op, reduction);
    check_sums<bfloat16>(context, world, n, op, reduction);
  }
  for (int root = 0; root < world.size(); ++root) {
    const OnDevice<float> x(context, numbers<float>(world.rank(), n));
    world.broadcast(*context.gather, x.tensor(), root).synchronize();
    EXPECT_EQ(first_difference(x.values(), numbers<float>(root, n)), -1) << "root " << root;
  }
  world.barrier(*context.gather).synchronize();
}

/// The ranks of the world that belong to `group`, in its order, as it gathers them.
inline std::vector<std::int32_t> members(Context& context, comm::Communicator& group) {
  const OnDevice<std::int32_t> mine(context, {context.rank});
  const OnDevice<std::int32_t> all(context, std::vector<std::int32_t>(group.size()));
  group.all_gather(*context.gather, mine.tensor(), all.tensor()).synchronize();
  return all.values();
}

/// Splits `world`, which has an even number of ranks, by the parity of ranks and in halves.
inline void check_splits(Context& context, std::unique_ptr<comm::Communicator> world) {
  const int rank = world->rank(), size = world->size();
  const auto parity = world->split(rank % 2 == 1 ? -7 : 3);
  const auto half = world->split(rank < size / 2 ? 0 : 1);
  const auto alone = half->split(rank);
  world.reset();
  std::vector<std::int32_t> same_parity, same_half;
  for (int peer = 0; peer < size; ++peer) {
    if (peer % 2 == rank % 2) same_parity.push_back(peer);
    if ((peer < size / 2) == (rank < size / 2)) same_half.push_back(peer);
  }
  EXPECT_EQ(parity->rank(), rank / 2);
  EXPECT_EQ(members(context, *parity), same_parity);
  EXPECT_EQ(members(context, *half), same_half);
  EXPECT_EQ(members(context, *alone), std::vector<std::int32_t>{rank});
}

}  // namespace nanofsdp::testing
