#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "comm/local.h"
#include "support/temporary_directory.h"
#include "train/trainer.h"

namespace nanofsdp::train {
namespace {

// Records after which steps the trace has grown.
class Watcher final : public Listener {
 public:
  explicit Watcher(const Context& context) : context_(context) {}
  void step(std::int64_t iteration, const StepResult&) override {
    const std::size_t spans = context_.tracer.spans().size();
    if (spans > spans_) traced.push_back(iteration);
    spans_ = spans;
  }
  std::vector<std::int64_t> traced;

 private:
  const Context& context_;
  std::size_t spans_ = 0;
};

// The trace begins at the eleventh step. In a shorter run it has the last steps.
TEST(Trainer, TracesThreeStepsWhenTheFirstOnesAreOver) {
  std::string text;
  for (int i = 0; i < 200; ++i) text += static_cast<char>('a' + i % 7);
  for (const std::int64_t steps : {1, 3, 4, 12, 13, 14, 20}) {
    TrainerOptions o;
    o.batch_size = o.gradient_accumulation_steps = o.n_layer = o.n_head = o.eval_iters = 1;
    o.block_size = o.n_embd = 4;
    o.max_iters = steps;
    const data::Dataset dataset(text, "text", o.block_size);
    Context context;
    Watcher watcher(context);
    Trainer(context, comm::make_self(), o, dataset).run(watcher);
    std::vector<std::int64_t> expected;
    const std::int64_t first = std::clamp<std::int64_t>(steps - 3, 0, 10);
    for (std::int64_t i = first; i < std::min(first + 3, steps); ++i) expected.push_back(i);
    EXPECT_EQ(watcher.traced, expected) << steps << " steps";
  }
}

// A resumed run counts from its own first step.
TEST(Trainer, TracesThreeStepsOfAResumedRun) {
  const nanofsdp::testing::TemporaryDirectory directory;
  std::string text;
  for (int i = 0; i < 200; ++i) text += static_cast<char>('a' + i % 7);
  TrainerOptions o;
  o.batch_size = o.gradient_accumulation_steps = o.n_layer = o.n_head = o.eval_iters = 1;
  o.block_size = o.n_embd = 4;
  o.max_iters = 20;
  o.out_dir = directory.file("");
  const data::Dataset dataset(text, "text", o.block_size);
  const auto traced = [&] {
    Context context;
    Watcher watcher(context);
    Trainer(context, comm::make_self(), o, dataset).run(watcher);
    return watcher.traced;
  };
  EXPECT_EQ(traced(), (std::vector<std::int64_t>{10, 11, 12}));
  o.init_from = "resume";
  for (const auto& [steps, first] : {std::pair(40, 30), {32, 29}, {22, 20}, {20, 20}}) {
    const nanofsdp::testing::TemporaryDirectory
        copy;  // at iteration 20, where the resumed run begins
    std::filesystem::copy(directory.file(""), copy.file(""),
                          std::filesystem::copy_options::recursive);
    o.out_dir = copy.file("");
    o.max_iters = steps;
    std::vector<std::int64_t> expected;
    for (int i = first; i < std::min(first + 3, steps); ++i) expected.push_back(i);
    EXPECT_EQ(traced(), expected) << "until " << steps;
  }
}

}  // namespace
}  // namespace nanofsdp::train
