#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/rng.h"
#include "comm/counting.h"
#include "comm/local.h"
#include "frame/lesson.h"

// Lesson 04: reduce-scatter and all-gather round a ring of W ranks: their bytes, and the order in
// which they add.

namespace {

using namespace nanofsdp;
using Rows = std::vector<std::vector<float>>;  // what each rank holds
constexpr std::int64_t kN = 1'000'000;

//! [ring]
struct Ring {
  explicit Ring(Rows ranks) : rows(std::move(ranks)), bytes_sent(rows.size()) {}
  Rows rows;                             // one for each rank
  std::vector<std::int64_t> bytes_sent;  // by each rank

  int size() const { return static_cast<int>(rows.size()); }
  int wrap(int i) const { return (i + 2 * size()) % size(); }  // rank W is rank 0 again
  std::span<float> chunk(int rank, int c) {                    // one W-th of a row
    const std::size_t length = rows[0].size() / rows.size();
    return std::span(rows[wrap(rank)]).subspan(wrap(c) * length, length);
  }
  std::span<const float> send(int from, int c) {  // what the next rank gets to read
    bytes_sent[from] += static_cast<std::int64_t>(chunk(from, c).size_bytes());
    return chunk(from, c);
  }
};
//! [ring]

//! [reduce_scatter]
void reduce_scatter_step(Ring& ring, int step) {
  for (int rank = 0; rank < ring.size(); ++rank) {
    const int c = rank - 1 - step;  // chunk c sets out from rank c + 1 and ends at rank c
    const std::span<const float> came = ring.send(rank, c);
    const std::span<float> mine = ring.chunk(rank + 1, c);
    for (std::size_t i = 0; i < mine.size(); ++i) mine[i] += came[i];
  }
}
//! [reduce_scatter]

//! [all_gather]
void all_gather_step(Ring& ring, int step) {
  for (int rank = 0; rank < ring.size(); ++rank) {
    const int c = rank - step;  // first its own chunk, then the one that came last
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

bool operator==(const Ring& a, const Ring& b) {
  return a.rows == b.rows && a.bytes_sent == b.bytes_sent;
}

// W rows of normal random numbers; whole: of integers, whose sums are exact in any order.
Rows random_rows(int W, bool whole) {
  Rows rows(W, std::vector<float>(kN));
  Generator generator(1337);
  for (std::vector<float>& row : rows) {
    generator.normal(row, 0, 1);
    for (float& x : row) x = whole ? std::floor(1000 * x) : x;
  }
  return rows;
}

// A collective of src/comm, in place as ours is, on W ranks that are threads.
template <class Collective>
Ring by_library(Ring ring, const Collective& collective) {
  comm::launch_threads(ring.size(), 1, [&](Context& context, auto world) {
    comm::CountingCommunicator counting(std::move(world));
    const Tensor row(ring.rows[context.rank].data(), {kN});
    const Tensor own = row.slice(context.rank * kN / ring.size(), kN / ring.size());
    collective(counting, *context.compute, row, own);
    ring.bytes_sent[context.rank] = counting.traffic().bytes_sent;
  });
  return ring;
}

// After a reduce-scatter: how many sums of chunk c, which rank c owns, are not those of `row`.
std::int64_t differing(Ring ring, int c, const std::vector<float>& row) {
  const std::span<const float> sums = ring.chunk(c, c);
  std::int64_t count = 0;
  for (std::size_t i = 0; i < sums.size(); ++i) count += sums[i] != row[c * sums.size() + i];
  return count;
}

// Everything at one W, by hand and by the library.
std::string compare(lesson::Lesson& lesson, int W, bool whole) {
  const Rows rows = random_rows(W, whole);
  const std::vector<float> in_order = sum_in_rank_order(rows);
  const Ring gathered = after(Ring(rows), all_gather_step);
  const Ring reduced = after(Ring(rows), reduce_scatter_step);
  const Ring both = after(reduced, all_gather_step);
  const Ring gathered_there = by_library(
      Ring(rows), [](auto& world, auto& s, auto row, auto own) { world.all_gather(s, own, row); });
  const Ring reduced_there = by_library(Ring(rows), [](auto& world, auto& s, auto row, auto own) {
    world.reduce_scatter(s, row, own, comm::ReduceOp::sum);
  });
  const Ring both_there = by_library(Ring(rows), [](auto& world, auto& s, auto row, auto) {
    world.all_reduce(s, row, comm::ReduceOp::sum);
  });
  for (int c = 0; c < W; ++c) lesson.claim(differing(reduced_there, c, in_order) == 0, "in order");
  lesson.claim(both_there.rows == Rows(W, in_order), "every rank gets the sum in rank order");
  lesson.claim(gathered == gathered_there, "the all-gathers agree, in rows and bytes");
  lesson.claim(!(whole || W == 2) || both == both_there, "so do the all-reduces, of integers");
  lesson.claim(reduced.bytes_sent == reduced_there.bytes_sent, "bytes of the reduce-scatters");
  lesson.claim(both.bytes_sent == std::vector(W, 8 * kN * (W - 1) / W), "bytes of the formula");
  return fmt::format("W = {}: reduce-scatter {}, all-gather {}, all-reduce {}", W,
                     reduced.bytes_sent[0], gathered.bytes_sent[0], both.bytes_sent[0]);
}

// How many ranks' numbers are in each sum, at the start and after each step.
lesson::Svg drawing() {
  const std::string_view fills[] = {lesson::colour::grey, lesson::colour::blue,
                                    lesson::colour::orange, lesson::colour::green};
  lesson::Svg svg(700, 145);
  svg.text(151, 22, "reduce-scatter: sums grow");
  svg.text(424, 22, "all-gather: finished sums travel");
  Ring ring(Rows(4, std::vector<float>(4, 1)));
  for (int step = 0; step <= 6; ++step) {
    if (step > 0) (step <= 3 ? reduce_scatter_step : all_gather_step)(ring, (step - 1) % 3);
    svg.text(75 + 91 * step, 135, step == 0 ? "start" : fmt::format("step {}", step));
    for (int i = 0; i < 16; ++i) {
      const int rank = i / 4, x = 60 + 91 * step + 20 * (i % 4), y = 35 + 20 * rank;
      const int summed = static_cast<int>(ring.rows[rank][i % 4]);
      if (step == 0 && i % 4 == 0) svg.text(8, y + 15, fmt::format("rank {}", rank));
      svg.rect(x, y, 20, 20, fills[summed - 1]);
      svg.text(x + 6, y + 15, std::to_string(summed));
    }
  }
  return svg;
}

}  // namespace

int main(int argc, char** argv) {
  lesson::Lesson lesson(argc, argv);
  lesson.print(fmt::format("bytes that each rank sends, n = {} floats", kN));
  for (const int W : {2, 4, 8}) lesson.print(compare(lesson, W, false));
  for (const int W : {2, 4, 8}) compare(lesson, W, true);

  lesson.print("the ring's sums beside those in rank order, W = 4");
  const Ring ring = after(Ring(random_rows(4, false)), reduce_scatter_step);
  const std::vector<float> in_order = sum_in_rank_order(random_rows(4, false));
  int same = 0;
  for (int c = 0; c < 4; ++c) {
    const std::int64_t differ = differing(ring, c, in_order);
    lesson.print(fmt::format("chunk {}, added {} {} {} {}: {} of {} elements differ", c,
                             (c + 1) % 4, (c + 2) % 4, (c + 3) % 4, c, differ, kN / 4));
    same += differ == 0;
  }
  lesson.answer(ring.bytes_sent[0]);
  lesson.answer(after(ring, all_gather_step).bytes_sent[0]);
  lesson.answer(same);
  lesson.picture(drawing());
  return lesson.end("ring and src/comm send the same bytes; integers get the same sums");
}
