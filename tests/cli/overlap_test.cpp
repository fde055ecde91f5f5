#include "cli/overlap.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "fsdp/deferred_init.h"
#include "fsdp/fully_shard.h"
#include "nn/linear.h"
#include "support/ranks.h"
#include "support/tensors.h"

namespace nanofsdp::cli::overlap_test {
namespace {

using testing::Owned;
using namespace std::chrono_literals;

Span gather(double issued, double begin, double end) {
  return {.lane = Lane::all_gather, .issued = issued, .begin = begin, .end = end};
}
Span wait(std::size_t waits_for, double begin, double end) {
  return {.lane = Lane::wait, .issued = begin, .begin = begin, .end = end, .waits_for = waits_for};
}

// Two gathers of 4 s are issued one after the other. There are 3 s of computation before the second
// is used.
TEST(Overlap, ReplaysTheScheduleWithNobodyLate) {
  const std::deque<Span> in_time = {gather(10, 10, 14), gather(10, 14, 18), wait(1, 10, 14),
                                    wait(2, 17, 18)};
  const Overlap a = overlap(in_time);
  EXPECT_DOUBLE_EQ(a.communication, 8);
  EXPECT_DOUBLE_EQ(a.exposed, 5);
  EXPECT_DOUBLE_EQ(a.bound, 5);
  EXPECT_DOUBLE_EQ(a.hidden_share(), 3. / 8);

  // The second gather began a second late, which does not follow from the schedule.
  const std::deque<Span> late = {gather(10, 10, 14), gather(10, 15, 19), wait(1, 10, 14),
                                 wait(2, 17, 19)};
  const Overlap b = overlap(late);
  EXPECT_DOUBLE_EQ(b.exposed, 6);
  EXPECT_DOUBLE_EQ(b.bound, 5);
  EXPECT_DOUBLE_EQ(b.hidden_share_bound(), 3. / 8);
}

TEST(Overlap, OfLanesThatDoNotWaitForEachOther) {
  const std::deque<Span> spans = {gather(0, 0, 4),
                                  {.lane = Lane::reduce, .issued = 1, .begin = 1, .end = 5},
                                  wait(1, 2, 4),
                                  wait(2, 4, 5),
                                  {.lane = Lane::compute, .issued = 5, .begin = 5, .end = 9}};
  const Overlap o = overlap(spans);
  EXPECT_DOUBLE_EQ(o.communication, 8);
  EXPECT_DOUBLE_EQ(o.exposed, 3);
  EXPECT_DOUBLE_EQ(o.bound, 3);
  EXPECT_DOUBLE_EQ(overlap({}).hidden_share(), 1);
}

TEST(Overlap, IsNoneIfALateRankIsWaitedForLongerThanCommunicationTakes) {
  const Overlap o = overlap({gather(0, 5, 6), wait(1, 1, 6)});
  EXPECT_DOUBLE_EQ(o.communication, 1);
  EXPECT_DOUBLE_EQ(o.exposed, 5);
  EXPECT_DOUBLE_EQ(o.hidden_share(), 0);
}

// A layer that takes time, as on a machine with slower computation.
class Slow final : public nn::Module {
 public:
  Slow() { add("linear", linear_); }

 private:
  Tensor do_forward(nn::Tape& tape, Tensor x) override {
    std::this_thread::sleep_for(8ms);
    return linear_.forward(tape, x);
  }
  Tensor do_backward(nn::Tape& tape, Tensor dy) override {
    std::this_thread::sleep_for(16ms);
    return linear_.backward(tape, dy);
  }
  nn::Linear linear_{{.in = 8, .out = 8, .bias = false}};
};

class Stack final : public nn::Module {
 public:
  Stack() {
    for (int i = 0; i < 4; ++i) {
      add(std::to_string(i), *blocks_.emplace_back(std::make_unique<Slow>()));
    }
    add("head", head_);
  }

 private:
  Tensor do_forward(nn::Tape& tape, Tensor x) override {
    for (const auto& block : blocks_) x = block->forward(tape, x);
    return head_.forward(tape, x);
  }
  Tensor do_backward(nn::Tape& tape, Tensor dy) override {
    Tensor d = head_.backward(tape, dy);
    for (std::size_t i = blocks_.size(); i-- > 0;) d = blocks_[i]->backward(tape, d);
    return d;
  }
  std::vector<std::unique_ptr<Slow>> blocks_;
  Slow head_;
};

// The overlap of two steps, on a link that takes 5 ms for each collective.
Overlap overlap_of(int forward_prefetch, fsdp::BackwardPrefetch backward_prefetch) {
  Overlap result;
  comm::launch_threads(
      2, 1,
      [&](Context& context, std::unique_ptr<comm::Communicator> world) {
        comm::Mesh mesh(std::move(world));
        Stack model;
        fsdp::ShardedModel sharded(context, model, mesh,
                                   {.forward_prefetch = forward_prefetch,
                                    .backward_prefetch = backward_prefetch,
                                    .wrap_policy = [](const nn::Module& m) {
                                      return dynamic_cast<const Slow*>(&m) != nullptr;
                                    }});
        Generator generator(1);
        fsdp::deferred_init(context, sharded.units(), fsdp::breadth_first_draws(sharded.units()),
                            generator);
        nn::Tape tape(context);
        Owned<float> x = testing::random_tensor({2, 8}, 1), dy = testing::random_tensor({2, 8}, 2);
        for (int step = 0; step < 3; ++step) {
          if (step == 1) context.tracer.start();
          sharded.zero_grad();
          tape.begin(true);
          sharded.forward(tape, x);
          sharded.backward(tape, dy);
        }
        context.gather->synchronize();
        context.reduce->synchronize();
        if (context.rank == 0) result = overlap(context.tracer.spans());
      },
      {.link = {.latency = 5ms}});
  return result;
}

// A run reaches the bound of its schedule if the machine is not busy. One run of several is enough.
TEST(Overlap, HidesWhatTheScheduleAllows) {
  double best = 0;
  for (int run = 0; run < 10 && best < 0.95; ++run) {
    const Overlap o = overlap_of(1, fsdp::BackwardPrefetch::pre);
    best = std::max(best, o.hidden_share() / o.hidden_share_bound());
  }
  EXPECT_GE(best, 0.95);
}

TEST(Overlap, WithoutPrefetchIsLess) {
  const Overlap with = overlap_of(1, fsdp::BackwardPrefetch::pre);
  const Overlap without = overlap_of(0, fsdp::BackwardPrefetch::none);
  EXPECT_LT(without.hidden_share_bound(), with.hidden_share_bound() - 0.2);
  EXPECT_GT(without.exposed, with.exposed);
}

}  // namespace
}  // namespace nanofsdp::cli::overlap_test
