#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "support/ranks.h"
#include "support/tiny_training.h"

namespace nanofsdp::fsdp {
namespace {

using testing::Backend;
using testing::TinyOptions;
using testing::TinyTraining;

// A wire that takes its time: every collective moves its bytes long after it was issued, so whoever
// does not wait for it computes with what is not there yet, or overwrites what is still needed.
class LateWire final : public comm::Communicator {
 public:
  explicit LateWire(std::unique_ptr<comm::Communicator> inner) : inner_(std::move(inner)) {}

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  Event all_gather(Stream& stream, Tensor in, Tensor out, const comm::Call& call) override {
    return inner_->all_gather(late(stream), in, out, call);
  }
  Event reduce_scatter(Stream& stream, Tensor in, Tensor out, comm::ReduceOp op,
                       const comm::Call& call) override {
    return inner_->reduce_scatter(late(stream), in, out, op, call);
  }
  Event broadcast(Stream& stream, Tensor x, int root, const comm::Call& call) override {
    return inner_->broadcast(late(stream), x, root, call);
  }
  Event barrier(Stream& stream, const comm::Call& call) override {
    return inner_->barrier(late(stream), call);
  }
  std::unique_ptr<Communicator> split(int color) override {
    return std::make_unique<LateWire>(inner_->split(color));
  }
  void abort(const std::string& reason) noexcept override { inner_->abort(reason); }

 private:
  static Stream& late(Stream& stream) {
    stream.enqueue([] { std::this_thread::sleep_for(std::chrono::milliseconds(4)); });
    return stream;
  }

  std::unique_ptr<comm::Communicator> inner_;
};

std::vector<std::vector<float>> train(bool late, const TinyOptions& options) {
  return testing::run_ranks(Backend::local, 2,
                            [&](Context& context, std::unique_ptr<comm::Communicator> world) {
                              if (late) world = std::make_unique<LateWire>(std::move(world));
                              return TinyTraining(context, std::move(world), options).run();
                            });
}

// The law of the streams: when bytes arrive changes nothing.
TEST(LateWire, ChangesNoBit) {
  for (const ShardingStrategy& strategy : {kFullShard, kNoShard}) {
    for (const BackwardPrefetch prefetch : {BackwardPrefetch::none, BackwardPrefetch::pre}) {
      const TinyOptions options{.strategy = strategy, .prefetch = prefetch, .micro_steps = 2};
      EXPECT_EQ(train(true, options), train(false, options)) << name_of(strategy);
    }
  }
}

}  // namespace
}  // namespace nanofsdp::fsdp
