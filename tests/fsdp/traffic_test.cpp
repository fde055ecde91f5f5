#include <gtest/gtest.h>

#include <array>

#include "support/ranks.h"
#include "support/tiny_training.h"

namespace nanofsdp::fsdp {
namespace {

using testing::Backend;
using testing::TinyOptions;
using testing::TinyTraining;

// What one step moves, and what the layouts say it should: counts, then bytes.
std::vector<std::int64_t> measured_and_expected(Context& context,
                                                std::unique_ptr<comm::Communicator> group,
                                                const TinyOptions& options) {
  TinyTraining training(context, std::move(group), options);
  training.step(0);
  const comm::Traffic before = training.mesh.traffic();
  training.step(1);
  const comm::Traffic after = training.mesh.traffic();

  const std::int64_t W = context.world_size, M = options.micro_steps;
  const std::int64_t U = static_cast<std::int64_t>(training.sharded.units().size());
  const bool full = options.strategy == kFullShard;
  std::int64_t bytes = 0;
  for (const Unit& unit : training.sharded.units()) {
    const std::int64_t chunk = 4 * unit.flat().layout().shard_numel();
    const bool root = unit.name() == "root";
    // An all-reduce is a reduce-scatter and an all-gather.
    bytes += (W - 1) * chunk * (full ? M * ((root ? 1 : 2) + 1) : 2);
  }
  return {after.all_gathers - before.all_gathers,         full ? M * (2 * U - 1) : 0,
          after.reduce_scatters - before.reduce_scatters, full ? M * U : 0,
          after.all_reduces - before.all_reduces,         full ? 0 : U,
          after.broadcasts - before.broadcasts,           0,
          after.bytes_sent - before.bytes_sent,           bytes,
          after.bytes_received - before.bytes_received,   bytes};
}

// Promise 4: the traffic of a step is the design's table, to the operation and to the byte.
TEST(Traffic, EqualsTheTable) {
  for (const Backend backend : testing::backends()) {
    for (const ShardingStrategy& strategy : {kFullShard, kNoShard}) {
      for (const std::int64_t micro_steps : {1, 2}) {
        for (const int world : {2, 3}) {
          const auto ranks = testing::run_ranks(
              backend, world, [&](Context& context, std::unique_ptr<comm::Communicator> group) {
                return measured_and_expected(context, std::move(group),
                                             {.strategy = strategy, .micro_steps = micro_steps});
              });
          for (const auto& numbers : ranks) {
            ASSERT_EQ(numbers.size(), 12u);
            for (std::size_t i = 0; i < numbers.size(); i += 2) {
              EXPECT_EQ(numbers[i], numbers[i + 1]) << name_of(strategy) << " M=" << micro_steps
                                                    << " W=" << world << " row " << i / 2;
            }
          }
        }
      }
    }
  }
}

// An evaluation gathers too, but is not part of the training traffic.
TEST(Traffic, OfAnEvaluationCountsApart) {
  testing::run_ranks(Backend::local, 2,
                     [](Context& context, std::unique_ptr<comm::Communicator> group) {
                       TinyTraining training(context, std::move(group), {});
                       auto tokens = testing::tiny_tokens(0, 0, 0, 1, 0);
                       training.tape.begin(false);
                       training.sharded.forward(training.tape, tokens);
                       training.tape.end();
                       const comm::Traffic traffic = training.mesh.traffic();
                       EXPECT_EQ(traffic.bytes_sent, 0);
                       EXPECT_EQ(traffic.control, 4);  // three blocks and the root
                     });
}

TEST(Traffic, OfOneRankIsNone) {
  testing::run_ranks(Backend::self, 1, [](Context& context, std::unique_ptr<comm::Communicator> g) {
    TinyTraining training(context, std::move(g), {});
    training.step(0);
    const comm::Traffic traffic = training.mesh.traffic();
    EXPECT_EQ(traffic.bytes_sent, 0);
    EXPECT_EQ(traffic.all_gathers + traffic.reduce_scatters + traffic.all_reduces, 0);
  });
}

}  // namespace
}  // namespace nanofsdp::fsdp
