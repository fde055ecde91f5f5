#include "faults.h"

#include <gtest/gtest.h>

#include <chrono>
#include <latch>
#include <string>
#include <vector>

#include "base/buffer.h"
#include "base/check.h"
#include "comm/nccl.h"
#include "comm/sum.h"
#include "launch/party.h"
#include "nccl/collective_checks.h"

// The n-th call of CUDA fails, and nothing of CUDA's is left that no program can free.

namespace nanofsdp::testing {
namespace {

TEST(FailNth, LeavesNoMemoryThatCouldNotBeZeroed) {
  const long before = emulation::alive;
  emulation::has_failed = false;
  {
    Context context(0, 1, 1, Device::cuda);
    const long streams = emulation::alive;
    for (long n = 1; n <= 3; ++n) {  // to allocate, to fill with zeros, to wait for that
      emulation::fail_nth(n);
      EXPECT_THROW(context.buffer(MemoryClass::activations, 9), Error) << n;
      EXPECT_EQ(emulation::alive, streams) << n;
    }
    emulation::fail_nth(0);
    emulation::has_failed = false;
    EXPECT_EQ(context.ledger.total(), 0);
  }
  EXPECT_EQ(emulation::alive, before);
}

// A sum of more than 64 ranks reads a table, which a sum of still more ranks replaces.
TEST(FailNth, OfManyRanksCanBeMadeAgain) {
  const long before = emulation::alive;
  std::size_t failures = 0;
  for (long n = 1; n < 9; ++n) {
    Context context(0, 1, 1, Device::cuda);
    const OnDevice<float> x(context, {1, 2, 3}), sum(context, {0, 0, 0});
    const auto add = [&](std::size_t ranks) {
      const std::vector<const void*> all(ranks, x.tensor().raw());
      comm::sum_in_rank_order(*context.compute, all, DType::float32, sum.tensor(),
                              comm::ReduceOp::sum);
    };
    add(65);
    emulation::fail_nth(n);
    try {
      add(130);
    } catch (const Error&) {
      ++failures;
    }
    emulation::fail_nth(0);
    emulation::has_failed = false;
    add(66);
    EXPECT_EQ(sum.values(), (std::vector<float>{66, 132, 198})) << n;
  }
  EXPECT_GE(failures, 5u);
  EXPECT_EQ(emulation::alive, before);
}

// NCCL may have made the new group before it reports an error of the old one.
TEST(FailNth, LeavesNoGroupThatCouldNotBeSplit) {
  const long before = emulation::alive;
  int failures = 0;
  for (long n = 1; n < 12; ++n) {
    Party(2).everybody([&](Store& store) {
      Context context(store.rank(), 2, 1, Device::cuda);
      try {
        const auto world = comm::make_nccl(context, store);
        if (store.rank() == 0) emulation::fail_nth(n, /*later=*/true);
        world->split(0);
      } catch (const std::exception& error) {
        if (store.rank() == 0) ++failures;
        store.fail(error.what());
      }
    });
    EXPECT_EQ(emulation::alive, before) << n;
  }
  emulation::has_failed = false;
  EXPECT_GT(failures, 1);
}

// A rank may be lost while the others start: before NCCL has an id, or while it connects them.
TEST(FailNth, OfAnotherRankEndsTheMakingOfAGroup) {
  for (const bool connects : {false, true}) {
    Party(2).everybody([&](Store& store) {
      if (store.rank() == 1) {
        if (connects) store.get("nccl/id", 20s);
        return store.fail("it has no GPU");
      }
      if (!connects) {
        EXPECT_NE(store.loss(20s), "");
      }
      Context context(0, 2, 1, Device::cuda);
      try {
        comm::make_nccl(context, store, {.connect_timeout = 20s});
        ADD_FAILURE() << "no error";
      } catch (const RankError& error) {
        EXPECT_NE(std::string(error.what()).find("it has no GPU"), std::string::npos)
            << error.what();
        EXPECT_TRUE(error.consequence);
      }
    });
  }
}

// A rank whose call fails may have work in another group, which waits for the other rank. So it
// says why before it frees the memory of that work.
TEST(FailNth, OfOneGroupIsKnownBeforeTheWorkOfAnotherEnds) {
  std::string error;
  Party(2).everybody([&](Store& store) {
    Context context(store.rank(), 2, 1, Device::cuda);
    const auto world = comm::make_nccl(context, store);
    const auto other = world->split(0);
    const OnDevice<float> in(context, {1}), out(context, {0, 0});
    const auto gather = [&](comm::Communicator& group, Stream& stream) {
      group.all_gather(stream, in.tensor(), out.tensor()).synchronize();
    };
    if (store.rank() == 0) {
      const Buffer memory = context.buffer(MemoryClass::activations, 9);
      store.get("rank 1 has both groups", 20s);
      other->all_gather(*context.reduce, in.tensor(), out.tensor());
      emulation::fail_nth(2);  // the call after the making of an event is NCCL's
      EXPECT_THROW(gather(*world, *context.gather), comm::CommError);
      emulation::fail_nth(0);
    } else {
      store.set("rank 1 has both groups", "");
      error = message_of<comm::CommError>([&] { gather(*world, *context.gather); });
    }
  });
  emulation::has_failed = false;
  EXPECT_NE(error.find("rank 0 failed"), error.npos) << error;
}

// A rank gives up in one group, while work of its other group waits for the same lost call. CUDA
// frees memory only when all work is over, so that work must be given up, too.
TEST(NcclGivesUp, AllGroupsOfARankAtOnce) {
  std::latch over(1);
  Party(2).everybody([&](launch::Store& store) {
    Context context(store.rank(), 2, 1, Device::cuda);
    const auto world = comm::make_nccl(context, store, {.timeout = std::chrono::milliseconds(300)});
    const auto other = world->split(0);
    const OnDevice<float> in(context, {1}), all(context, {0, 0});
    if (store.rank() == 1) return over.wait();
    emulation::has_failed = true;  // from now on cudaFree() waits for all work, as CUDA's does
    try {
      const Buffer memory = context.buffer(MemoryClass::activations, 9);
      other->all_gather(*context.reduce, in.tensor(), all.tensor());
      world->all_gather(*context.gather, in.tensor(), all.tensor()).synchronize();
      ADD_FAILURE() << "rank 1 has not come";
    } catch (const comm::CommError& error) {
      EXPECT_NE(std::string(error.what()).find("in vain for the others"), std::string::npos);
    }
    emulation::has_failed = false;
    over.count_down();
  });
}

}  // namespace
}  // namespace nanofsdp::testing
