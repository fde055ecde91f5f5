#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "comm/local.h"
#include "frame/sharded_rank.h"
#include "store/slices.h"

/// @file
/// @brief A training run that can stop and continue, for lesson 19.

namespace lesson {

using namespace nanofsdp;

inline constexpr int kBatch = 12;  // rows of a step, over all ranks

/// One rank of the run: the library's model and optimizer, and a generator that draws the batches.
struct Training {
  Training(Context& context, std::unique_ptr<comm::Communicator> world)
      : rank(context.rank),
        W(context.world_size),
        state(context, std::move(world), nanogpt(52),
              {.strategy = fsdp::ShardingStrategy::full_shard,
               .reduction = comm::ReduceOp::sum,
               .alignment = 1}) {}

  /// @return this rank's part of the loss
  double step() {
    const std::int64_t start = generator.randint(1000), first = kBatch * rank / W;
    const Rows rows(nanogpt(52), start + first, kBatch * (rank + 1) / W - first);
    state.sharded.zero_grad();
    const double loss = state.forward_backward(rows, 1.0f / (kBatch * 64));
    state.update();
    return loss / (kBatch * 64);
  }

  int rank, W;
  ShardedRank state;
  Generator generator{7};
};

/// The piece of one parameter that a rank owns.
struct View {
  const std::string& name;
  fsdp::Range range;  // range of the parameter's elements
  std::span<float> values, m, v;
  std::int64_t& steps;  // updates that the optimizer has made to this parameter
};

/// Calls use(view) for every parameter with a piece on this rank: lesson 08's arithmetic.
template <class Use>
void for_each_piece(Training& t, const Use& use) {
  for (std::size_t u = 0; u < t.state.sharded.units().size(); ++u) {
    const fsdp::ShardedParameters& flat = t.state.sharded.units()[u].rows()[0];
    const std::vector<Tensor> moments = t.state.optimizer.state(u);
    for (std::size_t i = 0; i < flat.layout().parameters().size(); ++i) {
      const fsdp::Piece piece = flat.layout().piece(i, t.rank);
      if (piece.in_shard.empty()) continue;
      const auto view = [&, at = piece.in_shard](const Tensor& shard) {
        return shard.span<float>().subspan(at.begin, at.size());
      };
      use(View{flat.layout().parameters()[i].name, piece.in_parameter, view(flat.parameter_shard()),
               view(moments[0]), view(moments[1]), t.state.optimizer.parameter_steps(u)[i]});
    }
  }
}

/// Whether the library would save the same bits.
template <class File>
bool is_the_librarys(Training& t, const File& file) {
  const auto theirs =
      store::slices_of(t.state.sharded.units(), t.state.optimizer, store::Slices::to_save);
  return std::ranges::equal(file, theirs, [](const auto& a, const store::StateSlice& b) {
    return a.name == b.parameter.name && a.range == b.range && a.steps == *b.steps &&
           std::ranges::equal(a.values, b.tensors[0].second.span<float>()) &&
           std::ranges::equal(a.m, b.tensors[1].second.span<float>()) &&
           std::ranges::equal(a.v, b.tensors[2].second.span<float>());
  });
}

/// The work of every rank before the first step, or after the last.
using Work = std::function<void(Training&)>;

/// @return the losses of `steps` steps on W ranks that are threads
inline std::vector<double> train(int W, int steps, const Work& before, const Work& after) {
  std::vector<double> parts(static_cast<std::size_t>(W * steps)), losses;
  comm::launch_threads(W, 1, [&](Context& context, std::unique_ptr<comm::Communicator> world) {
    Training training(context, std::move(world));
    before(training);
    for (int i = 0; i < steps; ++i) {
      parts[static_cast<std::size_t>(W * i + context.rank)] = training.step();
    }
    after(training);
  });
  for (auto part = parts.begin(); part != parts.end(); part += W) {
    losses.push_back(0);
    for (int rank = 0; rank < W; ++rank) losses.back() += part[rank];
  }
  return losses;
}

}  // namespace lesson
