#pragma once

#include <cmath>
#include <cstdint>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "22_your_own_model/training.h"

/// @file
/// @brief A tiny Llama whose gradients and losses PyTorch has computed in float64.

namespace lesson {

inline constexpr llama::Config kTiny{.vocab_size = 11,
                                     .hidden_size = 16,
                                     .intermediate_size = 24,
                                     .num_hidden_layers = 2,
                                     .num_attention_heads = 4,
                                     .num_key_value_heads = 2};

/// Ten steps of 6 rows in an invented language.
inline Task tiny_task(bool lora = false) {
  const auto text = [](int step, std::int64_t first, Rows& rows) {
    for (std::int64_t i = 0; i < std::ssize(rows.x); ++i) {
      const std::int64_t row = first + i / rows.T, at = 3 * (6 * step + row) + i % rows.T;
      const auto token = [row](std::int64_t n) { return (n * n + row) % kTiny.vocab_size; };
      rows.x[i] = static_cast<std::int32_t>(token(at));
      rows.y[i] = static_cast<std::int32_t>(token(at + 1));
    }
  };
  return {.config = kTiny, .rows = 6, .T = 8, .text = text, .steps = 10, .lora = lora};
}

/// Random values for all parameters; those of the norms are near 1.
inline Values tiny_values(nn::Module& model) {
  Generator generator(1337);
  Values values;
  for (const nn::Parameter* p : model.named_parameters()) {
    auto& of = values[p->name] = std::vector<float>(p->shape.numel());
    generator.normal(of, p->name.find("norm") == std::string::npos ? 0 : 1, 0.3);
  }
  return values;
}

/// Two numbers that identify a gradient: its norm, and its product with (cos 1, cos 2, ...).
struct Measured {
  double norm = 0, along = 0;

  /// Within 2e-6 of the norm.
  bool is_near(const Measured& truth) const {
    const double allowed = 2e-6 * truth.norm;
    return std::abs(norm - truth.norm) <= allowed && std::abs(along - truth.along) <= allowed;
  }
};

/// For every parameter, after forward and backward of the first step's rows.
inline std::map<std::string, Measured> measure_gradients(int threads = 1) {
  llama::Llama model(kTiny);
  Values values = tiny_values(model), gradients;
  give(model, values);
  for (nn::Parameter* p : model.named_parameters()) {
    auto& of = gradients[p->name] = std::vector<float>(p->shape.numel());
    p->show_grad(Tensor(of.data(), p->shape));
  }
  Context context(0, 1, threads);
  nn::Tape tape(context);
  Rows rows(6, 8);
  tiny_task().text(0, 0, rows);
  tape.begin(/*training=*/true);
  nn::cross_entropy(tape, model.forward(tape, rows.inputs()), rows.targets(), {});
  model.backward(tape, nn::cross_entropy_backward(tape, 1.0f / (6 * 8)));
  std::map<std::string, Measured> measured;
  for (const auto& [name, gradient] : gradients) {
    double squares = 0, along = 0;
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      squares += double{gradient[i]} * gradient[i];
      along += gradient[i] * std::cos(static_cast<double>(i + 1));
    }
    measured[name] = {std::sqrt(squares), along};
  }
  return measured;
}

/// PyTorch's gradients and losses, from the lines of golden/llama.txt.
struct Truth {
  explicit Truth(std::istream&& text) {
    for (std::string line, kind; std::getline(text, line);) {
      std::istringstream words(line);
      words >> kind;
      if (kind == "gradient") {
        std::string name;
        words >> name;
        words >> gradients[name].norm >> gradients[name].along;
      } else if (kind != "#") {
        for (double loss; words >> loss;) losses[kind == "lora_losses"].push_back(loss);
      }
    }
  }

  std::map<std::string, Measured> gradients;
  /// Losses of steps when all parameters train; true: when adapters train.
  std::map<bool, std::vector<double>> losses;
};

/// How many of our losses are PyTorch's, within 1e-6 of them.
inline int count_near(const std::vector<double>& ours, const std::vector<double>& theirs) {
  int near = 0;
  for (std::size_t i = 0; i < std::min(ours.size(), theirs.size()); ++i) {
    near += std::abs(ours[i] - theirs[i]) <= 1e-6 * theirs[i];
  }
  return near;
}

}  // namespace lesson
