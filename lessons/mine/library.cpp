#include <fmt/format.h>

#include <deque>
#include <utility>

#include "comm/local.h"
#include "comm/mesh.h"
#include "frame/nanogpt.h"
#include "fsdp/adamw.h"
#include "fsdp/deferred_init.h"
#include "fsdp/fully_shard.h"
#include "machine.h"
#include "step.h"

// The same run with the library.

namespace lesson::mine {
namespace {

class Momentum final : public fsdp::ShardedOptimizer {
 public:
  Momentum(Context& context, std::span<fsdp::Unit> units)
      : ShardedOptimizer(context, units, {"momentum"}) {}

 private:
  void update(Stream&, const fsdp::Update& u) override {
    const float lr = static_cast<float>(u.lr);
    float *const p = u.values.f32(), *const g = u.gradients.f32(), *const m = u.state[0].f32();
    for (std::int64_t i = 0; i < u.values.numel(); ++i) {
      m[i] = 0.9f * m[i] + g[i];
      p[i] -= lr * m[i];
    }
  }
};

// Losses of all ranks, in float32, because the machine's ring sends float32.
class Losses {
 public:
  explicit Losses(int W) : of_rank_(static_cast<std::size_t>(W)) {}
  double mean(Context& context, comm::Communicator& world, float mine, double tokens) {
    Stream& stream = *context.compute;
    of_rank_[static_cast<std::size_t>(context.rank)] = mine;
    const Tensor all(of_rank_.data(), {std::ssize(of_rank_)});
    stream.wait(world.all_gather(stream, all.slice(context.rank, 1), all, {.control = true}));
    double sum = 0;
    for (const float loss : of_rank_) sum += loss;
    return sum / tokens;
  }

 private:
  std::vector<float> of_rank_;
};

class Rank {
 public:
  Rank(Context& context, comm::Mesh& mesh, const Setup& setup, const data::Dataset& text,
       Outcome& outcome)
      : context_(context),
        mesh_(mesh),
        setup_(setup),
        text_(text),
        outcome_(outcome),
        losses_(setup.W),
        model_(config_of(text)),
        tape_(context) {}

  std::vector<float> momentum() {
    fsdp::ShardedModel sharded(
        context_, model_, mesh_,
        {.strategy = fsdp::ShardingStrategy::shard_optimizer, .wrap_policy = is_block});
    Generator generator(1337);
    fsdp::deferred_init(context_, sharded.units(), model_.nanogpt_draws(), generator);
    Momentum optimizer(context_, sharded.units());
    Feed feed(text_, context_.rank, setup_.W, kRows, 1);
    for (int step = 1; step <= setup_.first_steps; ++step) {
      mesh_.reset_traffic();
      sharded.zero_grad();
      note_loss(step, forward_backward(sharded, tape_, feed, setup_.W, 1, true), 1);
      optimizer.step(kMomentumRate);
      note(step, "bytes sent", static_cast<double>(mesh_.traffic().bytes_sent));
    }
    return weights(sharded);
  }

  void full_shard(const std::vector<float>& start) {
    std::size_t at = 0;
    std::deque<std::vector<float>> values;
    for (const fsdp::WrappedModule& unit : fsdp::wrap(model_, is_block)) {
      for (nn::Parameter* p : unit.parameters) {
        const auto n = static_cast<std::size_t>(p->shape.numel());
        values.emplace_back(start.begin() + static_cast<std::ptrdiff_t>(at),
                            start.begin() + static_cast<std::ptrdiff_t>(at + n));
        p->data = Tensor(values.back().data(), p->shape);
        at += n;
      }
    }
    for (const auto& block : model_.blocks()) block->recompute = true;
    fsdp::ShardedModel sharded(
        context_, model_, mesh_,
        {.precision = {.reduce_dtype = DType::bfloat16}, .poison = true, .wrap_policy = is_block});
    fsdp::AdamW optimizer(context_, sharded.units(), {});
    Feed feed(text_, context_.rank, setup_.W, kRows, 2);
    for (int step = 1; step <= setup_.steps; ++step) {
      mesh_.reset_traffic();
      sharded.zero_grad();
      float loss = 0;
      for (int m = 1; m <= kMicroBatches; ++m) {
        const bool last = m == kMicroBatches;
        loss += forward_backward(sharded, tape_, feed, setup_.W, kMicroBatches, last);
      }
      note_loss(setup_.first_steps + step, loss, kMicroBatches);
      optimizer.step(kAdamRate, sharded.clip(kMaxNorm));
      note(setup_.first_steps + step, "gradient norm", *sharded.grad_norm().f32());
      note(setup_.first_steps + step, "bytes sent",
           static_cast<double>(mesh_.traffic().bytes_sent));
    }
    for (const MemoryClass kind : kMemoryClasses) {
      if (kind == MemoryClass::activations || kind == MemoryClass::communication) continue;
      note(0, fmt::format("peak bytes of {}", name_of(kind)),
           static_cast<double>(context_.ledger.count(kind).reserved_peak));
    }
    const int blocks = static_cast<int>(model_.blocks().size());
    note(0, "milliseconds that a forward waits", solutions().exposed(forward_of(blocks, true)));
    std::vector<float> all = weights(sharded);
    if (context_.rank == 0) outcome_.weights = std::move(all);
    evaluate(sharded);
  }

 private:
  void evaluate(fsdp::ShardedModel& sharded) {
    Feed feed(text_, context_.rank, setup_.W, kEvaluated, 3);
    const double loss = forward(sharded, tape_, feed, data::Split::val);
    const double mean =
        losses_.mean(context_, mesh_.world(), static_cast<float>(loss), kEvaluated * kContext);
    note(0, "loss of the evaluation", mean, true);
  }

  std::vector<float> weights(fsdp::ShardedModel& sharded) {
    std::vector<float> all;
    sharded.summon_full_parameters([&](const nn::Parameter& p) {
      const std::span<const float> values = p.data.span<float>();
      all.insert(all.end(), values.begin(), values.end());
    });
    return all;
  }

  void note_loss(int step, float loss, int micro_batches) {
    const double tokens = static_cast<double>(micro_batches * kRows * kContext);
    note(step, "loss", losses_.mean(context_, mesh_.world(), loss, tokens));
  }
  void note(int step, std::string what, double value, bool near = false) {
    if (context_.rank == 0) outcome_.numbers.push_back({step, std::move(what), value, near});
  }

  Context& context_;
  comm::Mesh& mesh_;
  const Setup& setup_;
  const data::Dataset& text_;
  Outcome& outcome_;
  Losses losses_;
  gpt::GPT model_;
  nn::Tape tape_;
};

}  // namespace

Outcome by_library(const Setup& setup, const data::Dataset& text) {
  Outcome outcome;
  std::vector<std::vector<float>> start(static_cast<std::size_t>(setup.W));
  comm::launch_threads(setup.W, 1, [&](Context& context, auto world) {
    comm::Mesh mesh(std::move(world));
    start[static_cast<std::size_t>(context.rank)] =
        Rank(context, mesh, setup, text, outcome).momentum();
  });
  comm::launch_threads(setup.W, 1, [&](Context& context, auto world) {
    comm::Mesh mesh(std::move(world));
    Rank(context, mesh, setup, text, outcome)
        .full_shard(start[static_cast<std::size_t>(context.rank)]);
  });
  return outcome;
}

}  // namespace lesson::mine
