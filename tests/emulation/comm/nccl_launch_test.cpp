#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "base/transfer.h"
#include "emulation/nccl_ranks.h"
#include "nccl.h"
#include "nccl/collective_checks.h"

// NCCL puts a collective on its stream later, while the host goes on. Work that follows on the
// stream, or that waits for the collective, must still come after it.

namespace nanofsdp::testing {
namespace {

using comm::Communicator;
using comm::ReduceOp;

std::vector<std::string> nothing(int size) { return std::vector<std::string>(size); }

Tensor host(std::vector<float>& x) {
  return Tensor(x.data(), {static_cast<std::int64_t>(x.size())});
}

TEST(NcclLaunch, IsNotWaitedForByWhoIssuesAGather) {
  const auto body = [](Context& context, Store& store, std::unique_ptr<Communicator> world) {
    const OnDevice<float> in(context, {1, 2}), all(context, {0, 0, 0, 0});
    world->barrier(*context.gather).synchronize();
    if (context.rank == 1) store.get("rank 0 has issued", 10s);
    const int before = emulation::asked;
    const Event event = world->all_gather(*context.gather, in.tensor(), all.tensor());
    const Event behind = context.gather->record();
    if (context.rank == 0) {
      EXPECT_LE(emulation::asked - before, 1) << "a look at what is done by now";
      store.set("rank 0 has issued", "");
    }
    EXPECT_EQ(event.state(), behind.state()) << "nothing lies between them";
    context.compute->wait(behind);
    EXPECT_EQ(all.values(), (std::vector<float>{1, 2, 1, 2}));
  };
  EXPECT_EQ(run_on_nccl(2, body), nothing(2));
}

TEST(NcclLaunch, ComesBeforeWhatIsEnqueuedBehindIt) {
  const auto body = [](Context& context, Store&, std::unique_ptr<Communicator> world) {
    constexpr std::int64_t n = 33;
    const int size = world->size(), rank = world->rank();
    const OnDevice<float> in(context, std::vector<float>(n * size));
    const OnDevice<float> all(context, std::vector<float>(n * size));
    std::vector<float> spoilt(n * size, -1.0f);
    for (int round = 0; round < 10; ++round) {
      SCOPED_TRACE(round);
      std::vector<float> fresh = numbers<float>(rank + round, n), got(n * size);
      const Tensor mine = in.tensor().slice(0, n);
      transfer(*context.gather, host(fresh), mine);
      world->all_gather(*context.gather, mine, all.tensor());
      transfer(*context.gather, host(spoilt), in.tensor());
      transfer(*context.gather, all.tensor(), host(got));
      for (int peer = 0; peer < size; ++peer) {
        const auto want = numbers<float>(peer + round, n);
        ASSERT_EQ(first_difference(slice(got, peer * n, n), want), -1);
      }
      world->broadcast(*context.gather, all.tensor(), round % size);
      context.reduce->wait(context.gather->record());
      transfer(*context.reduce, host(spoilt), all.tensor());
      context.gather->wait(context.reduce->record());
    }
    context.gather->synchronize();
  };
  EXPECT_EQ(run_on_nccl(3, body), nothing(3));
}

// The calls of a group begin one after another, also from two streams and in a split.
TEST(NcclLaunch, OfOneCallComesBeforeTheNextIsMade) {
  const auto body = [](Context& context, Store&, std::unique_ptr<Communicator> world) {
    const OnDevice<float> in(context, {1, 2}), all(context, {0, 0, 0, 0});
    for (int round = 0; round < 5; ++round) {
      world->all_gather(*context.gather, in.tensor(), all.tensor());
      context.reduce->wait(context.gather->record());
      world->broadcast(*context.reduce, in.tensor(), 0);
      world->all_gather(*context.reduce, in.tensor(), all.tensor());
      const auto group = world->split(0);
      group->barrier(*context.gather);
      context.gather->synchronize();
      context.gather->wait(context.reduce->record());
    }
    context.gather->synchronize();
  };
  EXPECT_EQ(run_on_nccl(2, body), nothing(2));
}

// If a collective fails before it is launched, its error reaches the next caller that needs the
// stream.
TEST(NcclLaunch, ThatFailsIsToldByWhoeverNeedsTheStream) {
  const auto body = [](Context& context, Store& store, std::unique_ptr<Communicator> given) {
    const OnDevice<float> in(context, {1, 2}), all(context, {0, 0, 0, 0});
    const std::unique_ptr<Communicator> world = std::move(given);  // destroyed before these
    world->barrier(*context.gather).synchronize();
    if (context.rank == 1) {
      store.get("rank 0 is done", 10s);
      return world->abort("so that nobody waits for a farewell");
    }
    world->all_gather(*context.gather, in.tensor(), all.tensor(), {.unit = "h.0"});
    world->abort("the test says so");
    const std::string want =
        "rank 0 gave up: the test says so in all_gather 2 of 2 float32 a rank for unit h.0";
    std::vector<float> x(2);
    EXPECT_EQ(message_of<comm::CommError>([&] { transfer(*context.gather, host(x), in.tensor()); }),
              want);
    EXPECT_EQ(message_of<comm::CommError>([&] { context.gather->synchronize(); }), want);
    store.set("rank 0 is done", "");
  };
  EXPECT_EQ(run_on_nccl(2, body), nothing(2));
}

}  // namespace
}  // namespace nanofsdp::testing
