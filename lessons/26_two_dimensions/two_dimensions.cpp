#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "26_two_dimensions/picture.h"
#include "26_two_dimensions/trained.h"
#include "frame/lesson.h"

namespace {

using namespace lesson;

constexpr int kSteps = 20;

//! [tensor_bytes]
// The bytes that a rank sends in its tensor group for a step: each block has two all-reduces in
// forward and two in backward, and each of them adds up C features of t tokens.
std::int64_t tensor_bytes(const Grid& grid, std::int64_t tokens, std::int64_t C, int blocks) {
  const std::int64_t t = tokens / grid.shards, T = grid.tensor;
  return blocks * 4 * 2 * (T - 1) * t * C / T * 4;
}
//! [tensor_bytes]

//! [shard_bytes]
// The bytes that a rank sends in its shard group. A block is gathered twice and reduced once, the
// root is gathered once and reduced once. The rank's part of a block has 12 C^2 / T elements of
// matrices, and two whole layer norms.
std::int64_t shard_bytes(const Grid& grid, std::int64_t C, int blocks, std::int64_t root) {
  const std::int64_t F = grid.shards, block = 12 * C * C / grid.tensor + 2 * C;
  return (3 * blocks * block + 2 * root) * 4 / F * (F - 1);
}
//! [shard_bytes]

double furthest(const GridRun& run, const GridRun& one) {
  double most = 0;
  for (int i = 0; i < kSteps; ++i)
    most = std::max(most, std::abs(run.losses[i] / one.losses[i] - 1));
  return most;
}

// One row for each size of a tensor group, for a block of width C on H100s, eight to a node, each
// with a network card of its own. Forward and backward of a block take 72 C^2 operations for a
// token, and elements have 2 bytes. The ranks of a node that have the same part use their cards
// together.
void print_when(const Lesson& lesson, std::int64_t C) {
  const double speed = 989e12, node = 450e9, card = 50e9;
  lesson.print("a tensor group of                        1      2      4      8     16");
  std::string tokens = "tokens a GPU, to hide the shards  ",
              added = "its sums, percent of computation ";
  for (const int T : {1, 2, 4, 8, 16}) {
    const double cards = std::max(1, 8 / T);
    tokens += fmt::format("{:>7.0f}", std::ceil(speed / (cards * card) / T));
    const double near = T <= 8 ? node : 8 * card;
    const double sums = 16.0 * (T - 1) / T * static_cast<double>(C) / near;
    const double products = 72.0 * static_cast<double>(C * C) / T / speed;
    added += fmt::format("{:>7.0f}", 100 * sums / products);
  }
  lesson.print(tokens);
  lesson.print(" " + added);
}

}  // namespace

int main(int argc, char** argv) {
  Lesson lesson(argc, argv);
  train::TrainerOptions o;
  const data::Dataset text = data::load_dataset({});
  const GridRun one = train_on({1, 1}, kSteps, {}, o, text);
  const auto row = [&](const char* name, const GridRun& run) {
    lesson.print(fmt::format("{:<15}{:>8.2f}{:>9.2f}{:>9.2f}", name, run.losses[0], run.losses[9],
                             run.losses[kSteps - 1]));
  };
  lesson.print("shards x tensor  step 1  step 10  step 20");
  row("1 x 1", one);
  std::vector<Sent> sent;
  std::string bytes = "a rank sends   by shards  by tensor  all-reduces  it keeps";
  for (const Grid grid : {Grid{4, 1}, Grid{2, 2}, Grid{1, 4}}) {
    const std::string name = fmt::format("{} x {}", grid.shards, grid.tensor);
    const GridRun run = train_on(grid, kSteps, {}, o, text);
    row(name.c_str(), run);
    lesson.claim(furthest(run, one) < 1e-6, name + " has the losses of one rank, within 1e-6");
    lesson.claim(run.tensor_losses_agree, "the ranks of a tensor group have the same losses");
    lesson.claim(run.tensor.bytes_sent == tensor_bytes(grid, o.tokens_of_step(), 128, 4) &&
                     run.traffic.bytes_sent == shard_bytes(grid, 128, 4, (65 + 64 + 1) * 128),
                 name + " sends what the formulas say");
    const std::int64_t sums = grid.tensor > 1 ? run.tensor.all_reduces : 0;
    bytes += fmt::format("\n{:<13}{:>11}{:>11}{:>13}{:>10}", name, run.traffic.bytes_sent,
                         run.tensor.bytes_sent, sums, run.kept());
    sent.push_back({name, run.traffic.bytes_sent, run.tensor.bytes_sent});
    if (name != "2 x 2") continue;
    lesson.answer(sums);
    lesson.answer(run.tensor.bytes_sent);
    lesson.answer(run.traffic.bytes_sent);
  }
  const GridRun full = train_on({2, 2}, 4, {}, o, text);
  int equal = 0;
  for (const auto strategy :
       {fsdp::ShardingStrategy::shard_grad_op, fsdp::ShardingStrategy::shard_gradients,
        fsdp::ShardingStrategy::shard_optimizer, fsdp::ShardingStrategy::no_shard}) {
    equal += train_on({2, 2}, 4, {.strategy = strategy}, o, text) == full;
  }
  lesson.print(
      fmt::format("strategies on 2 x 2 with full_shard's weights, to the bit: {} of 4", equal));
  lesson.claim(equal == 4, "the bits do not depend on how the shards are kept");
  lesson.print(bytes);
  print_when(lesson, 8192);
  lesson.picture(drawing(sent));
  return lesson.end("a model in two dimensions is the model of one rank");
}
