#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "cli/overlap.h"
#include "comm/local.h"
#include "fsdp/deferred_init.h"
#include "fsdp/fully_shard.h"
#include "nn/linear.h"
#include "schedule.h"

namespace lesson {

/// @file
/// @brief Layers whose computation takes as long as we please, sharded over two ranks by the
/// library.

/// A small linear layer that sleeps before it computes. Its "computation" keeps no core busy, so
/// the two ranks do not slow each other down.
class Slow final : public nanofsdp::nn::Module {
 public:
  /// @param waits_for a stream that the layer needlessly waits for; null: none
  explicit Slow(nanofsdp::Stream* waits_for) : waits_for_(waits_for) { add("linear", linear_); }

 private:
  void take(int milliseconds) {
    if (waits_for_ != nullptr) waits_for_->synchronize();
    std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
  }
  nanofsdp::Tensor do_forward(nanofsdp::nn::Tape& tape, nanofsdp::Tensor x) override {
    take(kForward);
    return linear_.forward(tape, x);
  }
  nanofsdp::Tensor do_backward(nanofsdp::nn::Tape& tape, nanofsdp::Tensor dy) override {
    take(kBackward);
    return linear_.backward(tape, dy);
  }
  nanofsdp::Stream* waits_for_;
  nanofsdp::nn::Linear linear_{{.in = 8, .out = 8, .bias = false}};
};

/// kUnits of these layers, each a unit. No parameter is left for the root.
class Stack final : public nanofsdp::nn::Module {
 public:
  explicit Stack(nanofsdp::Stream* waits_for) {
    for (int i = 0; i < kUnits; ++i) {
      add(std::to_string(i), *layers_.emplace_back(std::make_unique<Slow>(waits_for)));
    }
  }

 private:
  nanofsdp::Tensor do_forward(nanofsdp::nn::Tape& tape, nanofsdp::Tensor x) override {
    for (const auto& layer : layers_) x = layer->forward(tape, x);
    return x;
  }
  nanofsdp::Tensor do_backward(nanofsdp::nn::Tape& tape, nanofsdp::Tensor dy) override {
    for (std::size_t i = layers_.size(); i-- > 0;) dy = layers_[i]->backward(tape, dy);
    return dy;
  }
  std::vector<std::unique_ptr<Slow>> layers_;
};

/// A step on a link on which a collective takes kLink: what was hidden, and how long the step took.
struct Measured {
  nanofsdp::cli::Overlap overlap;
  double milliseconds = 0;

  /// Whether the step took hardly longer than the schedule says (it is never shorter), and hid
  /// nearly all that the schedule lets it hide.
  bool reaches(int scheduled) const {
    return milliseconds <= 1.08 * scheduled &&
           overlap.hidden_share() >= 0.9 * overlap.hidden_share_bound();
  }
};

/// @param synchronise every layer waits for all all-gathers that have been issued
inline Measured measure(bool prefetch, bool synchronise) {
  using namespace nanofsdp;
  Measured result;
  const auto body = [&](Context& context, std::unique_ptr<comm::Communicator> world) {
    comm::Mesh mesh(std::move(world));
    Stack model(synchronise ? context.gather.get() : nullptr);
    fsdp::Options options{.forward_prefetch = prefetch ? 1 : 0};
    if (!prefetch) options.backward_prefetch = fsdp::BackwardPrefetch::none;
    options.wrap_policy = [](const nn::Module& module) {
      return dynamic_cast<const Slow*>(&module) != nullptr;
    };
    fsdp::ShardedModel sharded(context, model, mesh, options);
    Generator generator(1);
    fsdp::deferred_init(context, sharded.units(), fsdp::breadth_first_draws(sharded.units()),
                        generator);
    nn::Tape tape(context);
    std::vector<float> x(8, 1), dy(8, 1);
    double begin = 0;
    for (int step = 0; step < 2; ++step) {  // the first step records the order of the units
      if (step == 1) context.tracer.start();
      begin = now_seconds();
      sharded.zero_grad();
      tape.begin(/*training=*/true);
      sharded.forward(tape, Tensor(x.data(), {1, 8}));
      sharded.backward(tape, Tensor(dy.data(), {1, 8}));
    }
    if (context.rank != 0) return;
    result = {cli::overlap(context.tracer.spans()), 1e3 * (now_seconds() - begin)};
  };
  comm::launch_threads(2, 1, body, {.link = {.latency = std::chrono::milliseconds(kLink)}});
  return result;
}

/// If the machine was busy with other programs and the step was late, we run another one.
inline Measured measure(bool prefetch, bool synchronise, int scheduled) {
  Measured step = measure(prefetch, synchronise);
  for (int run = 1; run < 100 && !step.reaches(scheduled); ++run) {
    step = measure(prefetch, synchronise);
  }
  return step;
}

}  // namespace lesson
