#include "fsdp/prefetch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <vector>

#include "support/ranks.h"
#include "support/tiny_training.h"

namespace nanofsdp::fsdp {
namespace {

// In whatever orders the passes use their units: forward goes by the pass just before, and not by
// an older one.
TEST(ForwardOrder, IsThatOfThePassBefore) {
  testing::run_ranks(
      testing::Backend::self, 1, [](Context& context, std::unique_ptr<comm::Communicator> group) {
        testing::TinyTraining training(context, std::move(group), {});
        std::vector<Unit*> before, pass;
        for (Unit& unit : training.sharded.units()) pass.push_back(&unit);
        ForwardOrder order;
        std::mt19937 random(1);
        for (int i = 0; i < 20; ++i) {
          std::ranges::shuffle(pass, random);
          order.begin();
          for (Unit* unit : pass) order.record(*unit);
          for (std::size_t at = 0; at < before.size(); ++at) {
            for (std::size_t distance = 1; distance <= before.size(); ++distance) {
              Unit* next = at + distance < before.size() ? before[at + distance] : nullptr;
              EXPECT_EQ(order.next_in_forward(*before[at], distance), next) << "pass " << i;
            }
          }
          before = pass;
        }
      });
}

}  // namespace
}  // namespace nanofsdp::fsdp
