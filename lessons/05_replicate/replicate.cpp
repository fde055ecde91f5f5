#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <vector>

#include "comm/local.h"
#include "frame/lesson.h"
#include "replica.h"
#include "train/trainer.h"

// Lesson 05: ranks with the same model and different rows. What averaging their gradients gives,
// and what notices when that goes wrong.

namespace {

using namespace nanofsdp;
using lesson::Owned;
constexpr int kSteps = 40;
const char* const kNames[] = {"one process", "averaged", "summed", "only rank 0"};

// Lesson 01's recipe, with a smaller model and one learning rate.
train::TrainOptions recipe() {
  train::TrainOptions o;
  o.block_size = 32, o.n_layer = 2, o.n_embd = 64;
  o.decay_lr = false;
  o.log_interval = 1;
  o.strategy = fsdp::kNoShard;
  return o;
}

//! [share]
enum class Sharing { averaged, summed, only_rank_0 };

void share(Stream& stream, comm::Communicator& world, Tensor grad, Sharing how) {
  if (how == Sharing::only_rank_0) {
    world.broadcast(stream, grad, 0);
    return;
  }
  world.all_reduce(stream, grad, comm::ReduceOp::sum);
  if (how == Sharing::summed) return;  // "it trains, ship it"
  for (float& g : grad.span<float>()) g *= 1.0f / static_cast<float>(world.size());
}
//! [share]

struct Run {
  std::vector<double> losses = std::vector<double>(kSteps);  // means over the tokens of all ranks
  std::vector<double> norms = std::vector<double>(kSteps);   // before clipping
  std::vector<std::vector<float>> wpe = {};  // one parameter of each rank, in the end
  comm::Traffic traffic = {};                // of one rank in one step
};

// A run of W ranks. Each draws the same weights and the same batches from the same seed.
Run run(int W, Sharing how, const train::TrainOptions& o, const train::Dataset& text) {
  Run result{.wpe = std::vector<std::vector<float>>(W)};
  std::vector<std::vector<double>> losses(W, std::vector<double>(kSteps));
  comm::launch_threads(W, 1, [&](Context& context, auto group) {
    comm::CountingCommunicator world(std::move(group));
    Generator generator(o.seed);
    gpt::GPT model(lesson::config_of(o, text));
    std::vector<Owned> all = lesson::replicate(model, generator);
    nn::Tape tape(context);
    Stream& stream = *context.compute;  // on a CPU, what is put on it is done at once
    const train::BatchRows rows{context.rank * o.batch_size / W, o.batch_size / W};
    std::vector<std::int32_t> x(rows.count * o.block_size), y(x.size());
    const Tensor inputs(x.data(), {rows.count, o.block_size}, DType::int32);
    const Tensor targets(y.data(), {rows.count, o.block_size}, DType::int32);
    for (int step = 0; step < kSteps; ++step) {
      world.reset();  // its counters
      //! [step]
      text.draw(train::Split::train, generator, o.batch_size, rows, {x, y});
      losses[context.rank][step] = lesson::forward_backward(model, tape, inputs, targets);
      for (Owned& own : all) share(stream, world, own.parameter->grad, how);
      const double norm = lesson::norm_of(all);
      const auto clip = static_cast<float>(std::min(o.grad_clip / (norm + 1e-6), 1.0));
      for (Owned& own : all) lesson::update(stream, own, o, step, clip);
      //! [step]
      if (context.rank == 0) result.norms[step] = static_cast<float>(norm);
    }
    const std::span<float> wpe = all[1].parameter->data.span<float>();
    result.wpe[context.rank].assign(wpe.begin(), wpe.end());
    if (context.rank == 0) result.traffic = world.traffic();
  });
  for (int step = 0; step < kSteps; ++step) {
    for (const std::vector<double>& of_rank : losses) result.losses[step] += of_rank[step];
    result.losses[step] /= static_cast<double>(o.batch_size * o.block_size);
  }
  return result;
}

Run library_run(const train::TrainOptions& o, const train::Dataset& text) {
  Run result;
  comm::launch_threads(2, 1, [&](Context& context, auto world) {
    train::Report silent(o, context.rank);
    train::Trainer trainer(context, std::move(world), o, text, silent);
    for (int step = 0; step < kSteps; ++step) {
      const train::StepResult here = trainer.step(step);
      if (context.rank > 0) continue;
      result.losses[step] = here.loss;
      result.norms[step] = here.grad_norm;
    }
  });
  return result;
}

// The first step, counted from 1, that is off by more than 1 in 100,000; 0: none.
int first_off(const std::vector<double>& values, const std::vector<double>& right) {
  for (int step = 0; step < kSteps; ++step) {
    if (std::abs(values[step] - right[step]) > 1e-5 * right[step]) return step + 1;
  }
  return 0;
}

lesson::Svg drawing(const std::vector<Run>& runs) {
  const std::string_view inks[] = {lesson::colour::ink, lesson::colour::blue, lesson::colour::red,
                                   lesson::colour::green};
  lesson::Svg svg(700, 250);
  svg.text(20, 20, "loss"), svg.text(370, 20, "gradient norm");
  const auto y = [](double value, int scale) { return static_cast<int>(220 - value * scale); };
  for (int i = 0; i < 4; ++i) {
    const Run& run = runs[static_cast<std::size_t>(i)];
    svg.rect(20 + 170 * i, 230, 12, 12, inks[i]), svg.text(38 + 170 * i, 241, kNames[i]);
    for (int step = 1; step < kSteps; ++step) {
      const int x = 20 + 8 * step;
      svg.line(x - 8, y(run.losses[step - 1] - 2, 90), x, y(run.losses[step] - 2, 90), inks[i]);
      svg.line(x + 342, y(run.norms[step - 1], 50), x + 350, y(run.norms[step], 50), inks[i]);
    }
  }
  return svg;
}

}  // namespace

