#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "comm/local.h"
#include "comm/mesh.h"
#include "comm/peers.h"
#include "comm/rank_data.h"
#include "support/errors.h"
#include "support/ranks.h"

// Tests groups inside groups, and two groups over the same ranks at the same time.

namespace nanofsdp::testing {
namespace {

using comm::Communicator;
using comm::ReduceOp;
using namespace std::chrono_literals;

class Groups : public ::testing::TestWithParam<Backend> {};

// The ranks of the world that belong to a group, in its order.
std::vector<std::int32_t> members(Context& context, Communicator& group) {
  std::vector<std::int32_t> mine{context.rank}, all(static_cast<std::size_t>(group.size()));
  group.all_gather(*context.compute, view(mine), view(all)).synchronize();
  return all;
}

TEST_P(Groups, SplitKeepsTheOrderOfRanks) {
  run_ranks(GetParam(), 4, [](Context& context, Communicator& world) {
    const bool odd = context.rank % 2 == 1;
    const auto parity = world.split(odd ? 1 : 0);
    EXPECT_EQ(parity->size(), 2);
    EXPECT_EQ(parity->rank(), context.rank / 2);
    EXPECT_EQ(members(context, *parity),
              odd ? (std::vector<std::int32_t>{1, 3}) : (std::vector<std::int32_t>{0, 2}));
    const auto all_but_3 = world.split(context.rank == 3 ? 7 : -7);
    EXPECT_EQ(all_but_3->size(), context.rank == 3 ? 1 : 3);
    EXPECT_EQ(static_cast<int>(members(context, *all_but_3).size()), all_but_3->size());
    EXPECT_EQ(members(context, world), (std::vector<std::int32_t>{0, 1, 2, 3}));
  });
}

TEST_P(Groups, SplitsOfSplitsAreGroupsOfTheirOwn) {
  run_ranks(GetParam(), 4, [](Context& context, Communicator& world) {
    const auto half = world.split(context.rank / 2);
    const auto again = half->split(0);
    const int first = context.rank / 2 * 2;
    EXPECT_EQ(members(context, *again), (std::vector<std::int32_t>{first, first + 1}));
    const auto alone = again->split(context.rank);
    EXPECT_EQ(members(context, *alone), (std::vector<std::int32_t>{context.rank}));
  });
}

TEST_P(Groups, AGroupOutlivesTheOneItWasSplitFrom) {
  run_ranks(GetParam(), 3, [](Context& context, std::unique_ptr<Communicator> world) {
    const auto twin = world->split(0);
    world.reset();
    EXPECT_EQ(members(context, *twin), (std::vector<std::int32_t>{0, 1, 2}));
  });
}

// Gathers and reductions overtake each other in another order on each rank. Each call must stay in
// its own group.
TEST_P(Groups, TwoGroupsWorkAtOnceOnTwoStreams) {
  for (const int world_size : {2, 4}) {
    run_ranks(GetParam(), world_size, [](Context& context, std::unique_ptr<Communicator> world) {
      comm::Mesh mesh(std::move(world));
      const int size = mesh.size();
      for (int round = 0; round < 200; ++round) {
        const std::int64_t n = 1 + round * 37 % 5000;
        std::vector<float> in = numbers<float>(mesh.rank() + round, n);
        std::vector<float> all(static_cast<std::size_t>(size * n));
        std::vector<float> x = numbers<float>(mesh.rank(), size * n), part(in.size());
        const Event gathered = mesh.gather().all_gather(*context.gather, view(in), view(all));
        const Event reduced =
            mesh.reduce().reduce_scatter(*context.reduce, view(x), view(part), ReduceOp::sum);
        if (round % 10 == 0) mesh.world().barrier(*context.compute);
        context.compute->wait(gathered);
        context.compute->synchronize();
        for (int rank = 0; rank < size; ++rank) {
          ASSERT_EQ(first_difference(slice(all, rank * n, n), numbers<float>(rank + round, n)), -1)
              << "round " << round;
        }
        context.compute->wait(reduced);
        context.compute->synchronize();
        const auto want = summed<float>(size, n, ReduceOp::sum, mesh.rank() * n);
        ASSERT_EQ(first_difference(part, want), -1) << "round " << round;
      }
    });
  }
}

// If the abort did not wake it, the first wait would take this time.
constexpr auto kLong = std::chrono::seconds(60);

TEST_P(Groups, AbortEndsWhatWaitsAndWhatComesLater) {
  if (kDevice == Device::cuda)
    GTEST_SKIP() << "who issues a call meets the others before he goes on";
  const auto start = std::chrono::steady_clock::now();
  const auto body = [](Context& context, std::unique_ptr<Communicator> world) {
    std::vector<float> in(8), all(16);
    comm::Mesh mesh(std::move(world));
    if (mesh.rank() == 0) {
      const Event never = mesh.gather().all_gather(*context.gather, view(in), view(all));
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      mesh.abort("the test says so");
      EXPECT_THROW(never.synchronize(), comm::CommError);
      try {
        mesh.world().barrier(*context.compute);
        ADD_FAILURE() << "an aborted communicator still works";
      } catch (const comm::CommError& e) {
        EXPECT_EQ(e.kind, comm::CommError::Kind::aborted);
        EXPECT_NE(std::string(e.what()).find("the test says so"), std::string::npos) << e.what();
      }
    } else {
      EXPECT_THROW(mesh.world().barrier(*context.compute), comm::CommError);
    }
  };
  run_ranks(GetParam(), 2, body, {.timeout = kLong});
  EXPECT_LT(std::chrono::steady_clock::now() - start, kLong / 2);
}

TEST_P(Groups, AbortEndsWhatARankDoesWithItselfToo) {
  run_ranks(GetParam(), 2, [](Context& context, Communicator& world) {
    const auto alone = world.split(world.rank());
    std::vector<float> x(4, 1);
    alone->all_reduce(*context.compute, view(x), ReduceOp::sum);
    alone->abort("the test says so");
    EXPECT_THROW(alone->all_gather(*context.compute, view(x), view(x)), comm::CommError);
    EXPECT_THROW(alone->broadcast(*context.compute, view(x), 0), comm::CommError);
    EXPECT_THROW(alone->barrier(*context.compute), comm::CommError);
    world.barrier(*context.compute);  // the other group is as it was
  });
}

// An abort of a mesh must abort all its groups, not only the world: the other groups still exist,
// and their waits would not end.
TEST_P(Groups, AbortOfAMeshIsThatOfItsGroups) {
  if (kDevice == Device::cuda)
    GTEST_SKIP() << "who issues a call meets the others before he goes on";
  const auto body = [](Context& context, std::unique_ptr<Communicator> world) {
    const auto others = world->split(0);
    comm::Mesh mesh(std::move(world), 2);
    if (mesh.rank() == 0) {
      const Event waits[] = {mesh.gather().barrier(*context.gather),
                             mesh.reduce().barrier(*context.reduce)};
      mesh.abort("the test says so");
      for (const Event& event : waits) {
        expect_error<comm::CommError>([&] { event.synchronize(); }, "the test says so");
      }
      expect_error<comm::CommError>([&] { mesh.replicate().barrier(*context.compute); },
                                    "the test says so");
    }
    others->barrier(*context.compute);
  };
  run_ranks(GetParam(), 4, body, {.timeout = std::chrono::seconds(3)});
}

TEST_P(Groups, MayBeDestroyedWithWorkInFlight) {
  if (kDevice == Device::cuda)
    GTEST_SKIP() << "who issues a call meets the others before he goes on";
  const auto start = std::chrono::steady_clock::now();
  const auto body = [](Context& context, std::unique_ptr<Communicator> world) {
    std::vector<float> in(8), all(16);
    const auto twin = world->split(0);
    if (context.rank == 0) {
      world->all_gather(*context.gather, view(in), view(all));  // the other ranks do not answer
      world.reset();
      EXPECT_THROW(context.gather->synchronize(), comm::CommError);
    }
    twin->barrier(*context.compute);  // rank 1 has not destroyed its end yet
  };
  run_ranks(GetParam(), 2, body, {.timeout = kLong});
  EXPECT_LT(std::chrono::steady_clock::now() - start, kLong / 2);
}

// A group learns of a lost rank even if the group is made after the loss.
TEST(Peers, OfEveryGroupHearOfALoss) {
  const auto run = std::make_shared<comm::RunState>(std::chrono::seconds(9));
  std::string before, after;
  const comm::GroupSpec two{.rank = 0, .members = {0, 1}};
  const comm::Peers early(run, two, [&](const std::string& reason) { before = reason; });
  run->abort("rank 1 was killed");
  const comm::Peers late(run, two, [&](const std::string& reason) { after = reason; });
  EXPECT_EQ(before, "rank 1 was killed");
  EXPECT_EQ(after, "rank 1 was killed");
  EXPECT_THROW(early.check(), comm::CommError);
  EXPECT_THROW(late.check(), comm::CommError);
}

INSTANTIATE_TEST_SUITE_P(Ranks, Groups, ::testing::ValuesIn(backends()),
                         [](const auto& info) { return name_of(info.param); });

TEST(LocalGroup, HasAtLeastOneRank) {
  for (const int ranks : {0, -1, -100}) {
    expect_error<Error>([&] { comm::make_local_group(ranks); },
                        "local group: expected at least 1 rank, got " + std::to_string(ranks));
    const auto body = [](Context&, std::unique_ptr<Communicator>) { ADD_FAILURE(); };
    expect_error<Error>([&] { comm::launch_threads(ranks, 1, body); }, "local group");
  }
}

TEST(LocalGroup, NamesAllForWhomARankWaitsInVain) {
  const auto group = comm::make_local_group(4, {.timeout = 20ms});
  std::vector<std::unique_ptr<Context>> contexts;
  for (int rank = 0; rank < 2; ++rank) contexts.push_back(std::make_unique<Context>(rank, 4));
  const Event here = group[0]->barrier(*contexts[0]->gather);
  const Event there = group[1]->barrier(*contexts[1]->gather);
  const std::string both = "waited 20 ms in vain for rank 2, rank 3 in barrier 1";
  std::string told;
  for (const Event& event : {here, there}) {
    try {
      event.synchronize();
      ADD_FAILURE() << "two ranks did not come";
    } catch (const comm::CommError& error) {
      told += error.what();
    }
  }
  EXPECT_NE(told.find(both), std::string::npos) << told;
}

// With no time at all, a rank would give up before it has looked whether the others are there.
TEST(RunState, WaitsAtLeastAMillisecondAndAtMostADay) {
  const auto timeout = [](std::chrono::milliseconds asked) {
    return comm::RunState(asked).timeout;
  };
  for (const std::chrono::milliseconds short_time : {-24h, -1h, 0h}) {
    EXPECT_EQ(timeout(short_time), 1ms);
  }
  for (const std::chrono::milliseconds right : {1ms, 2ms, 60'000ms, 86'400'000ms}) {
    EXPECT_EQ(timeout(right), right);
  }
  EXPECT_EQ(timeout(25h), 24h);
}

// Groups must have the same size, because otherwise the last one would have shards that no other
// group has.
TEST(Mesh, WantsGroupsThatDivideItsRanks) {
  for (int ranks = 1; ranks <= 4; ++ranks) {
    for (int shard_size = -1; shard_size <= 6; ++shard_size) {
      run_ranks(Backend::local, ranks, [&](Context&, std::unique_ptr<Communicator> world) {
        if (shard_size == 0 || (shard_size > 0 && ranks % shard_size == 0)) {
          const comm::Mesh mesh(std::move(world), shard_size);
          EXPECT_EQ(mesh.shard_size(), shard_size == 0 ? ranks : shard_size);
          return;
        }
        expect_error<UsageError>([&] { comm::Mesh(std::move(world), shard_size); },
                                 "shard_size: expected a divisor of " + std::to_string(ranks));
      });
    }
  }
}

}  // namespace
}  // namespace nanofsdp::testing
