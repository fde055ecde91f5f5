#include <gtest/gtest.h>

#include <vector>

#include "base/rng.h"
#include "comm/mesh.h"
#include "comm/rank_data.h"
#include "support/ranks.h"

namespace nanofsdp::testing {
namespace {

using comm::Communicator;
using comm::ReduceOp;
using comm::Traffic;

class Counting : public ::testing::TestWithParam<int> {};

TEST_P(Counting, CountsOperationsAndPayloadBytesExactly) {
  run_ranks(Backend::local, GetParam(), [](Context& context, std::unique_ptr<Communicator> world) {
    Communicator& comm = *world;
    const std::int64_t peers = comm.size() - 1, n = 10;
    std::vector<float> part(10), whole(static_cast<std::size_t>(comm.size() * n));
    std::vector<bfloat16> half(whole.size());

    comm.all_gather(*context.compute, view(part), view(whole));
    Traffic want{.all_gathers = 1, .bytes_sent = peers * 40, .bytes_received = peers * 40};
    EXPECT_EQ(comm.traffic(), want);

    comm.reduce_scatter(*context.compute, view(whole), view(part), ReduceOp::sum);
    want.reduce_scatters = 1;
    want.bytes_sent = want.bytes_received = peers * 80;
    EXPECT_EQ(comm.traffic(), want);

    comm.all_reduce(*context.compute, view(half), ReduceOp::average);
    want.all_reduces = 1;
    want.bytes_sent = want.bytes_received = peers * (80 + 2 * 20);
    EXPECT_EQ(comm.traffic(), want);

    comm.broadcast(*context.compute, view(part), 0);
    want.broadcasts = 1;
    (comm.rank() == 0 ? want.bytes_sent : want.bytes_received) +=
        comm.rank() == 0 ? peers * 40 : 40;
    EXPECT_EQ(comm.traffic(), want);

    comm.barrier(*context.compute);
    comm.all_reduce(*context.compute, view(whole), ReduceOp::sum, {.control = true});
    want.control = 2;
    EXPECT_EQ(comm.traffic(), want);

    context.compute->synchronize();  // before the operands are freed
    comm.reset_traffic();
    EXPECT_EQ(comm.traffic(), Traffic{});
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, Counting, ::testing::Values(1, 2, 3, 4));

TEST(Traffic, DifferenceUndoesTheSum) {
  constexpr std::int64_t Traffic::*kCounters[] = {
      &Traffic::all_gathers, &Traffic::reduce_scatters, &Traffic::all_reduces, &Traffic::broadcasts,
      &Traffic::bytes_sent,  &Traffic::bytes_received,  &Traffic::control};
  static_assert(sizeof(Traffic) == sizeof kCounters / sizeof *kCounters * sizeof(std::int64_t));
  Generator generator(1);
  for (int i = 0; i < 20; ++i) {
    Traffic a, b;
    for (const auto counter : kCounters) {
      a.*counter = 1 + generator.randint(1000);
      b.*counter = 1 + generator.randint(1000);
    }
    EXPECT_EQ(a + b - b, a);
    for (const auto counter : kCounters) EXPECT_EQ((a + b).*counter, a.*counter + b.*counter);
  }
}

TEST(Mesh, AddsUpTheTrafficOfItsGroups) {
  run_ranks(Backend::local, 2, [](Context& context, std::unique_ptr<Communicator> world) {
    comm::Mesh mesh(std::move(world));
    std::vector<float> part(3), whole(6);
    mesh.gather().all_gather(*context.compute, view(part), view(whole));
    mesh.reduce().reduce_scatter(*context.compute, view(whole), view(part), ReduceOp::sum);
    mesh.world().barrier(*context.compute);
    EXPECT_EQ(mesh.traffic(), (Traffic{.all_gathers = 1,
                                       .reduce_scatters = 1,
                                       .bytes_sent = 24,
                                       .bytes_received = 24,
                                       .control = 1}));
    context.compute->synchronize();
    mesh.reset_traffic();
    EXPECT_EQ(mesh.traffic(), Traffic{});
  });
}

// Six ranks are in groups of three: {0, 1, 2} and {3, 4, 5} share a model, and {0, 3}, {1, 4}, {2,
// 5} hold the same shard.
TEST(Mesh, IsAGridOfShardGroupsAndReplicateGroups) {
  run_ranks(Backend::local, 6, [](Context& context, std::unique_ptr<Communicator> world) {
    comm::Mesh mesh(std::move(world), 3);
    EXPECT_EQ(mesh.shard_size(), 3);
    EXPECT_EQ(mesh.replicas(), 2);
    EXPECT_EQ(mesh.gather().rank(), context.rank % 3);
    EXPECT_EQ(mesh.replicate().rank(), context.rank / 3);
    const auto gathered = [&](Communicator& group) {
      std::vector<std::int32_t> mine = {context.rank}, all(static_cast<std::size_t>(group.size()));
      group.all_gather(*context.compute, view(mine), view(all), {.control = true}).synchronize();
      return all;
    };
    const int first = context.rank / 3 * 3, shard = context.rank % 3;
    const std::vector<std::int32_t> shards = {first, first + 1, first + 2};
    EXPECT_EQ(gathered(mesh.gather()), shards);
    EXPECT_EQ(gathered(mesh.reduce()), shards);
    EXPECT_EQ(gathered(mesh.replicate()), (std::vector<std::int32_t>{shard, shard + 3}));
    // Only the replicate groups send bytes across the shard groups.
    std::vector<float> part(2), whole(6);
    mesh.gather().all_gather(*context.compute, view(part), view(whole));
    EXPECT_EQ(mesh.traffic_across().bytes_sent, 0);
    mesh.replicate().all_reduce(*context.compute, view(part), ReduceOp::sum);
    EXPECT_EQ(mesh.traffic_across().bytes_sent, 8);
    context.compute->synchronize();
    mesh.reset_traffic();
    EXPECT_EQ(mesh.traffic(), Traffic{});
  });
}

TEST(Mesh, SplitGroupsCountForThemselves) {
  const auto self = comm::make_self();
  Context context;
  Communicator& comm = *self;
  const auto twin = comm.split(0);
  twin->barrier(*context.compute);
  EXPECT_EQ(comm.traffic(), Traffic{});
}

}  // namespace
}  // namespace nanofsdp::testing
