#include <gtest/gtest.h>

#include "support/late_wire.h"
#include "support/ranks.h"
#include "support/tiny_training.h"

namespace nanofsdp::fsdp {
namespace {

using testing::Backend;
using testing::LateWire;
using testing::TinyOptions;
using testing::TinyTraining;

std::vector<std::vector<float>> train(bool late, const TinyOptions& options) {
  return testing::run_ranks(Backend::local, 2,
                            [&](Context& context, std::unique_ptr<comm::Communicator> world) {
                              if (late) world = std::make_unique<LateWire>(std::move(world));
                              return TinyTraining(context, std::move(world), options).run();
                            });
}

// The law of streams: the time at which bytes arrive changes no result.
TEST(LateWire, ChangesNoBit) {
  for (ShardingStrategy strategy : {ShardingStrategy::full_shard, ShardingStrategy::no_shard}) {
    for (const BackwardPrefetch prefetch : {BackwardPrefetch::none, BackwardPrefetch::pre}) {
      const TinyOptions options{.strategy = strategy, .prefetch = prefetch, .micro_steps = 2};
      EXPECT_EQ(train(true, options), train(false, options)) << name_of(strategy);
    }
  }
}

}  // namespace
}  // namespace nanofsdp::fsdp
