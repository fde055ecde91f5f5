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

// A mesh of two shard groups of four ranks, with post-forward groups of two.
comm::Mesh mesh_of(std::unique_ptr<Communicator> world) {
  return comm::Mesh(std::move(world), /*shard_size=*/4, /*post_forward_size=*/2);
}

// In every group, a rank waits for another one that does not come, until the mesh is aborted.
TEST(MeshOfAll, AbortsEveryGroup) {
  for (int which = 0; which < 5; ++which) {
    run_ranks(Backend::local, 8, [&](Context& context, std::unique_ptr<Communicator> world) {
      comm::Mesh mesh = mesh_of(std::move(world));
      Communicator* const groups[] = {&mesh.world(), &mesh.gather(), &mesh.reduce(),
                                      &mesh.replicate(), mesh.post_forward()};
      Communicator& group = *groups[which];
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
  run_ranks(Backend::local, 8, [&](Context& context, std::unique_ptr<Communicator> world) {
    std::vector<float> part(4), whole(32);
    world->all_gather(*context.compute, view(part), view(whole)).synchronize();
    comm::Mesh mesh = mesh_of(std::move(world));
    EXPECT_EQ(mesh.traffic(), comm::Traffic()) << "what the world moved before the mesh";
    Communicator* const groups[] = {&mesh.world(), &mesh.gather(), &mesh.reduce(),
                                    &mesh.replicate(), mesh.post_forward()};
    std::int64_t others = 0;
    for (Communicator* const group : groups) {
      std::vector<float> all(static_cast<std::size_t>(4 * group->size()));
      group->all_gather(*context.compute, view(part), view(all)).synchronize();
      others += group->size() - 1;
    }
    EXPECT_EQ(mesh.traffic(),
              (comm::Traffic{
                  .all_gathers = 5, .bytes_sent = 16 * others, .bytes_received = 16 * others}));
    mesh.reset_traffic();
    EXPECT_EQ(mesh.traffic(), comm::Traffic());
  });
}

}  // namespace
}  // namespace nanofsdp::testing
