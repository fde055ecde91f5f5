#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "comm/local.h"
#include "comm/mesh.h"
#include "frame/learner.h"
#include "frame/nanogpt.h"
#include "frame/sharded_rank.h"
#include "fsdp/adamw.h"
#include "fsdp/deferred_init.h"
#include "fsdp/fully_shard.h"

/// @file
/// @brief The runs of the mysteries: a small GPT in the library, on ranks that are threads.

namespace lesson::mystery {

using namespace nanofsdp;

/// A GPT with this number of blocks.
inline gpt::GPTConfig small(std::int64_t blocks = 4) { return {32, 65, blocks, 2, 32, 0, false}; }

/// Plain gradient descent on those pieces of parameters for which `updates` is true.
class Descent final : public fsdp::ShardedOptimizer {
 public:
  using Updates = std::function<bool(const fsdp::Update&)>;
  Descent(Context& context, std::span<fsdp::Unit> units, Updates updates)
      : ShardedOptimizer(context, units, {}), updates_(std::move(updates)) {}

 private:
  void update(Stream&, const fsdp::Update& u) override {
    if (updates_ && !updates_(u)) return;
    const float rate = static_cast<float>(u.lr) * (u.grad_scale.empty() ? 1 : *u.grad_scale.f32());
    for (std::int64_t i = 0; i < u.values.numel(); ++i) {
      u.values.f32()[i] -= rate * u.gradients.f32()[i];
    }
  }
  Updates updates_;
};

/// One rank of a run.
struct Rank {
  /// @param options with the wrap policy, if there is one
  Rank(Context& context, std::unique_ptr<comm::Communicator> world, const gpt::GPTConfig& config,
       const fsdp::Options& options, int post_forward = 0,
       const std::function<void(gpt::GPT&)>& prepare = nullptr, int shard_size = 0)
      : context(context),
        mesh(std::move(world), shard_size, post_forward),
        model(config),
        sharded(context, (prepare ? prepare(model) : void(), model), mesh, options),
        tape(context) {
    Generator generator(1337);
    fsdp::deferred_init(context, sharded.units(), model.nanogpt_draws(), generator);
  }

  /// Runs forward and backward of `rows` rows from row `first` on. @return the sum of the tokens'
  /// losses
  double forward_backward(std::int64_t first, std::int64_t rows, double tokens, bool last = true) {
    return pass(Rows(model.config(), first, rows), tokens, last);
  }
  double pass(Rows rows, double tokens, bool last = true) {
    return lesson::pass(
        tape, std::move(rows), static_cast<float>(1 / tokens),
        [&](Tensor x) { return sharded.forward(tape, x); },
        [&](Tensor d) { sharded.backward(tape, d, last); });
  }

  /// The shard of a unit on this rank. If some of its parameters train, it is the shard of these.
  static std::vector<float> shard(fsdp::Unit& unit) {
    const auto values = unit.rows().front().parameter_shard().span<float>();
    return {values.begin(), values.end()};
  }

  Context& context;
  comm::Mesh mesh;
  gpt::GPT model;
  fsdp::ShardedModel sharded;
  nn::Tape tape;
};

/// Numbers of ranks under the names of rows and columns. Threads fill it.
class Table {
 public:
  void put(const std::string& row, int column, std::string value) {
    const std::lock_guard lock(mutex_);
    if (!rows_.contains(row)) order_.push_back(row);
    rows_[row][column] = std::move(value);
  }
  /// The table as text, with columns in the order of their numbers, and rows in the order of
  /// `rows`.
  std::string text(const std::string& corner, const std::vector<std::string>& heads,
                   const std::vector<std::string>& rows) {
    std::string all = fmt::format("{:<34}", corner);
    for (const std::string& head : heads) all += fmt::format("{:>15}", head);
    for (const std::string& row : rows) {
      all += fmt::format("\n{:<34}", row);
      for (const auto& [column, value] : rows_[row]) all += fmt::format("{:>15}", value);
    }
    return all + "\n";
  }
  const std::vector<std::string>& order() const { return order_; }

 private:
  std::mutex mutex_;
  std::vector<std::string> order_;
  std::map<std::string, std::map<int, std::string>> rows_;
};

/// The name of a memory class, as people say it.
inline std::string words(MemoryClass kind) {
  std::string text(name_of(kind));
  for (char& c : text) c = c == '_' ? ' ' : c;
  return text;
}

inline constexpr MemoryClass kShown[] = {
    MemoryClass::parameter_shards, MemoryClass::gradient_shards, MemoryClass::optimizer,
    MemoryClass::unsharded_parameters, MemoryClass::unsharded_gradients};
/// The names of all classes.
inline std::vector<std::string> shown_words() {
  std::vector<std::string> all;
  for (const MemoryClass kind : kShown) all.push_back(words(kind));
  return all;
}

}  // namespace lesson::mystery
