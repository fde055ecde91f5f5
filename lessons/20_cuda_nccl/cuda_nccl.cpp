#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <utility>
#include <vector>

#include "base/cuda.h"
#include "comm/local.h"
#include "comm/nccl.h"
#include "frame/lesson.h"
#include "launch/launch.h"
#include "rows.h"
#include "train/trainer.h"

// Lesson 20: lesson 02's operator as the threads of a GPU compute it, and a training whose ranks
// communicate through NCCL. Without a GPU the program says so on stderr; stdout is the same.

namespace {

using namespace nanofsdp;
using Floats = std::vector<float>;
constexpr int kWarp = 32, kSteps = 3;

//! [warp_sum]
// One round, for all threads (lanes) of a warp at once. Thread i adds the number of thread i ^ bit:
// the one whose number differs from i in this bit.
void add_across(Floats& lanes, int bit) {
  const Floats before = lanes;
  for (std::size_t i = 0; i < lanes.size(); ++i) lanes[i] += before[i ^ bit];
}

// term(0) + ... + term(n - 1) by a warp: lane i adds up term(i), term(i + 32), term(i + 64), ...
// Then five rounds give every lane the sum of all terms.
template <class Term>
float warp_sum(int n, const Term& term) {
  Floats lanes(kWarp);
  for (int i = 0; i < n; ++i) lanes[i % kWarp] += term(i);
  for (int bit = kWarp / 2; bit > 0; bit /= 2) add_across(lanes, bit);
  return lanes[0];
}
//! [warp_sum]

//! [row]
// Lesson 02's backward of one row, as a warp computes it.
void backward_row(const float* dy, const float* x, const float* weight, float mean, float rstd,
                  float* dx, int n) {
  const auto g = [=](int i) { return dy[i] * weight[i]; };
  const auto normal = [=](int i) { return (x[i] - mean) * rstd; };
  const float mean_g = warp_sum(n, g) / n;
  const float mean_gn = warp_sum(n, [=](int i) { return g(i) * normal(i); }) / n;
  for (int i = 0; i < n; ++i) dx[i] = rstd * (g(i) - mean_g - normal(i) * mean_gn);
}
//! [row]

//! [train]
// The last loss of a few steps, and the bytes of one: on any device, over any communicator.
struct Seen {
  double loss = 0;
  std::int64_t bytes = 0;  // that the rank sends in one step
};

Seen train_here(Context& context, std::unique_ptr<comm::Communicator> world,
                const train::TrainerOptions& o, const data::Dataset& text) {
  train::Trainer trainer(context, std::move(world), o, text);
  Seen seen;
  for (int step = 0; step < kSteps; ++step) seen.loss = trainer.step(step).loss;
  seen.bytes = trainer.mesh().traffic().bytes_sent / kSteps;
  return seen;
}
//! [train]

// The same training in processes, which share the GPU if there is only one. Rank 0 throws if the
// loss or the bytes are not those of the CPU.
launch::Outcome over_nccl(int ranks, Seen cpu, const train::TrainerOptions& o,
                          const data::Dataset& text) {
  return launch::run_processes(ranks, [&](launch::Store& store) {
    if constexpr (kCuda) {
      //! [connect]
      Context context(store.rank(), ranks, /*threads=*/1, Device::cuda);
      auto world = comm::make_nccl(context, store, {.share_gpu = true});
      //! [connect]
      const Seen gpu = train_here(context, std::move(world), o, text);
      const bool same = gpu.bytes == cpu.bytes && std::abs(gpu.loss / cpu.loss - 1) < 1e-5;
      if (same || store.rank() > 0) return;
      throw std::runtime_error(fmt::format("loss {}, {} bytes", gpu.loss, gpu.bytes));
    }
  });
}

// The number of each lane before the first round and after each, for a warp of 8.
lesson::Svg drawing() {
  lesson::Svg svg(460, 330);
  svg.text(230, 20, "A warp of 8 threads adds up 1 to 8", lesson::Svg::At::middle);
  Floats lanes(8);
  std::iota(lanes.begin(), lanes.end(), 1.0f);
  for (int round = 0; round < 4; ++round) {
    const int bit = 8 >> round;
    if (round > 0) add_across(lanes, bit);
    for (int i = 0; i < 8; ++i) lesson::draw_lane(svg, round, i, i ^ bit, lanes[i]);
  }
  svg.text(230, 315, "after 3 rounds every thread has the sum, 36", lesson::Svg::At::middle);
  return svg;
}

}  // namespace

int main(int argc, char** argv) {
  lesson::Lesson lesson(argc, argv);
  lesson.print("layer norm                  blocks  threads of each   bytes there and back");
  for (const auto& [rows, n] : {std::pair{768, 128}, std::pair{65536, 768}}) {
    const int threads = kWarp * std::min(8, (n + 255) / 256);  // eight columns to a thread
    lesson.print(fmt::format("  {:>5} rows of {:>3}{:>15}{:>17}{:>23}", rows, n, rows, threads,
                             std::int64_t{8} * rows * n));
    if (n == 768) lesson.answer(std::countr_zero(unsigned{kWarp})), lesson.answer(threads);
  }
  lesson.claim(lesson::furthest(768, 128, backward_row) < 1e-5, "dx by a warp is the library's");

  Floats x(50304);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = 1 / static_cast<float>(i + 1);
  const double truth = std::accumulate(x.begin(), x.end(), 0.0);
  const float forth = std::accumulate(x.begin(), x.end(), 0.0f);
  const float back = std::accumulate(x.rbegin(), x.rend(), 0.0f);
  const float warp = warp_sum(static_cast<int>(x.size()), [&](int i) { return x[i]; });
  lesson.print("1 + 1/2 + ... + 1/50304 in float32, units of the last place from the truth");
  lesson.print(fmt::format("  from the first on {}, from the last on {}, by a warp {}",
                           lesson::units(forth, truth), lesson::units(back, truth),
                           lesson::units(warp, truth)));

  const train::TrainerOptions o;
  const data::Dataset text = data::load_dataset({});
  lesson.print("ranks   loss of step 3   bytes that one sends in a step");
  Seen seen;
  for (const int ranks : {1, 2, 4}) {
    comm::launch_threads(ranks, 1, [&](Context& context, auto world) {
      const Seen mine = train_here(context, std::move(world), o, text);
      if (context.rank == 0) seen = mine;
    });
    lesson.print(fmt::format("{:>5}{:>17.4f}{:>33}", ranks, seen.loss, seen.bytes));
  }
  lesson.claim(seen.bytes == 4 * (3 * 802432 - 14976) * 3 / 4, "bytes by lesson 18's formula");
  lesson.answer(seen.bytes);
  std::string gpu = why_not(Device::cuda);
  if (gpu.empty()) {
    const launch::Outcome outcome = over_nccl(4, seen, o, text);
    lesson.claim(outcome.exit_code == 0, "a GPU, over NCCL, gives the same: " + outcome.message);
    gpu = "they have run";
  }
  fmt::print(stderr, "4 ranks on a GPU, over NCCL: {}\n", gpu);
  lesson.picture(drawing());
  return lesson.end("a warp's dx is the library's within 1e-5, and the bytes are the formula's");
}
