#include "two_dimensions_exercise.h"

#include <barrier>
#include <cmath>
#include <random>
#include <string>
#include <thread>

#include "frame/exercise.h"

namespace {

using Row = std::vector<float>;

// The ranks of a tensor group, as threads. Each sum adds the ranks in order. Ranks that do not call
// as often as others do not come, and then a sum has no addend of theirs.
class Group {
 public:
  explicit Group(int T) : here_(T), rows_(static_cast<std::size_t>(T)) {}

  /// Calls `body` on each rank, with its function that adds up.
  template <class Body>
  void run(const Body& body) {
    std::vector<std::thread> ranks;
    for (std::size_t rank = 0; rank < rows_.size(); ++rank) {
      ranks.emplace_back([&, rank] {
        body(static_cast<int>(rank), [&, rank](Row& row) { add_up(rank, row); });
        rows_[rank].clear();
        here_.arrive_and_drop();
      });
    }
    for (std::thread& rank : ranks) rank.join();
  }
  int calls = 0;          // rank 0's
  std::int64_t sent = 0;  // elements of rank 0's calls

 private:
  void add_up(std::size_t rank, Row& row) {
    if (rank == 0) ++calls, sent += static_cast<std::int64_t>(row.size());
    rows_[rank] = row;
    here_.arrive_and_wait();
    Row sum(row.size());
    for (const Row& other : rows_) {
      for (std::size_t e = 0; e < std::min(sum.size(), other.size()); ++e) sum[e] += other[e];
    }
    here_.arrive_and_wait();
    row = sum;
  }

  std::barrier<> here_;
  std::vector<Row> rows_;
};

// Small whole numbers, so that every order of additions gives the same bits.
Row draw(std::mt19937& random, int n) {
  Row row(static_cast<std::size_t>(n));
  for (float& x : row) x = static_cast<float>(random() % 7) - 3;
  return row;
}

// A and B of one rank, out of the whole ones.
Parts part_of(const Parts& whole, int rank, int T) {
  Parts part{whole.in, whole.hidden / T, whole.out, {}, {}};
  for (int h = rank * part.hidden; h < (rank + 1) * part.hidden; ++h) {
    for (int i = 0; i < part.in; ++i) part.A.push_back(whole.A[h * part.in + i]);
  }
  for (int o = 0; o < part.out; ++o) {
    for (int h = rank * part.hidden; h < (rank + 1) * part.hidden; ++h) {
      part.B.push_back(whole.B[o * whole.hidden + h]);
    }
  }
  return part;
}

// The specification: the whole matrices on one rank.
Row forward_of(const Parts& whole, const Row& x) {
  Row z(static_cast<std::size_t>(whole.out));
  for (int h = 0; h < whole.hidden; ++h) {
    float y = 0;
    for (int i = 0; i < whole.in; ++i) y += whole.A[h * whole.in + i] * x[i];
    for (int o = 0; o < whole.out; ++o) z[o] += whole.B[o * whole.hidden + h] * y;
  }
  return z;
}

Row backward_of(const Parts& whole, const Row& dz) {
  Row dx(static_cast<std::size_t>(whole.in));
  for (int h = 0; h < whole.hidden; ++h) {
    float dy = 0;
    for (int o = 0; o < whole.out; ++o) dy += whole.B[o * whole.hidden + h] * dz[o];
    for (int i = 0; i < whole.in; ++i) dx[i] += whole.A[h * whole.in + i] * dy;
  }
  return dx;
}

}  // namespace

int main() {
  lesson::Exercise exercise("forward, backward and bytes_sent");
  std::mt19937 random(lesson::seed(26));
  const auto one_of = [&](int most) { return 1 + static_cast<int>(random() % most); };
  for (int round = 0; round < 60; ++round) {
    const int T = round < 2 ? 2 - round : one_of(4);
    Parts whole{one_of(4), T * one_of(3), one_of(4), {}, {}};
    whole.A = draw(random, whole.hidden * whole.in);
    whole.B = draw(random, whole.out * whole.hidden);
    const Row x = draw(random, whole.in), dz = draw(random, whole.out);
    for (const bool back : {false, true}) {
      const Row want = back ? backward_of(whole, dz) : forward_of(whole, x);
      const std::string name = back ? "backward" : "forward";
      std::vector<Row> yours(static_cast<std::size_t>(T));
      Group group(T);
      group.run([&](int rank, const AddUp& add_up) {
        const Parts part = part_of(whole, rank, T);
        yours[rank] = back ? backward(part, dz, add_up) : forward(part, x, add_up);
      });
      for (int rank = 0; rank < T; ++rank) {
        exercise.expect(std::ssize(yours[rank]), std::ssize(want),
                        "the length of {} on rank {} of {}", name, rank, T);
        for (std::size_t e = 0; e < std::min(want.size(), yours[rank].size()); ++e) {
          exercise.expect(yours[rank][e], want[e],
                          "element {} of {} on rank {} of {}, in = {}, hidden = {}, out = {}", e,
                          name, rank, T, whole.in, whole.hidden / T, whole.out);
        }
      }
      const std::int64_t needed = back ? whole.in : whole.out;
      exercise.expect(group.sent, needed, "elements that {} adds up on rank 0 of {}", name, T);
    }
  }
  for (int round = 0; round < 60; ++round) {
    const std::int64_t T = round == 0 ? 2 : one_of(8), C = T * one_of(64), n = T * one_of(64);
    const std::int64_t all = n * C * 4 / T * (T - 1), vectors = 2 * C * 4 / T * (T - 1);
    exercise.expect(bytes_sent(n, C, T, false), 8 * all, "bytes_sent({}, {}, {}, false)", n, C, T);
    exercise.expect(bytes_sent(n, C, T, true), 10 * all + 2 * vectors,
                    "bytes_sent({}, {}, {}, true)", n, C, T);
  }
  return exercise.end();
}
