#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "comm/local.h"
#include "comm/mesh.h"
#include "data/dataset.h"
#include "frame/nanogpt.h"
#include "frame/train.h"
#include "fsdp/adamw.h"
#include "fsdp/fully_shard.h"
#include "fsdp/grad_norm.h"
#include "nn/loss.h"
#include "nn/tape.h"
#include "train/options.h"

namespace lesson {

/// @file
/// @brief Training without sharding: the part that a rank does by itself. Also the library's way to
/// do the rest, for comparison.

using namespace nanofsdp;

inline constexpr int kRanks = 4;

inline void run_backward(gpt::GPT& model, nn::Tape& tape, Tensor dy, bool) {
  model.backward(tape, dy);
  tape.end_backward();
}
inline void run_backward(fsdp::ShardedModel& model, nn::Tape& tape, Tensor dy, bool last) {
  model.backward(tape, dy, last);
}

/// Lesson 06's GPT on one rank with its first weights, and the rank's share of the 12 rows of a
/// step. The text is the tales, which have 52 of the model's 65 characters.
struct Learner {
  /// @param micro_steps number of micro-batches of the 12 rows
  Learner(Context& context, const train::TrainerOptions& o, const data::Dataset& text,
          std::int64_t micro_steps)
      : text(text),
        micro_steps(micro_steps),
        batch_size(o.batch_size / micro_steps),
        rows{context.rank * batch_size / context.world_size, batch_size / context.world_size},
        generator(o.seed),
        model(nanogpt(65)),
        tape(context),
        x(rows.count * o.block_size),
        y(x.size()) {
    for (nn::Parameter* p : model.named_parameters()) {
      first.emplace_back(p->shape.numel());
      p->data = Tensor(first.back().data(), p->shape);
    }
    for (const auto& [p, init] : model.nanogpt_draws()) {
      nn::draw(generator, init, p->data.span<float>());
    }
  }

  /// Runs forward and backward of this rank's rows of the next micro-batch. It adds the gradients
  /// of the mean over the rank's tokens of the step.
  /// @param model the learner's, or the ShardedModel around it
  /// @return the loss, summed over tokens
  template <class Model>
  double forward_backward(Model& model, bool last = true) {
    text.draw(data::Split::train, generator, batch_size, rows, {x, y});
    double loss = 0;
    tape.begin(/*training=*/true);
    const Tensor logits = model.forward(tape, tokens(x));
    nn::cross_entropy(tape, logits, tokens(y), Tensor(&loss, {1}, DType::float64));
    const auto own = static_cast<float>(micro_steps * tokens(x).numel());
    run_backward(model, tape, nn::cross_entropy_backward(tape, 1 / own), last);
    return loss;
  }

  Tensor tokens(std::vector<std::int32_t>& of) const {
    const auto n = static_cast<std::int64_t>(of.size());
    return {of.data(), {rows.count, n / rows.count}, DType::int32};
  }

  const data::Dataset& text;
  std::int64_t micro_steps;
  std::int64_t batch_size;  // rows of a micro-batch, over all ranks
  data::BatchRows rows;
  Generator generator;
  gpt::GPT model;
  nn::Tape tape;
  std::vector<std::int32_t> x, y;
  std::deque<std::vector<float>> first;  // the weights, until other memory holds them
};

/// The name "h.3" of a unit that is called "transformer.h.3".
inline std::string short_name(const std::string& unit) {
  const std::size_t at = unit.find("h.");
  return at == unit.npos ? unit : unit.substr(at);
}

/// The results of a run.
struct Trained : Curve {
  using Curve::Curve;
  comm::Traffic traffic;            // traffic of rank 0 in the last step
  std::vector<std::int64_t> bytes;  // bytes that rank 0's ledger reserves after it, class by class
  std::vector<float> weights;       // weights of rank 0, unit by unit

  bool operator==(const Trained& other) const {  // whether all numbers have the same bits
    return losses == other.losses && norms == other.norms && weights == other.weights;
  }
  /// Loss and norm of a step, counted from 1.
  std::string at(int step) const {
    const auto i = static_cast<std::size_t>(step - 1);  // abs: a NaN may have a sign
    return fmt::format("  {:>6.4f} {:>6.4f}", std::abs(losses[i]), std::abs(norms[i]));
  }