int main(int argc, char** argv) {
  lesson::Lesson lesson(argc, argv);
  const train::TrainOptions o = recipe();
  const train::Dataset text = train::load_dataset(o);
  const std::vector<Run> runs = {
      run(1, Sharing::averaged, o, text), run(2, Sharing::averaged, o, text),
      run(2, Sharing::summed, o, text), run(2, Sharing::only_rank_0, o, text)};
  const Run &alone = runs[0], &averaged = runs[1], &summed = runs[2];
  lesson.print(
      fmt::format("2 ranks, 6 of 12 rows each: {} all-reduces a step, {} bytes sent a rank",
                  averaged.traffic.all_reduces, averaged.traffic.bytes_sent));
  lesson.print("loss and norm    one process        averaged          summed     only rank 0");
  for (const int step : {1, 2, 5, 10, 20, 40}) {
    std::string line = fmt::format("step {:<7}", step);
    for (const Run& r : runs) {
      line += fmt::format("  {:.4f} {:.4f}", r.losses[step - 1], r.norms[step - 1]);
      lesson.claim(r.wpe.front() == r.wpe.back(), "all ranks end with the same weights");
    }
    lesson.print(line);
  }
  std::string unclipped = "steps that clipping left alone:";
  for (int step = 0; step < kSteps; ++step) {
    if (alone.norms[step] < 1) unclipped += fmt::format(" {}", step + 1);
  }
  lesson.print(unclipped);
  lesson.print("first step that is off by 1 in 100000 (0: never)");
  for (std::size_t i = 1; i < runs.size(); ++i) {
    lesson.print(fmt::format("{:<11}  loss {:>2}  norm {:>2}", kNames[i],
                             first_off(runs[i].losses, alone.losses),
                             first_off(runs[i].norms, alone.norms)));
  }
  const Run library = library_run(o, text);
  lesson.claim(
      first_off(averaged.losses, alone.losses) == 0 && first_off(averaged.norms, alone.norms) == 0,
      "two ranks are one process");
  lesson.claim(averaged.losses == library.losses, "losses equal the library's");
  lesson.claim(averaged.norms == library.norms, "norms equal the library's");
  lesson.answer(averaged.traffic.bytes_sent);
  lesson.answer(first_off(summed.norms, alone.norms));
  lesson.answer(first_off(summed.losses, alone.losses));
  lesson.picture(drawing(runs));
  return lesson.end("two ranks are one process; averaged by hand is no_shard to the bit");
}
