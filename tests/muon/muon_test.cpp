#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "muon/trained.h"
#include "support/errors.h"
#include "support/layouts.h"
#include "support/temporary_directory.h"

// Tests the sharded Muon of lesson 25 against a plain one in one process.

namespace nanofsdp::muon_test {
namespace {

constexpr ShardingStrategy kStrategies[] = {
    ShardingStrategy::no_shard,        ShardingStrategy::shard_optimizer,
    ShardingStrategy::shard_gradients, ShardingStrategy::shard_grad_op,
    ShardingStrategy::full_shard,      ShardingStrategy::hybrid_shard};
using testing::kLayouts;

std::string words(const Case& c) {
  return name_of(c.strategy) + " " + testing::name_of(c.layout) + " " + std::to_string(c.ranks) +
         " ranks";
}

// The gradients of all ranks count.
void expect_equal_to_plain(std::int64_t steps) {
  for (int ranks = 1; ranks <= 6; ++ranks) {
    const auto expected = plain({.ranks = ranks, .steps = steps});
    for (const LayoutKind layout : kLayouts) {
      const Case c{.ranks = ranks, .layout = layout, .steps = steps};
      EXPECT_EQ(sharded(c).weights, expected) << words(c);
    }
  }
}
TEST(Muon, EqualsAPlainOneForAnyRanks) { expect_equal_to_plain(10); }
TEST(Muon, LongEqualsAPlainOneOver200Steps) { expect_equal_to_plain(200); }

TEST(Muon, EqualsAPlainOneInEveryStrategy) {
  for (const int ranks : {2, 3, 4}) {
    const auto expected = plain({.ranks = ranks});
    for (const ShardingStrategy strategy : kStrategies) {
      if (sharding_of(strategy).replicates) continue;
      for (const LayoutKind layout : kLayouts) {
        const Case c{.ranks = ranks, .strategy = strategy, .layout = layout};
        EXPECT_EQ(sharded(c).weights, expected) << words(c);
      }
    }
  }
}

// If only one rank has gradients, the order of the sums makes no difference. Then the bits do not
// depend on the number of ranks either.
TEST(Muon, HasTheSameBitsForEveryNumberOfRanks) {
  const auto expected = plain({.ranks = 1, .steps = 20});
  for (int ranks = 1; ranks <= 6; ++ranks) {
    for (const ShardingStrategy strategy :
         {ShardingStrategy::full_shard, ShardingStrategy::hybrid_shard}) {
      if (sharding_of(strategy).replicates && ranks % 2 != 0) continue;
      for (const LayoutKind layout : kLayouts) {
        const Case c{ranks, strategy, layout, 20, /*only_first=*/true};
        EXPECT_EQ(sharded(c).weights, expected) << words(c);
      }
    }
  }
}

// Under hybrid_shard_optimizer a group of ranks does not own all of a matrix.
TEST(Muon, RefusesReplicasThatSplitTheUpdate) {
  const Case split{.ranks = 4, .strategy = ShardingStrategy::hybrid_shard_optimizer};
  testing::expect_error<testing::RankError>([&] { sharded(split); }, "use hybrid_shard, not");
}

// A checkpoint has the momentum of every matrix, and goes on with other ranks and another layout.
TEST(Muon, GoesOnFromACheckpoint) {
  const testing::TemporaryDirectory directory;
  const std::string dir = directory.file("out");
  sharded({.ranks = 2, .steps = 3, .only_first = true, .save = dir});
  const Case rest{.ranks = 3,
                  .layout = LayoutKind::per_parameter,
                  .steps = 6,
                  .only_first = true,
                  .first_step = 3,
                  .load = dir};
  EXPECT_EQ(sharded(rest).weights, plain({.ranks = 1, .steps = 6}));
}

// Slices are not enough: this is the planted mistake.
TEST(Muon, OnSlicesIsAnotherOptimizer) {
  Case c{.ranks = 2, .layout = LayoutKind::per_parameter};
  c.options.slices = true;
  EXPECT_NE(sharded(c).weights, plain(c));
  c.ranks = 1;  // a slice of one rank is the whole matrix
  EXPECT_EQ(sharded(c).weights, plain(c));
}

// However many units there are, two ranks differ by at most one matrix, and no work is lost.
TEST(Muon, SharesOutTheWorkEvenly) {
  std::uint32_t random = 1;
  const auto draw = [&](std::uint32_t most) {
    random = random * 1664525 + 1013904223;
    return 1 + (random >> 16) % most;
  };
  for (int i = 0; i < 200; ++i) {
    std::vector<double> load(draw(6));
    double sum = 0, longest = 0;
    for (std::uint32_t unit = draw(5); unit > 0; --unit) {
      std::vector<lesson::Matrix> matrices(draw(7));
      for (lesson::Matrix& m : matrices) {
        m.work = draw(100);
        sum += m.work;
        longest = std::max(longest, m.work);
      }
      lesson::share_out(matrices, load);
      for (const lesson::Matrix& m : matrices) {
        ASSERT_TRUE(m.rank >= 0 && m.rank < std::ssize(load));
      }
      const auto [least, most] = std::ranges::minmax_element(load);
      EXPECT_LE(*most - *least, longest);
    }
    EXPECT_EQ(std::accumulate(load.begin(), load.end(), 0.0), sum);
  }
}

// One all-gather and one reduce-scatter of each block's row, and nothing for the root.
TEST(Muon, SendsAnAllGatherAndAReduceScatterOfEachUnitWithMatrices) {
  for (const LayoutKind layout : kLayouts) {
    for (const int ranks : {1, 2, 3}) {
      const comm::Traffic sent = sharded({.ranks = ranks, .layout = layout, .steps = 1}).traffic;
      gpt::GPT model(config());
      std::int64_t row = 0;
      for (const auto& unit : fsdp::wrap(model, fsdp::is_a<gpt::Block>)) {
        if (unit.parameters.size() > 4) {
          row += fsdp::Layout(fsdp::specs_of(unit.parameters), ranks, 4, layout).padded_numel();
        }
      }
      EXPECT_EQ(sent.all_gathers, ranks == 1 ? 0 : 3);
      EXPECT_EQ(sent.reduce_scatters, ranks == 1 ? 0 : 3);
      EXPECT_EQ(sent.bytes_sent, 2 * 4 * row * (ranks - 1) / ranks);
    }
  }
}

}  // namespace
}  // namespace nanofsdp::muon_test