  /// As columns: the bytes that are kept, and the reduce-scatters, all-gathers and sent bytes of a
  /// step.
  std::string costs() const {
    return fmt::format("{:>12}{:>17}{:>13}{:>12}", kept(), traffic.reduce_scatters,
                       traffic.all_gathers, traffic.bytes_sent);
  }

  int equal_losses(const Trained& other) const {
    int equal = 0;
    for (std::size_t step = 0; step < losses.size(); ++step) {
      equal += losses[step] == other.losses[step];
    }
    return equal;
  }

  /// The bytes of parameters, gradients and moments.
  std::int64_t kept() const { return bytes[0] + bytes[1] + bytes[2]; }

  void add_weights(std::span<const float> of_parameters) {
    weights.insert(weights.end(), of_parameters.begin(), of_parameters.end());
  }

  void weigh(const Context& context) {
    for (const MemoryClass kind : kMemoryClasses) {
      bytes.push_back(context.ledger.count(kind).reserved);
    }
  }

  /// @param of_ranks the ranks' losses of each step, summed over tokens
  void mean(const std::vector<std::vector<double>>& of_ranks, std::int64_t tokens) {
    for (std::size_t step = 0; step < losses.size(); ++step) {
      for (const auto& of_rank : of_ranks) losses[step] += of_rank[step];
      losses[step] /= static_cast<double>(tokens);
    }
  }
};

/// Makes a run on ranks that are threads.
/// @param body the work of a rank: (context, world, learner, losses of its tokens, run)
template <class Run, class Body>
Run on_ranks(int steps, const train::TrainerOptions& o, const data::Dataset& text,
             std::int64_t micro_steps, const Body& body) {
  Run run(steps);
  std::vector<std::vector<double>> losses(kRanks, std::vector<double>(steps));
  comm::launch_threads(kRanks, 1, [&](Context& context, auto group) {
    comm::Communicator& world = *group;
    Learner learner(context, o, text, micro_steps);
    body(context, world, learner, losses[context.rank], run);
  });
  run.mean(losses, o.batch_size * o.block_size);
  return run;
}

/// The library's run on ranks that are threads.
inline Trained library(int steps, const fsdp::Options& options, const train::TrainerOptions& o,
                       const data::Dataset& text, std::int64_t micro_steps = 1) {
  Trained result(steps);
  std::vector<std::vector<double>> losses(kRanks, std::vector<double>(steps));
  comm::launch_threads(kRanks, 1, [&](Context& context, auto world) {
    comm::Mesh mesh(std::move(world));
    Learner learner(context, o, text, micro_steps);
    fsdp::Options wrapped = options;
    wrapped.wrap_policy = is_block, wrapped.alignment = 1;
    fsdp::ShardedModel sharded(context, learner.model, mesh, wrapped);
    fsdp::AdamW optimizer(context, sharded.units(),
                          {.beta1 = o.beta1, .beta2 = o.beta2, .weight_decay = o.weight_decay});
    fsdp::GradNorm norm(context, mesh);
    for (int step = 0; step < steps; ++step) {
      mesh.reset_traffic();
      sharded.zero_grad();
      for (std::int64_t m = 1; m <= micro_steps; ++m) {
        losses[context.rank][step] += learner.forward_backward(sharded, m == micro_steps);
      }
      norm.compute(sharded.units(), o.grad_clip);
      optimizer.step(o.learning_rate, norm.coefficient());
      if (context.rank == 0) result.norms[step] = *norm.norm().f32();
    }
    if (context.rank == 0) result.traffic = mesh.traffic(), result.weigh(context);
    sharded.summon_full_parameters([&](const nn::Parameter& p) {
      if (context.rank == 0) result.add_weights(p.data.span<float>());
    });
  });
  result.mean(losses, o.batch_size * o.block_size);
  return result;
}

}  // namespace lesson
