#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "comm/mesh.h"
#include "comm/rank_data.h"
#include "support/errors.h"
#include "support/ranks.h"

// Tests that a mesh treats all its groups alike, with the optional one.

namespace nanofsdp::testing {
namespace {

using comm::CommError;
using comm::Communicator;

// Two shard groups of four ranks, with post-forward groups of two; and this twice, in tensor groups
// of two.
constexpr int kAll = 16;
comm::Mesh mesh_of(std::unique_ptr<Communicator> world) {
  return comm::Mesh(std::move(world), /*shard_size=*/4, /*post_forward_size=*/2, /*tensor_size=*/2);
}
std::vector<Communicator*> groups_of(comm::Mesh& mesh) {
  return {&mesh.world(),     &mesh.gather(),      &mesh.reduce(),
          &mesh.replicate(), mesh.post_forward(), &mesh.tensor()};
}

// In every group, a rank waits for another one that does not come, until the mesh is aborted.
TEST(MeshOfAll, AbortsEveryGroup) {
  for (int which = 0; which < 6; ++which) {
    run_ranks(Backend::local, kAll, [&](Context& context, std::unique_ptr<Communicator> world) {
      comm::Mesh mesh = mesh_of(std::move(world));
      Communicator& group = *groups_of(mesh)[static_cast<std::size_t>(which)];
      Event waits;
      if (group.rank() == 0) waits = group.barrier(*context.gather);
      mesh.abort("enough");
      if (group.rank() == 0) {
        try {
          waits.synchronize();
          ADD_FAILURE() << "group " << which << " goes on";
        } catch (const CommError& error) {
          EXPECT_EQ(error.kind, CommError::Kind::aborted) << error.what();
          EXPECT_NE(std::string(error.what()).find("enough"), std::string::npos) << error.what();
        }
      }
      EXPECT_THROW(group.barrier(*context.compute).synchronize(), CommError) << which;
    });
  }
}

TEST(MeshOfAll, CountsWhatEveryGroupMoves) {
  run_ranks(Backend::local, kAll, [&](Context& context, std::unique_ptr<Communicator> world) {
    std::vector<float> part(4), whole(4 * kAll);
    world->all_gather(*context.compute, view(part), view(whole)).synchronize();
    comm::Mesh mesh = mesh_of(std::move(world));
    EXPECT_EQ(mesh.traffic(), comm::Traffic()) << "what the world moved before the mesh";
    std::int64_t others = 0;
    for (Communicator* const group : groups_of(mesh)) {
      std::vector<float> all(static_cast<std::size_t>(4 * group->size()));
      group->all_gather(*context.compute, view(part), view(all)).synchronize();
      others += group->size() - 1;
    }
    EXPECT_EQ(mesh.traffic(),
              (comm::Traffic{
                  .all_gathers = 6, .bytes_sent = 16 * others, .bytes_received = 16 * others}));
    mesh.reset_traffic();
    EXPECT_EQ(mesh.traffic(), comm::Traffic());
  });
}

// Without tensor groups, the world of the mesh is the communicator that the program has used.
TEST(Mesh, DoesNotCountWhatItsWorldSentBefore) {
  for (const int shard_size : {0, 2}) {
    run_ranks(Backend::local, 4, [&](Context& context, std::unique_ptr<Communicator> world) {
      std::vector<float> part(4), whole(16);
      world->all_gather(*context.compute, view(part), view(whole)).synchronize();
      world->barrier(*context.compute).synchronize();
      const comm::Mesh mesh(std::move(world), shard_size);
      EXPECT_EQ(mesh.traffic(), comm::Traffic());
    });
  }
}

// The numbers of the ranks of a group, among all ranks.
std::vector<int> numbers_in(Context& context, Communicator& group) {
  std::vector<std::int32_t> mine{context.rank}, all(static_cast<std::size_t>(group.size()));
  group.all_gather(*context.compute, view(mine), view(all)).synchronize();
  return {all.begin(), all.end()};
}

// replicas x shards x tensor. The ranks of a tensor group are neighbours.
TEST(MeshOfAll, IsAGrid) {
  run_ranks(Backend::local, 12, [](Context& context, std::unique_ptr<Communicator> world) {
    comm::Mesh mesh(std::move(world), /*shard_size=*/3, /*post_forward_size=*/0, /*tensor_size=*/2);
    const int t = context.rank % 2, f = context.rank / 2 % 3, r = context.rank / 6;
    EXPECT_EQ(numbers_in(context, mesh.tensor()), (std::vector{6 * r + 2 * f, 6 * r + 2 * f + 1}));
    const std::vector<int> shards{6 * r + t, 6 * r + 2 + t, 6 * r + 4 + t};
    EXPECT_EQ(numbers_in(context, mesh.gather()), shards);
    EXPECT_EQ(numbers_in(context, mesh.reduce()), shards);
    EXPECT_EQ(numbers_in(context, mesh.replicate()), (std::vector{2 * f + t, 6 + 2 * f + t}));
    EXPECT_EQ(numbers_in(context, mesh.world()),
              (std::vector{t, 2 + t, 4 + t, 6 + t, 8 + t, 10 + t}));
    EXPECT_EQ(mesh.rank(), context.rank / 2);
    EXPECT_EQ(mesh.size(), 6);
    EXPECT_EQ(mesh.replicas(), 2);
    EXPECT_EQ(mesh.tensor().rank(), t);
  });
}

TEST(MeshOfAll, HasOneTensorGroupOfAllRanksOrGroupsOfOne) {
  for (const int tensor_size : {0, 1, 4}) {
    run_ranks(Backend::local, 4, [&](Context&, std::unique_ptr<Communicator> world) {
      comm::Mesh mesh(std::move(world), 0, 0, tensor_size);
      EXPECT_EQ(mesh.tensor().size(), tensor_size == 1 ? 1 : 4);
      EXPECT_EQ(mesh.size(), tensor_size == 1 ? 4 : 1);
    });
  }
}

// Only groups inside a shard group can keep what the shard group has gathered.
TEST(MeshOfAll, RefusesPostForwardGroupsThatNoShardGroupHolds) {
  for (const int post_forward_size : {3, 4, 8}) {
    run_ranks(Backend::local, 4, [&](Context&, std::unique_ptr<Communicator> world) {
      expect_error<UsageError>([&] { comm::Mesh(std::move(world), 2, post_forward_size); },
                               "reshard_after_forward: expected a divisor of 2 ranks");
    });
  }
}

TEST(MeshOfAll, RefusesTensorGroupsOfUnequalSizeByName) {
  for (const int tensor_size : {-1, 3, 8}) {
    run_ranks(Backend::local, 4, [&](Context&, std::unique_ptr<Communicator> world) {
      expect_error<UsageError>([&] { comm::Mesh(std::move(world), 0, 0, tensor_size); },
                               "tensor_size: expected a divisor of 4 ranks");
    });
  }
  // 8 ranks in tensor groups of 2 are 4 ranks that shard, not 8.
  run_ranks(Backend::local, 8, [](Context&, std::unique_ptr<Communicator> world) {
    expect_error<UsageError>([&] { comm::Mesh(std::move(world), 8, 0, 2); },
                             "shard_size: expected a divisor of 4 ranks");
  });
}

}  // namespace
}  // namespace nanofsdp::testing
