#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "frame/lesson.h"
#include "frame/nanogpt.h"
#include "frame/pytorch.h"
#include "frame/recipes.h"
#include "picture.h"
#include "plan/transformer.h"
#include "runs.h"

// Lesson 21: how little the losses of two correct programs differ, and what a rank of a large model
// keeps, borrows and sends.

namespace {

using namespace nanofsdp;
constexpr int kSteps = 100, kFew = 50;

//! [orders]
float sum_of_fractions(int first, int last, int by) {  // 1/first + ... + 1/last
  float sum = 0;
  for (int i = first; i != last + by; i += by) sum += 1.0f / static_cast<float>(i);
  return sum;
}
//! [orders]

//! [farthest]
// The largest relative difference between two curves in their first steps.
double farthest(std::span<const double> a, std::span<const double> b, int steps) {
  double most = 0;
  for (int step = 0; step < steps; ++step) {
    most = std::max(most, std::abs(a[step] / b[step] - 1));
  }
  return most;
}
//! [farthest]

// As text that is the same on every machine.
std::string size(double difference) {
  return difference < 2e-6 ? "< 2e-6" : difference > 1e-3 ? "> 1e-3" : "between";
}

//! [rank]
struct Model {
  std::string name;
  std::int64_t blocks, block, root;  // number of blocks; parameters of a block, and of the root
};

// full_shard in float32 with Adam. Each block is a unit; a rank borrows two slots for blocks, and
// one for the root.
lesson::Rank one_of(std::int64_t W, const Model& model) {
  const std::int64_t s = (model.block + W - 1) / W;    // elements of a block's shard
  const std::int64_t root = (model.root + W - 1) / W;  // and of the root's
  return {.kept = (4 + 4 + 4 + 4) * (model.blocks * s + root),
          .borrowed = (4 + 4) * W * (2 * s + root),
          .sent = 4 * (W - 1) * (3 * model.blocks * s + 2 * root)};
}
//! [rank]

Model model_of(const char* name, const lesson::Planned& planned) {
  return {name, std::ssize(planned.units) - 1, planned.units.front(), planned.units.back()};
}

}  // namespace

int main(int argc, char** argv) {
  lesson::Lesson lesson(argc, argv);
  lesson.print(fmt::format("1/1 + ... + 1/768 in float32: {:.7f}, and from the other end {:.7f}",
                           sum_of_fractions(1, 768, 1), sum_of_fractions(768, 1, -1)));

  const data::Dataset text = data::load_dataset({});
  const std::vector<double> theirs = lesson::pytorch_losses(kSteps);
  const lesson::Run calm = lesson::train(1, kFew, 1e-3, text),
                    calm_2 = lesson::train(2, kSteps, 1e-3, text);
  const lesson::Run wild = lesson::train(1, kFew, 0.1, text),
                    wild_2 = lesson::train(2, kFew, 0.1, text);
  lesson.print("losses differ at most, in steps    1 to 5   1 to 50");
  const auto row = [&](const char* name, std::span<const double> a, std::span<const double> b) {
    lesson.print(fmt::format("{:<31}{:>10}{:>10}", name, size(farthest(a, b, 5)),
                             size(farthest(a, b, kFew))));
  };
  row("lr 0.001: 1 rank, PyTorch", calm.losses, theirs);
  row("lr 0.001: 2 ranks, PyTorch", calm_2.losses, theirs);
  row("lr 0.001: 2 ranks, 1 rank", calm_2.losses, calm.losses);
  row("lr 0.1:   2 ranks, 1 rank", wild_2.losses, wild.losses);
  lesson.print(fmt::format("lr 0.001: 2 ranks, 1 rank, all bits: {}",
                           farthest(calm.losses, calm_2.losses, kFew) == 0 ? "equal" : "differs"));
  int within = 0;
  for (int step = 0; step < kSteps; ++step) {
    within += std::abs(calm_2.losses[step] / theirs[step] - 1) < 2e-6;
  }
  lesson.print(
      fmt::format("lr 0.001: 2 ranks, {} of {} losses within 2e-6 of PyTorch's", within, kSteps));
  lesson.answer(within);
  lesson.claim(within == kSteps, "every loss is PyTorch's, within 2e-6");

  std::string figure = "7500000000 parameters, 64 ranks, stages 0 to 3, GB:";
  for (int stage = 0; stage < 4; ++stage) {
    figure += fmt::format(" {:.1f}", 7.5 * lesson::kRecipes[2].bytes_a_parameter(stage, 64));
  }
  lesson.print(figure);
  lesson.print("full_shard, bytes of a rank     keeps      borrows  sends in a step");
  const auto say = [&](const std::string& name, std::int64_t W, const lesson::Rank& rank) {
    lesson.print(
        fmt::format("{:<18}{:>6}{:>13}{:>13}{:>17}", name, W, rank.kept, rank.borrowed, rank.sent));
  };
  say("tales, its ledger", 2, calm_2.rank);
  gpt::GPT gpt(lesson::nanogpt(52));
  plan::Outline llama_7b(plan::transformer(*plan::find_transformer("llama-2-7b"), {})),
      llama_70b(plan::transformer(*plan::find_transformer("llama-2-70b"), {}));
  const auto both = [&](const char* name, nn::Module& model, int W) {
    const lesson::Planned planned = lesson::plan(model, W, plan::is_block);
    const lesson::Rank rank = one_of(W, model_of(name, planned));
    lesson.claim(rank == planned.rank, fmt::format("{}: the engine does this", name));
    say(name, W, rank);
    return rank;
  };
  lesson.claim(both("tales", gpt, 2) == calm_2.rank, "the formula is the ledger's");
  both("llama-7b", llama_7b, 128);
  const lesson::Rank few = both("llama-70b", llama_70b, 128);
  const lesson::Rank many = both("llama-70b", llama_70b, 1280);
  lesson.claim(few.borrowed <= many.borrowed, "what is borrowed does not shrink");
  lesson.answer(many.kept / 1'000'000);
  lesson.answer(many.borrowed / 1'000'000'000);
  const Model sizes = model_of("", lesson::plan(llama_70b, 16, plan::is_block));
  std::vector<lesson::Bar> bars;
  for (std::int64_t W = 16; W <= 4096; W *= 4) {
    bars.push_back({W, one_of(W, sizes)});
  }
  lesson.picture(lesson::drawing(calm_2.losses, theirs, bars));
  return lesson.end("100 losses are PyTorch's, and the formula weighs and counts what a run does");
}
