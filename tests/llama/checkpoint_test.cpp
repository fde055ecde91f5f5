#include "store/checkpoint.h"

#include <gtest/gtest.h>

#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "22_your_own_model/float64.h"
#include "support/checkpoints.h"

namespace lesson {
namespace {

using nanofsdp::testing::TemporaryDirectory;

struct Kept {
  std::vector<float> values, m, v;
  std::int64_t steps = -1;
  bool operator==(const Kept&) const = default;
};
using State = std::map<std::string, Kept>;  // state of the whole model

// Adds the pieces of this rank.
void keep(Training& t, State& state) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  for (const store::StateSlice& slice :
       store::slices_of(t.sharded.units(), t.optimizer, store::Slices::to_save)) {
    Kept& kept = state[slice.parameter.name];
    const auto put = [&](const Tensor& from, std::vector<float>& to) {
      to.resize(static_cast<std::size_t>(slice.parameter.numel()), NAN);
      if (!from.empty()) std::ranges::copy(from.span<float>(), to.begin() + slice.range.begin);
    };
    put(slice.tensors[0].second, kept.values);
    if (slice.steps == nullptr) continue;
    put(slice.tensors[1].second, kept.m);
    put(slice.tensors[2].second, kept.v);
    kept.steps = *slice.steps;
  }
}

/// Runs body(training, context) on W ranks. @return the state that they have afterwards
template <class Body>
State on_ranks(int W, const Task& task, const Body& body) {
  State state;
  const auto of_rank = [&](Context& context, std::unique_ptr<comm::Communicator> world) {
    const auto model = make_model(task);
    Values values;  // drawn values, which differ from trained and from loaded ones
    give(*model, values, static_cast<std::uint64_t>(W));
    Training training(context, std::move(world), *model);
    body(training, context);
    keep(training, state);
  };
  comm::launch_threads(W, 1, of_rank);
  return state;
}

State save_after_two_steps(const std::string& out_dir, const Task& task) {
  return on_ranks(4, task, [&](Training& t, Context& context) {
    for (int step = 0; step < 2; ++step) {
      const std::int64_t first = task.rows * context.rank / 4;
      Rows rows(task.rows * (context.rank + 1) / 4 - first, task.T);
      task.text(step, first, rows);
      t.step(std::move(rows), task.rows * task.T, task.lr);
    }
    store::save_checkpoint(out_dir, t.sharded, t.optimizer);
  });
}

void load(const std::string& out_dir, Training& t) {
  store::load_checkpoint(out_dir, t.sharded, t.optimizer);
}

TEST(Llama, SavedByFourRanksIsLoadedByAnyNumber) {
  for (const bool lora : {false, true}) {
    const Task task = tiny_task(lora);
    const TemporaryDirectory directory;
    const State saved = save_after_two_steps(directory.file("o"), task);
    for (const int W : {1, 2, 3, 8}) {
      const State loaded =
          on_ranks(W, task, [&](Training& t, Context&) { load(directory.file("o"), t); });
      EXPECT_EQ(loaded, saved) << W << " ranks";
    }
  }
}

// The checkpoint may be one of another model, or of this one with other sizes or with adapters.
TEST(Llama, RefusesTheCheckpointOfAnotherModel) {
  using nanofsdp::testing::one_line_with;
  const TemporaryDirectory directory;
  nanofsdp::testing::save_after(1, directory.file("gpt"));
  const auto error = [&](const Task& task, const char* name) {
    return nanofsdp::testing::usage_error(
        [&] { on_ranks(1, task, [&](Training& t, Context&) { load(directory.file(name), t); }); });
  };
  EXPECT_TRUE(
      one_line_with(error(tiny_task(), "gpt"),
                    {"gpt/checkpoint'",
                     "the model's 21 parameters, got 21 missing: model.layers.0.self_attn.q_proj.",
                     "; 40 surplus: transformer.h.0.attn.c_attn.bias, "}));

  save_after_two_steps(directory.file("llama"), tiny_task());
  EXPECT_TRUE(one_line_with(error(tiny_task(/*lora=*/true), "llama"),
                            {"8 missing: model.layers.0.self_attn.q_proj.lora_A.weight"}));
  Task wide = tiny_task();
  wide.config.intermediate_size = 28;
  EXPECT_TRUE(one_line_with(
      error(wide, "llama"),
      {"got 6 of another shape: model.layers.0.mlp.gate_proj.weight ([24, 16], not [28, 16])"}));
}

}  // namespace
}  // namespace lesson
