#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "comm/mesh.h"
#include "fsdp/adamw.h"
#include "fsdp/fully_shard.h"
#include "nn/linear.h"
#include "support/layouts.h"
#include "support/plain_models.h"
#include "support/ranks.h"
#include "support/tensors.h"

namespace nanofsdp::testing {

/// @file
/// @brief A rank of a small model. A test calls its functions in any order, as a user of FSDP2
/// does.

inline constexpr std::int64_t kCallerWidth = 5;

/// A unit of the caller's model, with a weight that decays and a bias.
class CallerLayer final : public nn::Module {
 public:
  CallerLayer() { add("linear", linear); }
  nn::Linear linear{{.in = kCallerWidth, .out = kCallerWidth}};

 private:
  Tensor do_forward(nn::Tape& tape, Tensor x) override { return linear.forward(tape, x); }
  Tensor do_backward(nn::Tape& tape, Tensor dy) override { return linear.backward(tape, dy); }
};

/// The options of sharding.
struct CallerOptions {
  fsdp::ShardingStrategy strategy = fsdp::ShardingStrategy::full_shard;
  fsdp::LayoutKind layout = fsdp::LayoutKind::flat;
  fsdp::MixedPrecision precision{};
  bool no_sync = false;
  int post_forward_size = 0;
};

/// Calls `test` with the options of every strategy and layout.
template <class Test>
void for_all_shardings(const Test& test) {
  for (const fsdp::Sharding& sharding : fsdp::kShardings) {
    for (const auto layout : kLayouts) {
      SCOPED_TRACE(std::string(sharding.name) + ", " + name_of(layout));
      test(CallerOptions{.strategy = sharding.strategy, .layout = layout});
    }
  }
}

/// One rank.
struct Caller {
  /// @param prepare changes the model before it is sharded
  Caller(Context& context, std::unique_ptr<comm::Communicator> world, const CallerOptions& options,
         const std::function<void(InTurn<CallerLayer>&)>& prepare = {})
      : context(context),
        mesh(std::move(world), fsdp::sharding_of(options.strategy).replicates ? 2 : 0,
             options.post_forward_size),
        prepared(((prepare ? prepare(model) : void()), true)),
        sharded(context, model, mesh,
                {.strategy = options.strategy,
                 .layout = options.layout,
                 .precision = options.precision,
                 .no_sync = options.no_sync,
                 .poison = true,
                 .wrap_policy = fsdp::is_a<CallerLayer>}),
        optimizer(context, sharded.units(), {}) {
    std::map<const nn::Parameter*, std::vector<float>> values;
    for (const nn::Parameter* p : model.named_parameters()) {
      values[p] = random_tensor(p->shape, 7 + static_cast<std::uint32_t>(values.size())).values;
    }
    for (fsdp::ShardedParameters* row : sharded.rows()) {
      for (std::size_t i = 0; i < row->parameters().size(); ++i) {
        row->store(i, values[row->parameters()[i]]);
      }
    }
  }

  /// Runs forward and backward on rows that differ for every rank and every call.
  void pass(bool last = true) {
    Owned<float> x = random_tensor({2, kCallerWidth}, 100 + 10 * ++passes + context.rank);
    Owned<float> dy = random_tensor({2, kCallerWidth}, 500 + 10 * passes + context.rank);
    tape.begin(true);
    sharded.forward(tape, x);
    const fsdp::LastMicroStep scope(sharded, last);
    model.backward(tape, dy);
    context.compute->synchronize();  // the stream reads them, and the tape's memory
    tape.end_backward();
  }

  /// Runs a forward pass of an evaluation.
  std::vector<float> evaluate() {
    Owned<float> x = random_tensor({1, kCallerWidth}, 9);
    tape.begin(false);
    const std::span<float> y = sharded.forward(tape, x).span<float>();
    const std::vector<float> values(y.begin(), y.end());
    tape.end();
    return values;
  }

  /// Does the same while another pass is under way.
  void evaluate_on_another_tape() {
    nn::Tape other(context);
    Owned<float> x = random_tensor({1, kCallerWidth}, 9);
    other.begin(false);
    sharded.forward(other, x);
    other.end();
  }

  void step() { optimizer.step(0.1, sharded.clip(0)); }
  float norm() { return *sharded.grad_norm().f32(); }
  std::vector<float> weights() { return whole_weights(sharded); }

  /// The reduced gradients of the elements that this rank owns.
  std::vector<float> gradients() {
    std::vector<float> all;
    for (const fsdp::ShardedParameters* row : sharded.rows()) {
      if (!row->trains()) continue;
      const std::span<float> shard = row->gradient_shard().span<float>();
      all.insert(all.end(), shard.begin(), shard.end());
    }
    return all;
  }

  Context& context;
  comm::Mesh mesh;
  InTurn<CallerLayer> model;
  bool prepared;
  fsdp::ShardedModel sharded;
  nn::Tape tape{context};
  fsdp::AdamW optimizer;
  int passes = 0;
};

/// Runs `body` on the number of ranks that the strategy needs: two, or two groups of two.
/// @param prepare changes the model before it is sharded
template <class Body>
auto run_callers(const CallerOptions& options, const Body& body,
                 const std::function<void(InTurn<CallerLayer>&)>& prepare = {}) {
  const int ranks = fsdp::sharding_of(options.strategy).replicates ? 4 : 2;
  return run_ranks(Backend::local, ranks,
                   [&](Context& context, std::unique_ptr<comm::Communicator> world) {
                     Caller caller(context, std::move(world), options, prepare);
                     return body(caller);
                   });
}

}  // namespace nanofsdp::testing
