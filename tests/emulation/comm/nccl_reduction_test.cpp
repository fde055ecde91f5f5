#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "comm/local.h"
#include "comm/nccl.h"
#include "emulation/nccl_ranks.h"
#include "nccl.h"
#include "nccl/collective_checks.h"

// Tests reductions over the emulated NCCL: in the order of the ranks, and on NCCL's ring.

namespace nanofsdp::testing {
namespace {

using comm::Communicator;
using comm::ReduceOp;
using comm::Reduction;

std::vector<std::string> nothing(int size) { return std::vector<std::string>(size); }

// Each rank's result of a reduce_scatter of n elements for each rank.
template <class T>
std::vector<T> reduced(Context& context, Communicator& world, std::int64_t n, ReduceOp op) {
  const OnDevice<T> in(context, numbers<T>(world.rank(), world.size() * n));
  const OnDevice<T> out(context, std::vector<T>(static_cast<std::size_t>(n)));
  world.reduce_scatter(*context.reduce, in.tensor(), out.tensor(), op).synchronize();
  return out.values();
}

template <class T>
void expect_in_rank_order(Context& context, Communicator& world, std::int64_t n, ReduceOp op) {
  const auto want = summed<T>(world.size(), n, op, world.rank() * n);
  EXPECT_EQ(first_difference(reduced<T>(context, world, n, op), want), -1)
      << n << " elements a rank";
}

class NcclRing : public ::testing::TestWithParam<int> {};

TEST_P(NcclRing, AddsInAnOrderOfItsOwn) {
  const auto body = [](Context& context, Store&, std::unique_ptr<Communicator> world) {
    for (const std::int64_t n : {0, 1, 257}) {
      check_collectives(context, *world, n, Reduction::ring);
    }
    const auto got = reduced<bfloat16>(context, *world, 257, ReduceOp::sum);
    const auto want = summed<bfloat16>(world->size(), 257, ReduceOp::sum, world->rank() * 257);
    EXPECT_EQ(first_difference(got, want) == -1, world->size() < 3);
    EXPECT_EQ(context.ledger.count(MemoryClass::communication).reserved_peak, sizeof(float))
        << "for the barrier alone";
  };
  EXPECT_EQ(run_on_nccl(GetParam(), body, {.reduction = Reduction::ring}), nothing(GetParam()));
}
INSTANTIATE_TEST_SUITE_P(Ranks, NcclRing, ::testing::Values(2, 3, 4));

// The arguments of a kernel have room for 64 ranks. NCCL's ranks and ranks that share a GPU use the
// same sum.
TEST(ManyRanks, AddInTheirOrder) {
  constexpr int kRanks = 67;
  const auto body = [](Context& context, Communicator& world) {
    expect_in_rank_order<float>(context, world, 3, ReduceOp::sum);
    expect_in_rank_order<bfloat16>(context, world, 5, ReduceOp::average);
  };
  const auto on_nccl = [&](Context& context, Store&, std::unique_ptr<Communicator> world) {
    body(context, *world);
  };
  EXPECT_EQ(run_on_nccl(kRanks, on_nccl), nothing(kRanks));
  comm::launch_threads(
      kRanks, 1,
      [&](Context& context, std::unique_ptr<Communicator> world) { body(context, *world); },
      {.device = Device::cuda});
}

// A later group with more ranks needs a larger table, while earlier sums still read the old one.
TEST(ManyRanks, AddOnOneStreamInGroupsOfSeveralSizes) {
  const auto body = [](Context& context, std::unique_ptr<Communicator> world) {
    const auto group = world->split(context.rank < 66 ? 0 : 1);
    for (Communicator* ranks : {group.get(), world.get()}) {
      expect_in_rank_order<float>(context, *ranks, 2, ReduceOp::sum);
    }
  };
  comm::launch_threads(68, 1, body, {.device = Device::cuda});
}

// The scratch memory has a limit, so a longer chunk is reduced in several parts.
TEST(NcclReduction, OfALongChunkTakesTurns) {
  constexpr int kRanks = 4;
  const std::int64_t n = comm::nccl_window_bytes(kRanks) / 4 + 3;
  const auto body = [n](Context& context, Store&, std::unique_ptr<Communicator> world) {
    expect_in_rank_order<float>(context, *world, n, ReduceOp::average);
    const std::int64_t most = context.ledger.count(MemoryClass::communication).reserved_peak;
    EXPECT_EQ(most, comm::nccl_scratch_bytes(kRanks, 4 * n));
    EXPECT_LE(most, 32 << 20);
  };
  EXPECT_EQ(run_on_nccl(kRanks, body), nothing(kRanks));
}

TEST(NcclReduction, TakesScratchMemoryOnceAndForTheLargestChunk) {
  constexpr int kRanks = 3;
  const auto body = [](Context& context, Store&, std::unique_ptr<Communicator> world) {
    const auto held = [&] { return context.ledger.count(MemoryClass::communication).reserved; };
    const auto gathers = world->split(0);
    check_all_gather<float>(context, *gathers, 9);
    EXPECT_EQ(held(), 0);
    for (const std::int64_t n : {5, 40, 7, 40}) {
      expect_in_rank_order<float>(context, *world, n, ReduceOp::sum);
      EXPECT_EQ(held(), (kRanks - 1) * std::max<std::int64_t>(n == 5 ? 5 : 40, n) * 4);
    }
    world->barrier(*context.gather).synchronize();
    EXPECT_EQ(held(), (kRanks - 1) * 40 * 4) << "a barrier needs no memory of its own then";
  };
  EXPECT_EQ(run_on_nccl(kRanks, body), nothing(kRanks));
}

// The host does not wait between them, and the second needs more scratch memory than the first has.
TEST(NcclReduction, MayFollowASmallerOneAtOnce) {
  const auto body = [](Context& context, Store&, std::unique_ptr<Communicator> world) {
    const int size = world->size(), rank = world->rank();
    for (int round = 0; round < 5; ++round) {
      const auto group = world->split(0);
      const OnDevice<float> few(context, numbers<float>(rank, size * 3));
      const OnDevice<float> many(context, numbers<float>(rank, size * 999));
      group->all_reduce(*context.reduce, few.tensor(), ReduceOp::sum);
      group->all_reduce(*context.reduce, many.tensor(), ReduceOp::average);
      group->all_reduce(*context.reduce, few.tensor(), ReduceOp::sum);
      context.compute->wait(context.reduce->record());
      EXPECT_EQ(first_difference(many.values(), summed<float>(size, size * 999, ReduceOp::average)),
                -1);
    }
  };
  EXPECT_EQ(run_on_nccl(3, body), nothing(3));
}

// The counted bytes are those that NCCL is told to send.
TEST(NcclReduction, SendsWhatIsCounted) {
  constexpr int kRanks = 4;
  std::vector<std::int64_t> counted(kRanks);
  const std::size_t before = emulation::sent;
  const auto body = [&](Context& context, Store&, std::unique_ptr<Communicator> world) {
    reduced<float>(context, *world, 10, ReduceOp::sum);
    reduced<bfloat16>(context, *world, 10, ReduceOp::average);
    EXPECT_EQ(world->traffic().reduce_scatters, 2);
    EXPECT_EQ(world->traffic().bytes_sent, (kRanks - 1) * 10 * (4 + 2));
    counted[static_cast<std::size_t>(context.rank)] = world->traffic().bytes_sent;
    world->barrier(*context.reduce).synchronize();
  };
  EXPECT_EQ(run_on_nccl(kRanks, body), nothing(kRanks));
  EXPECT_EQ(emulation::sent - before,
            std::accumulate(counted.begin(), counted.end(), std::size_t{}));
}

// One rank makes no call, or another call. The others wait until their timeout, and their error
// names the call.
TEST(NcclReduction, ThatARankDoesNotJoinIsATimeout) {
  for (const bool comes : {false, true}) {
    const auto body = [comes](Context& context, Store& store, std::unique_ptr<Communicator> given) {
      const OnDevice<float> x(context, std::vector<float>(6));
      const std::unique_ptr<Communicator> world = std::move(given);  // destroyed before x
      world->barrier(*context.reduce).synchronize();
      if (context.rank == 2) {
        const Event never =
            comes ? world->all_gather(*context.reduce, x.tensor().slice(4, 2), x.tensor())
                  : Event();
        store.get("rank 0 is done", 10s);
        return world->abort("so that nobody waits for a farewell");
      }
      const std::string error = message_of<comm::CommError>([&] {
        world->all_reduce(*context.reduce, x.tensor(), ReduceOp::sum, {.unit = "h.0"})
            .synchronize();
      });
      EXPECT_EQ(error.find("rank " + number(context.rank)), 0u) << error;
      EXPECT_NE(error.find("for unit h.0"), std::string::npos) << error;
      if (context.rank == 0) store.set("rank 0 is done", "");
    };
    const auto errors = run_on_nccl(3, body, {.timeout = std::chrono::milliseconds(200)});
    EXPECT_EQ(errors, nothing(3));
  }
}

}  // namespace
}  // namespace nanofsdp::testing
