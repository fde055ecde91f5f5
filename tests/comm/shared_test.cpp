#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include "base/check.h"
#include "base/platform.h"
#include "comm/gloo.h"
#include "comm/rank_data.h"
#include "comm/sharing.h"
#include "launch/launch.h"
#include "support/ranks.h"

// Tests the features of memory that ranks share. collectives_test.cpp tests that its sums are those
// of all backends.

namespace nanofsdp::testing {
namespace {

using comm::Communicator;
using comm::ReduceOp;
using namespace std::chrono_literals;

class Shared : public ::testing::Test {
 protected:
  void SetUp() override {
#ifdef NANOFSDP_TSAN
    GTEST_SKIP() << "the thread sanitizer does not see other processes";
#endif
  }
};

// Operands in shared memory are read where they are, for each size and dtype, and others are copied
// there first. A rank that overwrites an operand after the event disturbs no other rank.
TEST_F(Shared, ReadsOperandsWhereverTheyAre) {
  run_ranks(Backend::shared, 3, [](Context& context, Communicator& world) {
    for (const std::int64_t n : {1, 7, 4'097, 16'385, 600'011}) {
      const Buffer shared = context.buffer(MemoryClass::communication, 7 * n);
      std::vector<float> own(static_cast<std::size_t>(7 * n));
      const std::vector<float> mine = numbers<float>(world.rank(), 3 * n);
      const auto sum = summed<float>(3, 3 * n, ReduceOp::sum);
      for (const Tensor& memory : {shared.tensor({7 * n}), view(own)}) {
        const Tensor in = memory.slice(0, 3 * n), all = memory.slice(3 * n, 3 * n),
                     out = memory.slice(6 * n, n);
        for (int round = 0; round < 3; ++round) {
          std::ranges::copy(mine, in.span<float>().begin());
          world.reduce_scatter(*context.reduce, in, out, ReduceOp::sum).synchronize();
          std::ranges::fill(in.span<float>(), -1.0f);
          ASSERT_TRUE(
              std::ranges::equal(out.span<float>(), std::span(sum).subspan(world.rank() * n, n)));
          world.all_gather(*context.reduce, out, all).synchronize();
          std::ranges::fill(out.span<float>(), -1.0f);
          ASSERT_TRUE(std::ranges::equal(all.span<float>(), sum));
        }
      }
    }
  });
}

// Only operands that do not lie there need more memory.
TEST_F(Shared, CopiesOnlyWhatLiesElsewhere) {
  run_ranks(Backend::shared, 2, [](Context& context, Communicator& world) {
    constexpr std::int64_t n = 1 << 16;
    const auto reserved = [&] { return context.ledger.count(MemoryClass::communication).reserved; };
    const Buffer memory = context.buffer(MemoryClass::parameter_shards, 2 * n);
    std::vector<float> in(n), out(2 * n);
    world.all_reduce(*context.reduce, memory.tensor({2 * n}), ReduceOp::sum).synchronize();
    world.all_gather(*context.reduce, view(in).slice(0, 1), view(out).slice(0, 2)).synchronize();
    EXPECT_EQ(reserved(), 0);
    world.all_gather(*context.reduce, view(in), view(out)).synchronize();
    EXPECT_EQ(reserved(), 4 * n);
  });
}

// A rank may leave when its last call is done, although others still read the operand that it
// copied to its slot.
TEST_F(Shared, WhatARankMailedOutlivesIt) {
  for (int round = 0; round < 10; ++round) {
    run_ranks(Backend::shared, 3, [](Context& context, std::unique_ptr<Communicator> world) {
      std::vector<float> in(1'000, 1.0f + static_cast<float>(context.rank)), all(3'000);
      world->all_gather(*context.gather, view(in), view(all)).synchronize();
      world.reset();
      EXPECT_EQ(all[0], 1.0f);
      EXPECT_EQ(all[2'999], 3.0f);
    });
  }
}

// A collective that succeeds has read the true operands, even if a rank gives up and frees its
// operand while others read it. (They wait a second in each round, for news of a lost rank.)
TEST_F(Shared, LongNobodyTakesFreedMemoryForAnOperand) {
  run_ranks(Backend::shared, 3, [](Context& context, Communicator& world) {
    constexpr std::int64_t n = 1 << 18;
    int succeeded = 0;
    for (int round = 0; round < 12; ++round) {
      auto group = world.split(0);
      Buffer in = context.buffer(MemoryClass::communication, n);
      const Buffer out = context.buffer(MemoryClass::communication, 3 * n);
      std::ranges::fill(in.tensor({n}).span<float>(), 1.0f + static_cast<float>(context.rank));
      const Event done = group->all_gather(*context.gather, in.tensor({n}), out.tensor({3 * n}));
      try {
        if (context.rank == round % 3) {
          std::this_thread::sleep_for(std::chrono::microseconds(100 * round));
          group->abort("enough");
        }
        done.synchronize();
        ++succeeded;
        for (int peer = 0; peer < 3; ++peer) {
          ASSERT_EQ(std::ranges::count(out.tensor({3 * n}).span<float>().subspan(peer * n, n),
                                       1.0f + static_cast<float>(peer)),
                    n);
        }
      } catch (const comm::CommError&) {  // the others failed, or the rank came in time
      }
      group.reset();
      in = Buffer();
      context.gather = make_communication_stream(Device::cpu);  // the old stream has failed
    }
    world.barrier(*context.compute).synchronize();
    EXPECT_LT(succeeded, 12);
  });
}

// Many groups exist at once, and are made from groups; a rank alone is a group too.
TEST_F(Shared, SplitsIntoGroupsThatShare) {
  run_ranks(Backend::shared, 4, [](Context& context, Communicator& world) {
    const auto pair = world.split(context.rank / 2), across = world.split(context.rank % 2);
    const auto alone = pair->split(pair->rank());
    for (const auto& [group, sum] : {std::pair{pair.get(), context.rank < 2 ? 1.0f : 5.0f},
                                     {across.get(), context.rank % 2 == 0 ? 2.0f : 4.0f},
                                     {alone.get(), static_cast<float>(context.rank)}}) {
      constexpr std::int64_t n = 1 << 17;  // a large operand
      const Buffer memory = context.buffer(MemoryClass::communication, n);
      std::ranges::fill(memory.tensor({n}).span<float>(), static_cast<float>(context.rank));
      group->all_reduce(*context.reduce, memory.tensor({n}), ReduceOp::sum).synchronize();
      EXPECT_EQ(std::ranges::count(memory.tensor({n}).span<float>(), sum), n);
    }
    EXPECT_EQ(context.ledger.count(MemoryClass::communication).reserved, 0);  // nothing was copied
  });
}

// ---- which ranks may share

// The outcome of ranks that connect, where rank 1 may not make or open large files.
launch::Outcome connect_limited(comm::Transport transport) {
  return launch::run_processes(2, [transport](launch::Store& store) {
    const rlimit small{1 << 20, 1 << 20};
    setrlimit(RLIMIT_FSIZE, &small);
    Context context(store.rank(), 2);
    const auto world = comm::make_gloo(context, store, {.transport = transport});
    world->barrier(*context.compute).synchronize();
    throw std::runtime_error((context.shared ? "shares: " : "does not: ") + context.transport);
  });
}

TEST_F(Shared, GoesOverTcpWhereTheSystemRefusesAndSaysWhy) {
  EXPECT_NE(connect_limited(comm::Transport::automatic)
                .message.find("does not: TCP (rank 0: File too large)"),
            std::string::npos);
  EXPECT_NE(connect_limited(comm::Transport::gloo).message.find("does not: TCP (as asked)"),
            std::string::npos);
}

TEST_F(Shared, SaysWhyItCannotWhenItMust) {
  const launch::Outcome outcome = connect_limited(comm::Transport::shared);
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_EQ(outcome.message,
            "transport shared: expected ranks that share memory, got rank 0: File too large; use "
            "the transport gloo");
}

// All ranks share or none does: two ranks could, but the third has no addresses for it.
TEST_F(Shared, IsGivenUpByAllIfOneRankCannot) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "the address sanitizer needs all addresses";
#endif
  const launch::Outcome outcome = launch::run_processes(3, [](launch::Store& store) {
    if (store.rank() == 1) {
      const rlim_t most = 2 * SharedMemory::part_bytes(3);  // addresses for two of three parts
      const rlimit few{most, most};
      setrlimit(RLIMIT_AS, &few);
    }
    Context context(store.rank(), 3);
    const auto world = comm::make_gloo(context, store, {.timeout = 5s});
    world->barrier(*context.compute).synchronize();
    if (context.shared || context.transport.find("expected addresses") == std::string::npos) {
      throw std::runtime_error("over " + context.transport);
    }
  });
  EXPECT_EQ(outcome.message, "");
}

// Options differ by mistake. Then the ranks meet all the same, and what compares them can say so.
TEST_F(Shared, IsLeftToGlooIfOneRankAsksForThat) {
  for (const int other : {0, 1, 2}) {
    const launch::Outcome outcome = launch::run_processes(
        3,
        [&](launch::Store& store) {
          Context context(store.rank(), 3);
          const bool gloo = store.rank() == other;
          const auto world = comm::make_gloo(
              context, store,
              {.transport = gloo ? comm::Transport::gloo : comm::Transport::automatic});
          std::vector<float> x(3, static_cast<float>(world->rank()));
          world->all_reduce(*context.compute, view(x), comm::ReduceOp::sum).synchronize();
          const std::string why = gloo ? "as asked" : "ranks on other machines";
          if (x[2] != 3 || context.transport != "TCP (" + why + ")")
            throw std::runtime_error("over " + context.transport);
        },
        /*patience=*/10s);
    EXPECT_EQ(outcome.message, "");
  }
}

// A silent rank is late here. It does not count as a rank on another machine.
TEST_F(Shared, SaysWhichRankNeverCame) {
  const launch::Outcome outcome = launch::run_processes(
      2,
      [](launch::Store& store) {
        if (store.rank() == 1) return std::this_thread::sleep_for(6s);
        comm::ProcessState run(store, 60s);
        comm::share_memory(run, {0, 1}, /*wanted=*/true);
      },
      /*patience=*/2s);
  EXPECT_EQ(outcome.message, "rank 0 could not join its group: rank 1 did not come in 2000 ms");
}

}  // namespace
}  // namespace nanofsdp::testing
