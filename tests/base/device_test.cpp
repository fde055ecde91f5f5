#include "base/device.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "base/check.h"
#include "base/context.h"
#include "support/errors.h"

namespace nanofsdp {
namespace {

using testing::expect_error;

// Work waits behind this door until the test opens it.
class Door {
 public:
  void open() {
    open_ = true;
    open_.notify_all();
  }
  void pass() const { open_.wait(false); }

 private:
  std::atomic<bool> open_{false};
};

std::unique_ptr<Stream> communication() { return make_communication_stream(Device::cpu); }
std::unique_ptr<Stream> compute(int threads = 1) {
  return make_compute_stream(Device::cpu, threads);
}
void fail() { throw std::runtime_error("peer is gone"); }

TEST(Event, ADefaultOneHasPassed) {
  EXPECT_TRUE(Event().ready());
  EXPECT_NO_THROW(Event().synchronize());
}

TEST(ComputeStream, RunsItsWorkInlineOnTheCallersThread) {
  const auto stream = compute();
  std::thread::id where;
  stream->enqueue([&] { where = std::this_thread::get_id(); });
  EXPECT_EQ(where, std::this_thread::get_id());
  EXPECT_TRUE(stream->record().ready());
}

TEST(ComputeStream, ThrowsWhereTheWorkWasEnqueued) {
  expect_error<std::runtime_error>([&] { compute()->enqueue(fail); }, "peer is gone");
}

TEST(CommunicationStream, RunsInOrderOnAThreadOfItsOwn) {
  std::vector<int> order;
  std::thread::id where;
  const auto stream = communication();
  for (int i = 0; i < 1000; ++i) stream->enqueue([&order, i] { order.push_back(i); });
  stream->enqueue([&] { where = std::this_thread::get_id(); });
  stream->synchronize();
  ASSERT_EQ(order.size(), 1000u);
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(order[i], i);
  EXPECT_NE(where, std::this_thread::get_id());
}

TEST(CommunicationStream, DoesNotHoldUpItsCaller) {
  Door door;
  const auto stream = communication();
  stream->enqueue([&] { door.pass(); });
  const Event event = stream->record();
  EXPECT_FALSE(event.ready());
  door.open();
  event.synchronize();
  EXPECT_TRUE(event.ready());
}

TEST(CommunicationStream, FinishesItsWorkBeforeItGoes) {
  int done = 0;
  {
    const auto stream = communication();
    for (int i = 0; i < 100; ++i) stream->enqueue([&done] { ++done; });
  }
  EXPECT_EQ(done, 100);
}

TEST(Event, MarksThePointWhereItWasRecorded) {
  Door first, second;
  const auto stream = communication();
  stream->enqueue([&] { first.pass(); });
  const Event event = stream->record();
  stream->enqueue([&] { second.pass(); });
  first.open();
  event.synchronize();  // would hang if the event waited for later work
  EXPECT_FALSE(stream->record().ready());
  second.open();
  stream->synchronize();
}

TEST(Event, OutlivesItsStreamAndIsSharedByCopies) {
  Event event;
  {
    const auto stream = communication();
    event = stream->record();
  }
  const Event copy = event;
  EXPECT_TRUE(copy.ready());
}

TEST(Streams, AreOrderedOnlyWhereOneWaitsForTheOther) {
  for (int round = 0; round < 200; ++round) {
    int value = 0;  // no lock: the thread sanitizer sees whether the event orders the two accesses
    const auto gather = communication();
    const auto reduce = communication();
    gather->enqueue([&value] { value = 1; });
    reduce->wait(gather->record());
    reduce->enqueue([&value] { value *= 10; });
    gather->wait(reduce->record());
    gather->enqueue([&value] { value += 2; });
    gather->synchronize();
    ASSERT_EQ(value, 12);
  }
  Door door;
  const auto held = communication();
  const auto free = communication();
  held->enqueue([&] { door.pass(); });
  free->enqueue([] {});
  free->synchronize();  // the other stream does not delay it
  door.open();
}

TEST(Streams, TheComputeStreamWaitsForAnEvent) {
  const auto gather = communication();
  int value = 0;
  gather->enqueue([&value] {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    value = 1;
  });
  const auto stream = compute();
  stream->wait(gather->record());
  EXPECT_EQ(value, 1);
}

TEST(Streams, AFailureSkipsTheRestAndShowsAtEveryLaterPoint) {
  bool ran = false;
  const auto stream = communication();
  const Event before = stream->record();
  stream->enqueue(fail);
  stream->enqueue([&ran] { ran = true; });
  const Event after = stream->record();
  EXPECT_NO_THROW(before.synchronize());
  for (int twice = 0; twice < 2; ++twice) {
    expect_error<std::runtime_error>([&] { after.synchronize(); }, "peer is gone");
    expect_error<std::runtime_error>([&] { stream->synchronize(); }, "peer is gone");
  }
  EXPECT_FALSE(ran);
}

TEST(Streams, AFailureSpreadsToWhoeverWaits) {
  const auto gather = communication();
  const auto reduce = communication();
  bool ran = false;
  gather->enqueue(fail);
  reduce->wait(gather->record());
  reduce->enqueue([&ran] { ran = true; });
  expect_error<std::runtime_error>([&] { reduce->synchronize(); }, "peer is gone");
  EXPECT_FALSE(ran);
  const auto stream = compute();
  expect_error<std::runtime_error>([&] { stream->wait(gather->record()); }, "peer is gone");
}

TEST(Streams, ACudaDeviceIsRefusedWhereThereIsNone) {
  const std::string problem = why_not(Device::cuda);
  if (problem.empty()) GTEST_SKIP() << "there is one";
  EXPECT_TRUE(problem == "this build has no CUDA" || problem.starts_with("no CUDA driver") ||
              problem.starts_with("the CUDA driver is too old"))
      << problem;
  expect_error<Error>([] { use_device(Device::cuda, 0); }, problem);
  expect_error<Error>([] { make_compute_stream(Device::cuda, 1); }, problem);
  expect_error<Error>([] { make_communication_stream(Device::cuda); }, problem);
}

// Every index is visited once, in at most `threads` ranges, and each range but the last has at
// least `grain` indices.
TEST(ParallelFor, CoversEveryIndexOnce) {
  for (const int threads : {1, 2, 3, 4, 7}) {
    const auto stream = compute(threads);
    EXPECT_EQ(stream->threads(), threads);
    for (const std::int64_t n : {0, 1, 2, 3, 7, 16, 100, 1001}) {
      for (const std::int64_t grain : {0, 1, 2, 5, 16, 333, 5000}) {
        std::vector<int> visits(static_cast<std::size_t>(n));
        std::atomic<int> ranges{0}, shorter{0};
        stream->parallel_for(n, grain, [&](std::int64_t begin, std::int64_t end) {
          ++ranges;
          if (end - begin < grain) ++shorter;
          for (std::int64_t i = begin; i < end; ++i) ++visits[static_cast<std::size_t>(i)];
        });
        SCOPED_TRACE("n=" + std::to_string(n) + " grain=" + std::to_string(grain) +
                     " threads=" + std::to_string(threads));
        ASSERT_EQ(visits, std::vector<int>(static_cast<std::size_t>(n), 1));
        ASSERT_LE(ranges, threads);
        ASSERT_LE(shorter, 1);
        if (n > 0 && n < 2 * grain) {
          ASSERT_EQ(ranges, 1) << "too little to share";
        }
      }
    }
  }
}

// Computation and both kinds of communication have as many threads as the rank was given.
TEST(Context, GivesItsThreadsToEachStream) {
  for (const int threads : {1, 3}) {
    Context context(0, 1, threads);
    for (const Stream* stream : {context.compute.get(), context.gather.get(), context.reduce.get()})
      EXPECT_EQ(stream->threads(), threads);
  }
}

TEST(ParallelFor, UsesEveryThreadAndSeesWhatOthersWrote) {
  const auto stream = compute(3);
  std::vector<std::int64_t> values(3000);
  for (int round = 1; round <= 2000; ++round) {
    stream->parallel_for(3000, 1, [&](std::int64_t begin, std::int64_t end) {
      // The cut moves from round to round, so other threads wrote the values before.
      for (std::int64_t i = begin; i < end; ++i) values[(i + 7 * round) % 3000] += i % 2 == 0;
    });
  }
  std::int64_t sum = 0;
  for (const std::int64_t value : values) sum += value;
  EXPECT_EQ(sum, 2000 * 1500);
  std::vector<std::thread::id> who(3);
  stream->parallel_for(3, 1, [&](std::int64_t begin, std::int64_t) {
    who[static_cast<std::size_t>(begin)] = std::this_thread::get_id();
  });
  EXPECT_NE(who[0], who[1]);
  EXPECT_NE(who[1], who[2]);
  EXPECT_EQ(who[0], std::this_thread::get_id());
}

TEST(ParallelFor, WakesThreadsThatHaveGoneToSleep) {
  const auto stream = compute(2);
  for (int round = 0; round < 3; ++round) {
    std::atomic<std::int64_t> sum{0};
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    stream->parallel_for(100, 1, [&](std::int64_t begin, std::int64_t end) { sum += end - begin; });
    EXPECT_EQ(sum, 100);
  }
}

TEST(ParallelFor, OnACommunicationStreamIsOneRange) {
  const auto stream = communication();
  EXPECT_EQ(stream->threads(), 1);
  int ranges = 0;
  stream->enqueue([&] {
    stream->parallel_for(100, 1, [&](std::int64_t begin, std::int64_t end) {
      ++ranges;
      EXPECT_EQ(begin, 0);
      EXPECT_EQ(end, 100);
    });
  });
  stream->synchronize();
  EXPECT_EQ(ranges, 1);
}

}  // namespace
}  // namespace nanofsdp
