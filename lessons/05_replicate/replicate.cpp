#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "frame/lesson.h"
#include "frame/train.h"
#include "picture.h"
#include "replica.h"

// Lesson 05: ranks with the same model and different rows average their gradients. Which numbers
// show it when the averaging is wrong?

namespace {

using namespace nanofsdp;
constexpr int kSteps = 40;
constexpr std::array kNames = {"one process", "averaged", "summed", "only rank 0"};

//! [share]
enum class Sharing { averaged, summed, only_rank_0 };

void share(Stream& stream, comm::Communicator& world, Tensor grad, Sharing how) {
  if (how == Sharing::only_rank_0) {
    world.broadcast(stream, grad, 0);
    return;
  }
  world.all_reduce(stream, grad, comm::ReduceOp::sum);
  if (how == Sharing::summed) return;  // a bug: the division is missing
  for (float& g : grad.span<float>()) g *= 1.0f / static_cast<float>(world.size());
}
//! [share]

struct Run : lesson::Curve {
  explicit Run(int W) : Curve(kSteps), wpe(W) {}
  std::vector<std::vector<float>> wpe;  // on each rank: the table of positions, in the end
  comm::Traffic traffic;                // traffic of one rank in one step
};

// A run of W ranks. Each draws the same weights and the same batches from the same seed.
Run run(int W, Sharing how, const train::TrainerOptions& o, const data::Dataset& text) {
  Run result(W);
  std::vector<std::vector<double>> losses(W, std::vector<double>(kSteps));
  comm::launch_threads(W, 1, [&](Context& context, auto group) {
    comm::Communicator& world = *group;
    lesson::Replica replica(context, o, text);
    Stream& stream = *context.compute;  // a queue of work; a CPU does it at once
    for (int step = 0; step < kSteps; ++step) {
      world.reset_traffic();
      //! [step]
      replica.draw(text);
      losses[context.rank][step] = replica.forward_backward();
      for (lesson::Owned& own : replica.all) share(stream, world, own.parameter->grad(), how);
      const double norm = replica.norm();
      const double clip = std::min(o.grad_clip / (norm + 1e-6), 1.0);
      for (lesson::Owned& own : replica.all) lesson::update(stream, own, o, step, clip);
      //! [step]
      if (context.rank == 0) result.norms[step] = static_cast<float>(norm);
    }
    const std::span<float> wpe = replica.all[1].parameter->data.span<float>();
    result.wpe[context.rank].assign(wpe.begin(), wpe.end());
    if (context.rank == 0) result.traffic = world.traffic();
  });
  for (int step = 0; step < kSteps; ++step) {
    for (const std::vector<double>& of_rank : losses) result.losses[step] += of_rank[step];
    result.losses[step] /= static_cast<double>(o.batch_size * o.block_size);
  }
  return result;
}

// The first step, counted from 1, whose value is off by more than 1 in 100,000. 0 if there is none.
int first_off(const std::vector<double>& values, const std::vector<double>& right) {
  for (int step = 0; step < kSteps; ++step) {
    if (std::abs(values[step] - right[step]) > 1e-5 * right[step]) return step + 1;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  lesson::Lesson lesson(argc, argv);
  const train::TrainerOptions o = lesson::recipe();
  const data::Dataset text = data::load_dataset({}, o.block_size);
  const std::vector<Run> runs = {
      run(1, Sharing::averaged, o, text), run(2, Sharing::averaged, o, text),
      run(2, Sharing::summed, o, text), run(2, Sharing::only_rank_0, o, text)};
  const Run &alone = runs[0], &averaged = runs[1];
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
  lesson.answer(averaged.traffic.bytes_sent);
  for (std::size_t i = 1; i < runs.size(); ++i) {
    const int loss = first_off(runs[i].losses, alone.losses);
    const int norm = first_off(runs[i].norms, alone.norms);
    lesson.print(fmt::format("{:<11}  loss {:>2}  norm {:>2}", kNames[i], loss, norm));
    if (i == 1) lesson.claim(loss + norm == 0, "two ranks are one process");
    if (i == 2) lesson.answer(norm), lesson.answer(loss);
  }
  const lesson::Curve library = lesson::train(2, kSteps, o, text);
  lesson.claim(averaged.losses == library.losses, "losses equal the library's");
  lesson.claim(averaged.norms == library.norms, "norms equal the library's");
  lesson.picture(lesson::drawing({runs.begin() + 1, runs.end()}));
  return lesson.end("two ranks are one process; averaged by hand is no_shard to the bit");
}
