#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "comm/communicator.h"
#include "frame/lesson.h"
#include "library.h"

// Lesson 16: one gradient from several micro-batches on several ranks, divided once; and its norm,
// computed from shards.

namespace {

using namespace nanofsdp;

//! [reduce_into]
enum class Scaled { bucket, shard };  // to scale the shard is the bug

// Averages the row of gradients over ranks, and adds this rank's piece to its shard.
void reduce_into(Context& context, comm::Communicator& world, Tensor row, std::span<float> shard,
                 Scaled scaled = Scaled::bucket) {
  std::vector<float> bucket(shard.size());  // for the sum over ranks of this rank's piece
  const Tensor sum(bucket.data(), {row.numel() / world.size()});
  world.reduce_scatter(*context.compute, row, sum, comm::ReduceOp::sum);
  const float factor = 1.0f / static_cast<float>(world.size());
  for (float& x : scaled == Scaled::bucket ? std::span(bucket) : shard) x *= factor;
  for (std::size_t i = 0; i < shard.size(); ++i) shard[i] += bucket[i];
}
//! [reduce_into]

// Rank 0's shard after each of 4 micro-steps on 4 ranks. Every gradient is 1.
std::vector<float> ones(Scaled scaled) {
  std::vector<float> after;
  comm::launch_threads(4, 1, [&](Context& context, auto world) {
    std::vector<float> row(4, 1.0f), shard(1);
    for (int m = 0; m < 4; ++m) {
      reduce_into(context, *world, {row.data(), {4}}, shard, scaled);
      if (context.rank == 0) after.push_back(shard[0]);
    }
  });
  return after;
}

//! [squares]
double squares(const fsdp::Layout& layout, int rank, std::span<const float> shard) {
  double sum = 0;  // in float, adding 1 to 16777216 changes nothing
  for (std::size_t i = 0; i < layout.parameters().size(); ++i) {
    const fsdp::Range piece = layout.piece(i, rank).in_shard;  // without padding
    for (std::int64_t e = piece.begin; e < piece.end; ++e) {
      sum += static_cast<double>(shard[e]) * shard[e];
    }
  }
  return sum;
}
//! [squares]

// Each rank keeps the whole model, so that only gradients are communicated.
lesson::Gradient by_hand(bool no_sync) {
  lesson::Gradient result{.of_rank = std::vector<lesson::Shards>(lesson::kRanks)};
  std::vector<fsdp::Layout> layouts;
  comm::launch_threads(lesson::kRanks, 1, [&](Context& context, auto group) {
    comm::Communicator& world = *group;
    lesson::WholeRank rank(context);
    lesson::Shards& shards = result.of_rank[context.rank];
    for (auto& unit : rank.units) shards.emplace_back(unit.layout().shard_numel());
    //! [modes]
    for (int micro = 0; micro < lesson::kMicroSteps; ++micro) {
      const int first = (micro * world.size() + world.rank()) * lesson::kRowsOfARank;
      rank.backward(lesson::rows_of(first, lesson::kRowsOfARank));
      if (no_sync && micro + 1 < lesson::kMicroSteps) continue;  // add up unsharded gradients
      for (std::size_t u = 0; u < shards.size(); ++u) {
        const Tensor row = rank.units[u].gradient_storage();
        reduce_into(context, world, row, shards[u]);
        std::ranges::fill(row.span<float>(), 0.0f);
      }
    }
    //! [modes]
    if (context.rank != 0) return;
    result.traffic = world.traffic();
    layouts = rank.layouts();
  });
  //! [norm]
  double sum = 0;
  for (int rank = 0; rank < lesson::kRanks; ++rank) {
    for (std::size_t u = 0; u < layouts.size(); ++u) {
      sum += squares(layouts[u], rank, result.of_rank[rank][u]);
    }
  }
  const double norm = std::sqrt(sum);
  result.norm = static_cast<float>(norm);
  result.coefficient = static_cast<float>(std::min(1.0, 1.0 / (norm + 1e-6)));
  //! [norm]
  return result;
}

}  // namespace

int main(int argc, char** argv) {
  lesson::Lesson lesson(argc, argv);
  const std::vector<float> right = ones(Scaled::bucket), wrong = ones(Scaled::shard);
  lesson.print("4 ranks, gradients of 1: the shard after each micro-step");
  const auto line = [](auto& v) { return fmt::format("{} {} {} {}", v[0], v[1], v[2], v[3]); };
  lesson.print("bucket scaled  " + line(right));
  lesson.print("shard scaled   " + line(wrong));
  lesson.answer(static_cast<std::int64_t>(wrong[1]));

  lesson.print("3 ranks, 5 units   reduce-scatters   their bytes   all-gathers   unsharded bytes");
  for (const bool no_sync : {false, true}) {
    const lesson::Gradient mine = by_hand(no_sync), theirs = lesson::library({.no_sync = no_sync});
    lesson.print(fmt::format("{:<19}{:>15}{:>14}{:>14}{:>18}",
                             no_sync ? "no_sync" : "each micro-step", mine.traffic.reduce_scatters,
                             mine.traffic.bytes_sent, theirs.traffic.all_gathers,
                             theirs.whole_bytes));
    lesson.claim(mine.of_rank == theirs.of_rank, "the library's gradients");
    lesson.claim(mine.norm == theirs.norm, "the library's norm");
    lesson.claim(mine.coefficient == theirs.coefficient, "the library's coefficient");
    lesson.claim(mine.traffic.reduce_scatters == theirs.traffic.reduce_scatters, "as many of them");
    if (!no_sync) lesson.answer(theirs.traffic.reduce_scatters);
  }

  lesson.answer((12 * 2 + 4 * 6) / (12 + 4));

  lesson.print("gradient norm                      equal rows   unequal rows");
  const auto print = [&](const char* name, lesson::Setup setup) {
    std::array<lesson::Gradient, 2> gradients;
    for (auto& g : gradients) g = lesson::library(setup), setup.unequal = true;
    lesson.print(
        fmt::format("{:<35}{:>10.4f}{:>15.4f}", name, gradients[0].norm, gradients[1].norm));
    return gradients;
  };
  const auto one = print("one process, one batch", {.W = 1, .micro_steps = 1, .rows = 24});
  const auto four = print("one process, 4 micro-batches", {.W = 1});
  const auto tokens = print("3 ranks, divided by all tokens", {.reduction = comm::ReduceOp::sum});
  print("3 ranks, mean of means", {});
  for (const int i : {0, 1}) {
    lesson.claim(lesson::largest_difference(one[i], four[i]) < 1e-6,
                 "4 micro-batches are one batch");
    lesson.claim(std::abs(one[i].norm - tokens[i].norm) < 1e-6, "3 ranks are one process");
  }
  lesson.picture(lesson::drawing(right, wrong));
  return lesson.end("4 micro-batches on 3 ranks are one batch; by hand is the library to the bit");
}
