#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "base/transfer.h"
#include "support/caller.h"
#include "support/late_stream.h"

// On a GPU the host is far ahead of the computation. In these tests the computation of a CPU is
// late, too.

namespace nanofsdp::fsdp::late_compute_test {
namespace {

using testing::Backend;
using testing::Caller;
using testing::CallerOptions;
using testing::for_all_shardings;

template <class Body>
auto run(const CallerOptions& options, bool late, const Body& body) {
  const int ranks = sharding_of(options.strategy).replicates ? 4 : 2;
  return testing::run_ranks(Backend::local, options.post_forward_size > 0 ? 4 : ranks,
                            [&](Context& context, std::unique_ptr<comm::Communicator> world) {
                              Caller caller(context, std::move(world), options);
                              context.compute->synchronize();
                              if (late) context.compute = std::make_unique<testing::LateStream>();
                              const std::vector<float> result = body(caller);
                              context.compute->synchronize();  // before its memory is freed
                              return result;
                            });
}

std::vector<float> weights(Caller& c) {
  std::vector<float> all, room;
  c.sharded.summon_full_parameters([&](const nn::Parameter& p) {
    const auto values = on_host<float>(c.sharded.stream(), p.data, room);
    all.insert(all.end(), values.begin(), values.end());
  });
  return all;
}

// When a user calls unshard() after a step, the unit shows the weights after that step. An
// evaluation that no call has ended changes nothing.
TEST(LateCompute, OrdersWhatAUserUnshards) {
  for_all_shardings([](const CallerOptions& options) {
    run(options, true, [](Caller& c) {
      nn::Tape other(c.context);
      Owned<float> x = testing::random_tensor({1, testing::kCallerWidth}, 9);
      for (int step = 0; step < 4; ++step) {
        c.sharded.zero_grad();
        other.begin(false);
        c.sharded.forward(other, x);
        if (step % 2 == 0) other.end();
        c.pass();
        c.step();
        std::vector<float> all, room;
        for (Unit& unit : c.sharded.units()) {
          unit.unshard();
          unit.wait_until_unsharded();
          for (const ShardedParameters& row : unit.rows()) {
            for (const nn::Parameter* p : row.parameters()) {
              const auto values = on_host<float>(c.sharded.stream(), p->data, room);
              all.insert(all.end(), values.begin(), values.end());
            }
          }
          unit.reshard();
        }
        EXPECT_EQ(all, weights(c)) << step;
      }
      return weights(c);
    });
  });
}

// The law of streams: the time of a computation changes no result. This also holds when backward
// gathers from slices that forward has kept.
TEST(LateCompute, ChangesNoBit) {
  const auto train = [](Caller& c) {
    for (int step = 0; step < 3; ++step) {
      c.sharded.zero_grad();
      c.pass(false);
      c.pass();
      c.step();
    }
    return weights(c);
  };
  for_all_shardings([&](CallerOptions options) {
    for (const int post_forward_size : {0, 2}) {
      if (post_forward_size > 0 && !sharding_of(options.strategy).reshards_after_forward) continue;
      if (post_forward_size > 0 && sharding_of(options.strategy).replicates) continue;
      options.post_forward_size = post_forward_size;
      EXPECT_EQ(run(options, true, train), run(options, false, train)) << post_forward_size;
    }
  });
}

}  // namespace
}  // namespace nanofsdp::fsdp::late_compute_test
