#include <gtest/gtest.h>

#include <vector>

#include "support/caller.h"

namespace nanofsdp::fsdp::late_values_test {
namespace {

using testing::CallerOptions;
using testing::for_all_shardings;

// Values may come after a user has asked for the whole parameters. The next pass reads them.
TEST(FirstValues, ThatComeAfterAnUnshardAreUsed) {
  for_all_shardings([](const CallerOptions& options) {
    for (const bool waits : {false, true}) {
      testing::run_callers(options, [&](testing::Caller& c) {
        const auto store = [&](float value) {
          for (ShardedParameters* row : c.sharded.rows())
            for (std::size_t i = 0; i < row->parameters().size(); ++i) {
              const auto numel = static_cast<std::size_t>(row->parameters()[i]->shape.numel());
              row->store(i, std::vector<float>(numel, value));
            }
        };
        store(1);
        const std::vector<float> ones = c.evaluate();
        for (Unit& unit : c.sharded.units()) {
          unit.unshard();
          if (waits) unit.wait_until_unsharded();
        }
        store(2);
        const std::vector<float> first = c.evaluate(), second = c.evaluate();
        EXPECT_NE(first, ones);
        EXPECT_EQ(first, second);
      });
    }
  });
}

}  // namespace
}  // namespace nanofsdp::fsdp::late_values_test
