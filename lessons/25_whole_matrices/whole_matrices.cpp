#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "frame/lesson.h"
#include "picture.h"
#include "trained.h"

// Lesson 25: Muon needs whole matrices. The ranks gather them, share out the work, and scatter the
// results.

namespace {

using namespace nanofsdp;
using lesson::kRanks, lesson::Kind, lesson::MuonRun;
constexpr int kSteps = 40;

// The work of the matrices of a GPT's block, in multiplications of one product: k m n.
std::vector<lesson::Matrix> matrices_of_a_block() {
  gpt::GPT model(lesson::nanogpt(65));
  std::vector<lesson::Matrix> matrices;
  const auto units = fsdp::wrap(model, lesson::is_block);
  for (const nn::Parameter* p : units.front().parameters) {
    if (!lesson::gpt_group(*p).muon) continue;
    const std::int64_t k = std::min(p->shape[0], p->shape[1]);
    matrices.push_back({matrices.size(), static_cast<double>(k * p->shape.numel())});
  }
  return matrices;
}

//! [slices]
// Makes 40 steps towards a target of 8 x 8. In the gradient of this loss all rows have a common
// part that is much larger than their differences. Each slice of `rows` rows is orthogonalised.
double loss_with(std::int64_t rows) {
  Context context;
  const Buffer room = context.buffer(MemoryClass::communication, 3 * 64);
  std::vector<float> weights(64), target(64), gradient(64);
  for (int e = 0; e < 64; ++e) target[e] = static_cast<float>(std::sin((e + 1) * (e + 1)));
  double loss = 0;
  for (int step = 0; step <= 40; ++step) {
    loss = 0;
    for (int column = 0; column < 8; ++column) {
      float sum = 0;
      for (int e = column; e < 64; e += 8) sum += weights[e] - target[e];
      for (int e = column; e < 64; e += 8) {
        gradient[e] = weights[e] - target[e] + 30 * sum;
        loss += (weights[e] - target[e]) * gradient[e] / 16;
      }
    }
    for (std::int64_t row = 0; row < 8; row += rows) {
      const Tensor slice(gradient.data() + 8 * row, {rows, 8});
      lesson::orthogonalise(*context.compute, slice, room);
    }
    const float rate = 0.1414F * (1 - static_cast<float>(step) / 41);
    for (int e = 0; e < 64; ++e) weights[e] -= rate * gradient[e];
  }
  return loss;
}
//! [slices]

}  // namespace

int main(int argc, char** argv) {
  lesson::Lesson lesson(argc, argv);
  lesson.print("8 x 8, ranks              1     2     4     8");
  std::string losses = "loss after 40 steps";
  for (const std::int64_t rows : {8, 4, 2, 1}) losses += fmt::format("{:>6.2f}", loss_with(rows));
  lesson.print(losses);
  lesson.claim(2 * loss_with(8) < loss_with(1), "slices of one row are not enough");

  lesson.print("multiplications of a product, in thousands, rank by rank");
  for (const int blocks : {1, 4}) {
    std::vector<double> load(kRanks);
    for (int block = 0; block < blocks; ++block) {
      std::vector<lesson::Matrix> matrices = matrices_of_a_block();
      lesson::share_out(matrices, load);
    }
    std::string row = fmt::format("after {} block{}", blocks, blocks == 1 ? " " : "s");
    double sum = 0;
    for (const double l : load) row += fmt::format("{:>8.0f}", l / 1000), sum += l;
    const double most = 100 * *std::ranges::max_element(load) / sum;
    lesson.print(row + fmt::format("   the most: {:.0f} %", most));
    if (blocks == 1) lesson.answer(static_cast<std::int64_t>(most + 0.5));
  }

  train::TrainerOptions o;
  const data::Dataset text = data::load_dataset({});
  const fsdp::Options rows{.layout = fsdp::LayoutKind::per_parameter};
  const MuonRun adamw = train_with(Kind::adamw, kSteps, {}, o, text);
  const MuonRun muon = train_with(Kind::muon, kSteps, {}, o, text);
  const MuonRun slices = train_with(Kind::slices, kSteps, rows, o, text);
  lesson.print("the loss               AdamW   Muon, whole   Muon, slices");
  for (const int step : {1, 10, 20, 40}) {
    const auto i = static_cast<std::size_t>(step - 1);
    lesson.print(fmt::format("step {:<2}            {:>10.2f}{:>14.2f}{:>15.2f}", step,
                             adamw.losses[i], muon.losses[i], slices.losses[i]));
  }
  const MuonRun in_rows = train_with(Kind::muon, 4, rows, o, text);
  const MuonRun replicas =
      train_with(Kind::muon, 4, {.strategy = fsdp::ShardingStrategy::no_shard}, o, text);
  const MuonRun four = train_with(Kind::muon, 4, {}, o, text);
  lesson.claim(four.weights == replicas.weights, "full_shard's weights are no_shard's");
  lesson.print(fmt::format("losses of 4 steps that are no_shard's to the bit: {} of 4",
                           four.equal_losses(replicas)));
  lesson.print("                all-gathers  reduce-scatters  bytes sent");
  const auto traffic = [&](const char* name, const comm::Traffic& t) {
    lesson.print(fmt::format("{:<16}{:>11}{:>17}{:>12}", name, t.all_gathers, t.reduce_scatters,
                             t.bytes_sent));
  };
  traffic("the passes", muon.traffic);
  traffic("AdamW's step", adamw.update);
  traffic("Muon's step", muon.update);
  traffic("  per_parameter", in_rows.update);
  traffic("  no_shard", replicas.update);
  lesson.claim(muon.update.bytes_sent == 2 * 4 * 4 * 196864 * 3 / 4, "the formula");
  lesson.answer(muon.update.bytes_sent);
  lesson.answer(adamw.update.bytes_sent);
  lesson.picture(lesson::drawing(
      {{"AdamW", adamw.losses, lesson::colour::ink},
       {"Muon, whole", muon.losses, lesson::colour::optimizer},
       {"Muon, slices", slices.losses, lesson::colour::optimizer, /*dashed=*/true}}));
  return lesson.end("Muon on shards is Muon on whole matrices, to the bit");
}
