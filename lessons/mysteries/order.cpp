#include <chrono>
#include <cmath>
#include <deque>
#include <exception>
#include <thread>

#include "mystery.h"
#include "run.h"

// Mysteries 11 and 12 are about order and time.

namespace lesson::mystery {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kCompute{40}, kGather{30};

// Blocks that sleep, so that their computation needs no core, on a slow link.
std::string no_overlap() {
  Table table;
  comm::LocalOptions slow;
  slow.link.latency = kGather;
  comm::launch_threads(
      2, 1,
      [&](Context& context, auto world) {
        Rank rank(context, std::move(world), small(4), {.wrap_policy = is_block});
        std::vector<double> least(4, 1e9);
        for (std::size_t i = 0; i < 4; ++i) {
          const nn::Module& block = *rank.model.blocks()[i];
          auto begin = std::make_shared<Clock::time_point>();
          const bool looks = context.rank == 1 && i == 1;
          block.children().front().second->hooks.pre_forward = [&context, begin, looks](nn::Tape&) {
            *begin = Clock::now();
            if (looks) context.gather->synchronize();  // this is the user's code
            std::this_thread::sleep_for(kCompute);
          };
          block.children().back().second->hooks.post_forward = [&least, begin, i](nn::Tape&) {
            const std::chrono::duration<double, std::milli> took = Clock::now() - *begin;
            least[i] = std::min(least[i], took.count());
          };
        }
        for (int step = 0; step < 4; ++step) {
          if (step == 1) least.assign(4, 1e9);  // in the first step the next unit is not known
          rank.tape.begin(/*training=*/false);
          Rows rows(rank.model.config(), 0, 1);
          rank.sharded.forward(rank.tape, rows.tensor(rows.inputs));
        }
        for (std::size_t i = 0; i < 4; ++i) {
          table.put(fmt::format("h.{}", i), context.rank,
                    fmt::format("{:.0f}", std::round(least[i] / 10) * 10));
        }
      },
      slow);
  return table.text("forward, ms, best of 3 steps", {"rank 0", "rank 1"},
                    {"h.0", "h.1", "h.2", "h.3"});
}

// Blocks on top of each other. Forward and backward leave out block `skipped`.
class Tower final : public nn::Module {
 public:
  Tower(int blocks, int skipped) : skipped_(skipped) {
    for (int i = 0; i < blocks; ++i) {
      add(fmt::format("h.{}", i), blocks_.emplace_back(small()));
    }
  }

 private:
  Tensor do_forward(nn::Tape& tape, Tensor x) override {
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
      if (static_cast<int>(i) != skipped_) x = blocks_[i].forward(tape, x);
    }
    return x;
  }
  Tensor do_backward(nn::Tape& tape, Tensor dy) override {
    for (std::size_t i = blocks_.size(); i-- > 0;) {
      if (static_cast<int>(i) != skipped_) dy = blocks_[i].backward(tape, dy);
    }
    return dy;
  }
  std::deque<gpt::Block> blocks_;
  int skipped_;
};

std::string skipped_block() {
  std::string said;
  try {
    comm::launch_threads(3, 1, [&](Context& context, auto world) {
      comm::Mesh mesh(std::move(world));
      Tower tower(5, context.rank == 1 ? 2 : -1);
      fsdp::ShardedModel sharded(context, tower, mesh, {.wrap_policy = is_block});
      Generator generator(1337);
      fsdp::deferred_init(context, sharded.units(), generator);
      nn::Tape tape(context);
      std::vector<float> x(32 * 32, 1.0f);
      tape.begin(/*training=*/true);
      sharded.forward(tape, Tensor(x.data(), {1, 32, 32}));
    });
  } catch (const std::exception& e) {
    said = e.what();
  }
  return said + "\n";
}

}  // namespace

std::vector<Mystery> order_mysteries() {
  return {
      {"A forward with prefetch takes longer than computation alone, though a gather of 30 ms fits "
       "beside a block's 40 ms. No block of the profile is idle.",
       no_overlap,
       {{"Prefetch is off: each unit is gathered when its turn comes.",
         "Then the wait is between blocks, on all ranks. These times are inside blocks."},
        {"One rank's model waits, inside a block, for everything that is being gathered.",
         "Which number is a gather larger than its neighbours?"},
        {"One rank computes more slowly than the others.",
         "In most blocks it is as fast as the other."},
        {"The link is too slow to be hidden.", "30 ms are less than 40."}},
       2,
       "1",
       "h.1",
       "In h.1 of rank 1 somebody asks for a number from the device, or prints one: that waits for "
       "all streams, also for the gather of h.2, which was to be hidden. The other rank then waits "
       "for rank 1, so every profile looks busy. Met in pytorch/pytorch 163153."},
      {"A training on 3 ranks has stopped. With NCCL it would hang until the watchdog ends it; "
       "here "
       "the ranks compare what they call.",
       skipped_block,
       {{"A rank has crashed.",
         "A rank that is gone is reported as lost. This rank came, with another call."},
        {"One rank leaves out a unit, because of a branch that depends on its data.",
         "Which rank came with another unit than the others, and which unit had it left out?"},
        {"The ranks have models of different sizes.",
         "The calls have the same number of elements. What differs is whose they are."},
        {"The network is slow: the time-out is too short.",
         "Nobody waited in vain. All ranks came."}},
       2,
       "1",
       "h.2",
       "Rank 1 skips block h.2 and asks for h.3 while the others gather h.2. Every rank must call "
       "the "
       "same units in the same order: decide such branches on all ranks alike, or compute the unit "
       "and multiply by zero. Met in pytorch/pytorch 158719 and nccl 1730; after a resume at "
       "another "
       "world size, in torchtitan 811."},
  };
}

}  // namespace lesson::mystery
