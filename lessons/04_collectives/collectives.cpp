#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "comm/local.h"
#include "frame/lesson.h"
#include "picture.h"

// Lesson 04: reduce-scatter and all-gather on a ring of W ranks: how many bytes they send, and in
// which order they add.

namespace {

using namespace nanofsdp;
using Rows = std::vector<std::vector<float>>;  // one row for each rank
constexpr std::int64_t kN = 1'000'000;

//! [ring]
struct Ring {
  explicit Ring(Rows ranks) : rows(std::move(ranks)), bytes_sent(rows.size()) {}
  Rows rows;                             // one for each rank
  std::vector<std::int64_t> bytes_sent;  // by each rank

  bool operator==(const Ring&) const = default;
  int size() const { return static_cast<int>(rows.size()); }
  int wrap(int i) const { return (i + 2 * size()) % size(); }  // rank W is rank 0 again
  std::span<float> chunk(int rank, int c) {                    // one W-th of a row
    const std::size_t length = rows[0].size() / rows.size();
    return std::span(rows[wrap(rank)]).subspan(wrap(c) * length, length);
  }
  std::span<const float> send(int from, int c) {  // the next rank reads what is returned
    bytes_sent[from] += static_cast<std::int64_t>(chunk(from, c).size_bytes());
    return chunk(from, c);
  }
};
//! [ring]

//! [reduce_scatter]
void reduce_scatter_step(Ring& ring, int step) {
  for (int rank = 0; rank < ring.size(); ++rank) {
    const int c = rank - 1 - step;  // chunk c starts at rank c + 1 and ends at rank c
    const std::span<const float> came = ring.send(rank, c);
    const std::span<float> mine = ring.chunk(rank + 1, c);
    for (std::size_t i = 0; i < mine.size(); ++i) mine[i] += came[i];
  }
}
//! [reduce_scatter]

//! [all_gather]
void all_gather_step(Ring& ring, int step) {
  for (int rank = 0; rank < ring.size(); ++rank) {
    const int c = rank - step;  // first its own chunk, then the one it received last
    std::ranges::copy(ring.send(rank, c), ring.chunk(rank + 1, c).begin());
  }
}
//! [all_gather]

//! [steps]
Ring after(Ring ring, void (*step)(Ring&, int)) {
  for (int s = 0; s < ring.size() - 1; ++s) step(ring, s);
  return ring;
}
//! [steps]

//! [rank_order]
std::vector<float> sum_in_rank_order(const Rows& rows) {
  std::vector<float> sum = rows[0];
  for (std::size_t rank = 1; rank < rows.size(); ++rank) {
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += rows[rank][i];
  }
  return sum;
}
//! [rank_order]

// W rows of random numbers. With `whole` these are integers, whose sums are exact in any order.
Rows random_rows(int W, bool whole) {
  Rows rows(W, std::vector<float>(kN));
  Generator generator(1337);
  for (std::vector<float>& row : rows) {
    generator.normal(row, 0, 1);
    for (float& x : row) x = whole ? std::floor(1000 * x) : x;
  }
  return rows;
}

// The two collectives of src/comm on W ranks, which are threads; in place, as ours are.
Ring by_library(Ring ring) {
  comm::launch_threads(ring.size(), 1, [&](Context& context, auto group) {
    comm::Communicator& world = *group;
    const Tensor row(ring.rows[context.rank].data(), {kN});
    const Tensor own = row.slice(context.rank * kN / ring.size(), kN / ring.size());
    world.reduce_scatter(*context.compute, row, own, comm::ReduceOp::sum);
    world.all_gather(*context.compute, own, row);
    ring.bytes_sent[context.rank] = world.traffic().bytes_sent;
  });
  return ring;
}

// Four ranks of four ones each: every number is then how many ranks are in its sum.
std::vector<lesson::Counts> counted() {
  std::vector<lesson::Counts> states;
  Ring ring(Rows(4, std::vector<float>(4, 1)));
  for (int step = 0; step <= 6; ++step) {
    if (step > 0) (step <= 3 ? reduce_scatter_step : all_gather_step)(ring, (step - 1) % 3);
    lesson::Counts& counts = states.emplace_back();
    for (const std::vector<float>& row : ring.rows) counts.emplace_back(row.begin(), row.end());
  }
  return states;
}

}  // namespace

int main(int argc, char** argv) {
  lesson::Lesson lesson(argc, argv);
  lesson.print(fmt::format("bytes that each rank sends, n = {} floats", kN));
  for (const int W : {2, 4, 8}) {
    const Ring start(random_rows(W, /*whole=*/true)), gathered = after(start, all_gather_step);
    const Ring reduced = after(start, reduce_scatter_step), both = after(reduced, all_gather_step);
    lesson.claim(both == by_library(start) && both.bytes_sent[0] == 8 * kN * (W - 1) / W, "ring");
    lesson.print(fmt::format("W = {}: reduce-scatter {}, all-gather {}, all-reduce {}", W,
                             reduced.bytes_sent[0], gathered.bytes_sent[0], both.bytes_sent[0]));
  }
  lesson.print("the ring's sums beside those in rank order, W = 4");
  const Rows rows = random_rows(4, /*whole=*/false);
  const std::vector<float> in_order = sum_in_rank_order(rows);
  lesson.claim(by_library(Ring(rows)).rows == Rows(4, in_order), "the library adds in rank order");
  Ring ring = after(Ring(rows), reduce_scatter_step);
  std::int64_t same = 0;
  for (int c = 0; c < 4; ++c) {
    std::int64_t differ = 0;  // number of different sums among those that rank c owns
    for (int i = 0; i < kN / 4; ++i) differ += ring.chunk(c, c)[i] != in_order[c * kN / 4 + i];
    same += differ == 0;
    lesson.print(fmt::format("chunk {}, added {} {} {} {}: {} of {} elements differ", c,
                             (c + 1) % 4, (c + 2) % 4, (c + 3) % 4, c, differ, kN / 4));
  }
  const Ring both = after(ring, all_gather_step);
  for (const std::int64_t n : {ring.bytes_sent[0], both.bytes_sent[0], same}) lesson.answer(n);
  lesson.picture(lesson::drawing(counted()));
  return lesson.end("ring and src/comm send the same bytes; integers get the same sums");
}
