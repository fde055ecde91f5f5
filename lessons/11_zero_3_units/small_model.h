#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <deque>
#include <functional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "frame/exercise.h"
#include "nn/linear.h"
#include "nn/tape.h"

/// @file
/// @brief The model on which the checker of lesson 11 tries the four hooks, and the passes that the
/// model makes.

namespace lesson {

using namespace nanofsdp;

/// One pass through the model: the numbers of the blocks in the order of their calls.
struct Pass {
  std::vector<int> calls;
  bool training = true;
};

inline constexpr int kBlocks = 3, kWidth = 5, kRowsOfRank = 4;

/// The passes of a run: some that are always the same, and some random ones.
inline std::vector<Pass> passes() {
  std::vector<Pass> all = {{{0, 1, 2}},        {{0, 2}},          {{0, 1, 2}, false},  {{0, 1, 0}},
                           {{1, 1, 2}, false}, {{2, 2, 1, 0, 0}}, {{0, 1, 2, 0, 1, 2}}};
  std::mt19937 random(seed(11));
  for (int more = 0; more < 5; ++more) {
    Pass& pass = all.emplace_back(Pass{{}, random() % 3 != 0});
    for (auto calls = 1 + random() % 6; calls > 0; --calls) {
      pass.calls.push_back(static_cast<int>(random() % kBlocks));
    }
  }
  return all;
}

/// Writes down a line of a run: "@pre_forward h.0" for a hook that is called, "U.h.0" for an event,
/// "#sent: 96" for a number of bytes, "~loss: 0.25" for a result.
using Say = std::function<void(const std::string&)>;

/// A result with all its digits.
inline std::string digits(double value) {
  return std::isnan(value) ? "NaN" : fmt::format("{:.9g}", value);
}

/// A layer that says when its own forward or backward is over, because its hook is called next.
struct Block final : nn::Module {
  Block(std::string name, const Say& say) : name(std::move(name)), say(say) { add("fc", fc); }
  Tensor do_forward(nn::Tape& tape, Tensor x) override {
    const Tensor y = fc.forward(tape, x);
    say("@post_forward " + name);
    return y;
  }
  Tensor do_backward(nn::Tape& tape, Tensor dy) override {
    const Tensor dx = fc.backward(tape, dy);
    say("@post_backward " + name);
    return dx;
  }

  std::string name;
  const Say& say;
  nn::Linear fc{{.in = kWidth, .out = kWidth}};
};

/// The root has a layer at each end of the model, and calls the blocks between them in any order.
class Model final : public nn::Module {
 public:
  explicit Model(Say to) : say(std::move(to)) {
    add("stem", stem);
    for (int i = 0; i < kBlocks; ++i) {
      add(fmt::format("h.{}", i), h.emplace_back(fmt::format("h.{}", i), say));
    }
    add("head", head);
    std::mt19937 random(1);
    for (nn::Parameter* p : named_parameters()) {
      std::vector<float>& values = first.emplace_back(p->shape.numel());
      for (float& value : values) value = draw(random);
      p->data = Tensor(values.data(), p->shape);
    }
  }

  /// Makes a pass with rows that the rank draws.
  /// @param backward is called with the gradient of the output
  /// @return the rank's loss
  double run(nn::Tape& tape, const Pass& pass, std::mt19937& random, const auto& forward,
             const auto& backward) {
    calls = pass.calls;
    std::vector<float> x(kRowsOfRank * kWidth), y(x.size()), dy(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = draw(random), y[i] = draw(random);
    tape.begin(pass.training);
    const auto tensor = [](std::vector<float>& of) {
      return Tensor(of.data(), {kRowsOfRank, kWidth});
    };
    const Tensor out = forward(tape, tensor(x));
    double loss = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      dy[i] = (out.f32()[i] - y[i]) / kRowsOfRank;
      loss += 0.5 * dy[i] * dy[i];
    }
    pass.training ? backward(tape, tensor(dy)) : tape.end();
    return loss;
  }

  bool is_block(const nn::Module& module) const {
    return std::ranges::any_of(h, [&](const Block& block) { return &block == &module; });
  }
  static float draw(std::mt19937& random) {
    return static_cast<float>(static_cast<int>(random() % 2001) - 1000) / 1500;
  }

  Say say;
  std::vector<int> calls;
  std::deque<Block> h;
  std::deque<std::vector<float>> first;  // the first weights
  nn::Linear stem{{.in = kWidth, .out = kWidth}}, head{{.in = kWidth, .out = kWidth}};

 private:
  Tensor do_forward(nn::Tape& tape, Tensor x) override {
    x = stem.forward(tape, x);
    for (const int block : calls) x = h[block].forward(tape, x);
    x = head.forward(tape, x);
    say("@post_forward root");
    return x;
  }
  Tensor do_backward(nn::Tape& tape, Tensor dy) override {
    dy = head.backward(tape, dy);
    for (auto call = calls.rbegin(); call != calls.rend(); ++call) {
      dy = h[*call].backward(tape, dy);
    }
    dy = stem.backward(tape, dy);
    say("@post_backward root");
    return dy;
  }
};

}  // namespace lesson
