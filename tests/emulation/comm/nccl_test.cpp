#include "comm/nccl.h"

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "base/device.cuh"
#include "comm/mesh.h"
#include "emulation/nccl_ranks.h"
#include "nccl.h"
#include "nccl/collective_checks.h"

// Tests the backend for NCCL with ranks that are threads, on the emulated library.

namespace nanofsdp::testing {
namespace {

using comm::CommError;
using comm::Communicator;
using comm::NcclOptions;
using comm::ReduceOp;
using Clock = std::chrono::steady_clock;

// The errors that the ranks throw, by rank; empty if none. Every error comes soon.
std::vector<std::string> run(int size, const NcclBody& body, const NcclOptions& options = {}) {
  const auto start = Clock::now();
  const std::vector<std::string> errors = run_on_nccl(size, body, options);
  EXPECT_LT(Clock::now() - start, 15s);
  return errors;
}

std::vector<std::string> nothing(int size) { return std::vector<std::string>(size); }

class Nccl : public ::testing::TestWithParam<int> {};

TEST_P(Nccl, CollectivesGiveWhatTheyMust) {
  const auto body = [](Context& context, Store&, std::unique_ptr<Communicator> world) {
    ASSERT_EQ(world->rank(), context.rank);
    ASSERT_EQ(world->size(), context.world_size);
    for (const std::int64_t n : {0, 1, 7, 1025}) check_collectives(context, *world, n);
  };
  EXPECT_EQ(run(GetParam(), body), nothing(GetParam()));
}
INSTANTIATE_TEST_SUITE_P(Ranks, Nccl, ::testing::Values(1, 2, 3, 4));

// A rank that shares a GPU must say that it is a host of its own, which costs NVLink and InfiniBand
// on several machines.
TEST(NcclSharing, IsForMoreRanksOfAMachineThanItHasGpus) {
  const std::map<std::string, const char*> tenth_of_two_machines = {
      {"RANK", "9"},        {"WORLD_SIZE", "16"},      {"LOCAL_RANK", "1"},
      {"MASTER_ADDR", "a"}, {"LOCAL_WORLD_SIZE", "8"}, {"NANOFSDP_TOKEN", "t"}};
  const auto rendezvous = launch::rendezvous_from([&](const std::string& name) {
    const auto found = tenth_of_two_machines.find(name);
    return found == tenth_of_two_machines.end() ? nullptr : found->second;
  });
  EXPECT_FALSE(comm::must_share_gpu(rendezvous->local_size, 8));
  EXPECT_TRUE(comm::must_share_gpu(rendezvous->local_size, 7));
  EXPECT_FALSE(comm::must_share_gpu(0, 1)) << "nobody says how many: there are other machines";
}

TEST(NcclGroups, AreSplitByColorAndOutliveTheWorld) {
  const auto body = [](Context& context, Store&, std::unique_ptr<Communicator> world) {
    check_splits(context, std::move(world));
  };
  EXPECT_EQ(run(4, body), nothing(4));
}

TEST(NcclGroups, EventsOutliveThem) {
  const auto body = [](Context& context, Store&, std::unique_ptr<Communicator> world) {
    const OnDevice<float> in(context, {1}), all(context, {0, 0});
    const Event first = world->all_gather(*context.gather, in.tensor(), all.tensor());
    const Event second = world->barrier(*context.gather);
    second.synchronize();
    world.reset();
    first.synchronize();
    context.gather->synchronize();
  };
  EXPECT_EQ(run(2, body), nothing(2));
}

TEST(NcclGroups, MakeAMeshWhoseStreamsOvertakeEachOther) {
  const auto body = [](Context& context, Store&, std::unique_ptr<Communicator> world) {
    comm::Mesh mesh(std::move(world), 2);
    for (int round = 0; round < 20; ++round) {
      const OnDevice<float> in(context, numbers<float>(context.rank + round, 5));
      const OnDevice<float> all(context, std::vector<float>(10)), part(context, {0, 0, 0, 0, 0});
      const Event reduced =
          mesh.reduce().reduce_scatter(*context.reduce, all.tensor(), part.tensor(), ReduceOp::sum);
      context.gather->wait(reduced);
      const Event gathered =
          mesh.gather().all_gather(*context.gather, in.tensor(), all.tensor(), {.unit = "h.0"});
      context.compute->wait(gathered);
      const int first = context.rank / 2 * 2;
      ASSERT_EQ(first_difference(slice(all.values(), 5, 5), numbers<float>(first + 1 + round, 5)),
                -1);
    }
  };
  EXPECT_EQ(run(4, body), nothing(4));
}

// Rank 1 makes two calls and not the third. Rank 0 waits by `wait(context, event)`.
std::string error_of_waiting(const std::function<void(Context&, const Event&)>& wait) {
  const auto body = [&](Context& context, Store& store, std::unique_ptr<Communicator> world) {
    const OnDevice<float> in(context, {1, 2}), all(context, {0, 0, 0, 0});
    for (const char* unit : {"root", "h.0", "h.1"}) {
      if (context.rank == 1 && unit == std::string("h.1")) {
        store.get("rank 0 is done", 10s);
        continue;
      }
      const Event event =
          world->all_gather(*context.gather, in.tensor(), all.tensor(), {.unit = unit});
      try {
        unit == std::string("h.1") ? wait(context, event) : event.synchronize();
      } catch (const CommError& e) {
        EXPECT_EQ(e.kind, CommError::Kind::timeout);
        store.set("rank 0 is done", "");
        throw;
      }
    }
  };
  return run(2, body, {.timeout = 100ms})[0];
}

TEST(NcclErrors, ATimeoutShowsTheLastCallsHoweverTheHostWaits) {
  const std::string want =
      "rank 0 waited 100 ms in vain for the others in all_gather 3 of 2 float32 a rank for unit "
      "h.1\n  rank 0: all_gather 1 of 2 float32 a rank for unit root > all_gather 2 of 2 float32 a "
      "rank for unit h.0 > all_gather 3 of 2 float32 a rank for unit h.1";
  EXPECT_EQ(error_of_waiting([](Context&, const Event& event) { event.synchronize(); }), want);
  EXPECT_EQ(error_of_waiting([](Context& context, const Event&) { context.gather->synchronize(); }),
            want);
  EXPECT_EQ(error_of_waiting([](Context& context, const Event& event) {
              context.compute->wait(event);
              context.compute->synchronize();
            }),
            want);
  EXPECT_EQ(error_of_waiting([](Context& context, const Event& event) {
              const OnDevice<float> x(context, {1});
              context.compute->wait(event);
              x.values();
            }),
            want);
  // CUDA takes a copy behind the collective for done, once the collective is given up.
  const cuda::Memory memory(cuda::allocate(1), cuda::release);
  EXPECT_EQ(error_of_waiting([&](Context& context, const Event&) {
              cuda::copy(*context.gather, memory.get(), memory.get(), 1);
              context.compute->wait(context.gather->record());
              context.compute->synchronize();
            }),
            want);
}

// In whichever order the ranks learn of each other's error, each shows its last calls.
TEST(NcclErrors, TwoRanksThatGiveUpAtOnceBothShowTheirLastCalls) {
  for (int round = 0; round < 5; ++round) {
    const auto body = [&](Context& context, Store&, std::unique_ptr<Communicator> world) {
      if (context.rank == 1) return std::this_thread::sleep_for(1500ms);
      std::this_thread::sleep_for(std::chrono::milliseconds(context.rank * round));
      world->barrier(*context.compute, {.unit = "b"}).synchronize();
    };
    const auto errors = run(3, body, {.timeout = std::chrono::milliseconds(300)});
    for (const std::size_t rank : {0, 2}) {
      const std::string calls = "\n  rank " + std::to_string(rank) + ": barrier 1 for unit b";
      EXPECT_NE(errors[rank].find(" in vain for the others in barrier 1"), std::string::npos);
      EXPECT_NE(errors[rank].find(calls), std::string::npos) << errors[rank];
    }
  }
}

// The rank works longer than the timeout, until the others ask for the third time. They go on
// waiting.
TEST(NcclErrors, ARankThatWorksAloneIsWaitedFor) {
  const auto body = [](Context& context, Store&, std::unique_ptr<Communicator> world) {
    auto busy = context.rank == 1 ? world->busy("counts sheep") : nullptr;
    if (context.rank == 1) std::this_thread::sleep_for(1200ms);
    busy.reset();
    world->barrier(*context.compute).synchronize();
  };
  EXPECT_EQ(run(3, body, {.timeout = std::chrono::milliseconds(400)}), nothing(3));
}

TEST(NcclErrors, ARankThatThrowsIsTheCauseThatTheOthersTell) {
  const auto body = [](Context& context, Store&, std::unique_ptr<Communicator> world) {
    const OnDevice<float> in(context, {1, 2}), all(context, {0, 0, 0, 0, 0, 0});
    world->barrier(*context.gather).synchronize();
    if (context.rank == 1) throw std::runtime_error("the disk is full");
    world->all_gather(*context.gather, in.tensor(), all.tensor()).synchronize();
  };
  const std::vector<std::string> errors = run(3, body);
  EXPECT_EQ(errors[1], "the disk is full");
  for (const int rank : {0, 2}) {
    EXPECT_EQ(
        errors[rank].find("rank " + number(rank) + " gave up: rank 1 failed: the disk is full"), 0u)
        << errors[rank];
  }
}

// Without news from the store, the error has NCCL's own text, in one line.
TEST(NcclErrors, WhatNcclSaysIsTold) {
  const auto body = [](Context& context, Store& store, std::unique_ptr<Communicator> world) {
    world->barrier(*context.gather).synchronize();
    if (context.rank == 1) {
      store.get("rank 0 has passed", 10s);
      world->abort("enough");
      store.get("rank 0 is done", 10s);
      return;
    }
    store.set("rank 0 has passed", "");
    try {
      world->barrier(*context.gather).synchronize();
      ADD_FAILURE() << "passed a barrier alone";
    } catch (const CommError& e) {
      EXPECT_EQ(e.kind, CommError::Kind::peer_lost);
      EXPECT_STREQ(e.what(),
                   "rank 0 heard from NCCL: remote process exited: a peer is gone in barrier 2");
    }
    store.set("rank 0 is done", "");
  };
  EXPECT_EQ(run(2, body), nothing(2));
}

TEST(NcclErrors, AnAbortFromAnotherThreadWakesWhoWaitsAndStopsWhatComesLater) {
  const auto body = [](Context& context, Store& store, std::unique_ptr<Communicator> world) {
    if (context.rank == 1) {
      store.get("rank 0 is done", 10s);
      return world->abort("so that nobody waits for a farewell");
    }
    std::thread other([&] {
      std::this_thread::sleep_for(50ms);
      world->abort("the test says so");
    });
    for (int i = 0; i < 2; ++i) {
      const std::string text =
          message_of<CommError>([&] { world->barrier(*context.gather).synchronize(); });
      EXPECT_EQ(text, "rank 0 gave up: the test says so in barrier " + number(i + 1));
    }
    other.join();
    store.set("rank 0 is done", "");
  };
  EXPECT_EQ(run(2, body), nothing(2));
}

TEST(NcclErrors, MayBeDestroyedWithWorkInFlight) {
  const auto body = [](Context& context, Store& store, std::unique_ptr<Communicator> world) {
    const auto twin = world->split(0);
    const OnDevice<float> in(context, {1, 2}), all(context, {0, 0, 0, 0});
    if (context.rank == 1) store.set("rank 1 has its twin", "");
    if (context.rank == 0) {
      store.get("rank 1 has its twin", 10s);
      const Event never = world->all_gather(*context.gather, in.tensor(), all.tensor());
      world.reset();
      EXPECT_EQ(message_of<CommError>([&] { never.synchronize(); }).find("rank 0 gave up: "), 0u);
      store.set("rank 0 is done", "");
    }
    store.get("rank 0 is done", 10s);
    twin->barrier(*context.reduce).synchronize();
    if (world) world->abort("its other end is gone");
  };
  EXPECT_EQ(run(2, body), nothing(2));
}

TEST(NcclErrors, ARankThatNeverComesIsASetupError) {
  std::vector<std::string> errors(2);
  Party(2).everybody([&](Store& store) {
    if (store.rank() == 0) {
      Context context(0, 2, 1, Device::cuda);
      errors[0] = message_of<CommError>(
          [&] { comm::make_nccl(context, store, {.connect_timeout = 100ms}); });
      store.set("rank 0 is done", "");
    } else {
      store.get("rank 0 is done", 10s);
    }
    store.leave();
  });
  EXPECT_EQ(errors[0], "rank 0 could not join its group: it waited 100 ms in vain for the others");
}

TEST(NcclErrors, OperandsBelongOnTheGpu) {
  const auto body = [](Context& context, Store&, std::unique_ptr<Communicator> world) {
    std::vector<float> x(4);
    const Tensor host(x.data(), {4});
    EXPECT_THROW(world->all_gather(*context.gather, host.slice(0, 2), host), ShapeError);
    EXPECT_THROW(world->broadcast(*context.gather, host, 0), ShapeError);
    const OnDevice<float> there(context, x);
    EXPECT_THROW(world->broadcast(*context.gather, there.tensor(), 2), ShapeError);
    world->barrier(*context.gather).synchronize();  // a refused call does not count
  };
  EXPECT_EQ(run(2, body), nothing(2));
}

}  // namespace
}  // namespace nanofsdp::testing
