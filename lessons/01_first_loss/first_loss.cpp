#include <fmt/format.h>

#include <cmath>
#include <span>
#include <vector>

#include "data/dataset.h"
#include "downhill.h"
#include "frame/lesson.h"
#include "frame/memory.h"
#include "frame/nanogpt.h"
#include "frame/pytorch.h"
#include "nn/loss.h"
#include "ops/cross_entropy.h"
#include "picture.h"

// Lesson 01: what a loss is, and the losses of a GPT's first twenty steps beside PyTorch's.

namespace {

using namespace nanofsdp;

constexpr int kSteps = 20;
constexpr std::int64_t kRows = 12, kTokens = 64, kPredictions = kRows * kTokens;  // in a batch

//! [loss]
double loss_of(std::span<const float> logits, std::size_t target) {
  double sum = 0;
  for (const double logit : logits) sum += std::exp(logit);
  return std::log(sum) - logits[target];
}
//! [loss]

std::vector<double> train_a_little(gpt::GPT& model, const data::Dataset& text) {
  lesson::Memory memory;
  Generator generator(1337);
  const std::vector<lesson::Weight> weights = lesson::first_weights(model, memory, generator);
  std::vector<std::int32_t> x(kRows * kTokens), y(kRows * kTokens);
  const Tensor tokens(x.data(), {kRows, kTokens}, DType::int32);
  const Tensor targets(y.data(), {kRows, kTokens}, DType::int32);
  nn::Tape tape(memory.context);
  std::vector<double> losses;
  //! [train]
  for (int step = 0; step < kSteps; ++step) {
    text.draw(data::Split::train, generator, kRows, {0, kRows}, {x, y});
    tape.begin(/*training=*/true);
    double loss = 0;  // summed over all predictions
    nn::cross_entropy(tape, model.forward(tape, tokens), targets,
                      Tensor(&loss, {1}, DType::float64));
    model.backward(tape, nn::cross_entropy_backward(tape, 1.0F / kPredictions));
    tape.end_backward();
    lesson::downhill(memory, weights, step);
    losses.push_back(loss / kPredictions);
  }
  //! [train]
  return losses;
}

// Compares the library's operator with the loss by hand, on a thousand random rows.
bool equals_library(std::int64_t V) {
  constexpr std::int64_t N = 1000;
  std::vector<float> logits(N * V), loss(N), lse(N);
  std::vector<std::int32_t> target(N);
  Generator(1).normal(logits, 0, 3);
  for (std::int64_t row = 0; row < N; ++row) target[row] = static_cast<std::int32_t>(row % V);
  Context context;
  ops::cross_entropy(*context.compute,
                     ops::CrossEntropyForward{.logits = Tensor(logits.data(), {N, V}),
                                              .target = Tensor(target.data(), {N}, DType::int32),
                                              .loss = Tensor(loss.data(), {N}),
                                              .lse = Tensor(lse.data(), {N})});
  bool right = true;
  for (std::int64_t row = 0; row < N; ++row) {
    const double mine = loss_of(std::span(logits).subspan(row * V, V), target[row]);
    right = right && std::abs(mine - loss[row]) < 1e-5;
  }
  return right;
}

std::int64_t parameters_of(gpt::GPT& model) {
  std::int64_t n = 0;
  for (const nn::Parameter* parameter : model.named_parameters()) n += parameter->shape.numel();
  return n;
}

}  // namespace

int main(int argc, char** argv) {
  lesson::Lesson lesson(argc, argv);
  const data::Dataset text = data::load_dataset({});
  const std::int64_t V = text.tokenizer().vocab_size();
  gpt::GPT model(lesson::nanogpt(V));
  const std::int64_t table = model.named_parameters()[0]->shape.numel();

  const std::int64_t length = text.size(data::Split::train) + text.size(data::Split::val);
  lesson.print(fmt::format("text: {} characters, {} different ones", length, V));
  lesson.print(
      fmt::format("tokens of \"owl\": {}", fmt::join(text.tokenizer().encode("owl"), " ")));
  lesson.print(
      fmt::format("batch: {} rows of {} tokens, {} predictions", kRows, kTokens, kPredictions));
  lesson.print(
      fmt::format("model: {} parameters, {} in the token table", parameters_of(model), table));
  const double uniform = loss_of(std::vector<float>(V), 0);
  lesson.print(fmt::format("knowing nothing: ln {} = {:.4f}", V, uniform));
  const std::vector<double> ours = train_a_little(model, text),
                            theirs = lesson::pytorch_losses(kSteps);
  for (std::size_t step = 0; step < kSteps; ++step) {
    lesson.claim(std::abs(ours[step] / theirs[step] - 1) < 1e-6, fmt::format("step {}", step));
    if (step < 10 || step + 1 == kSteps) {
      lesson.print(
          fmt::format("step {}: loss {:.4f}, PyTorch {:.4f}", step, ours[step], theirs[step]));
    }
  }
  lesson.claim(std::abs(uniform - std::log(V)) < 1e-12, "equal logits lose ln V");
  lesson.claim(equals_library(V), "the loss by hand is the library's");
  lesson.answer(kPredictions);
  lesson.answer(std::llround(10 * ours[0]));
  lesson.answer(table);
  lesson.picture(lesson::drawing(ours, theirs, uniform));
  return lesson.end("the loss by hand is the library's, and 20 losses are PyTorch's within 1e-6");
}
