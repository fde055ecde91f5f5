#include <fmt/ranges.h>

#include <exception>
#include <string>
#include <vector>

#include "comm/local.h"
#include "frame/exercise.h"
#include "replicate_exercise.h"

namespace {

using namespace nanofsdp;

// Eight rows, so that every share is exact in binary.
const std::vector<std::vector<std::int64_t>> kShares = {
    {8}, {3, 5}, {4, 4}, {2, 3, 3}, {1, 1, 2, 4}};

// Rank r's gradient: 1, 2, 3, ... times r + 1.
std::vector<float> gradient_of(int rank, int n) {
  std::vector<float> gradient;
  for (int i = 1; i <= n; ++i) gradient.push_back(static_cast<float>(i * (rank + 1)));
  return gradient;
}

// Each rank's gradient in the end; or, if a rank failed, its error.
std::vector<std::string> run(const std::vector<std::int64_t>& rows, int n) {
  const int W = static_cast<int>(rows.size());
  std::vector<std::string> results(rows.size());
  try {
    comm::launch_threads(W, 1, [&](Context& context, auto world) {
      std::vector<float> gradient = gradient_of(context.rank, n);
      share_gradient(*context.compute, *world, gradient, rows[context.rank], 8);
      results[context.rank] = fmt::format("{}", gradient);
    });
  } catch (const std::exception& e) {
    results[0] = e.what();
  }
  return results;
}

std::string specified(const std::vector<std::int64_t>& rows, int n) {
  std::vector<float> mean(n);
  for (std::size_t rank = 0; rank < rows.size(); ++rank) {
    const std::vector<float> theirs = gradient_of(static_cast<int>(rank), n);
    for (int i = 0; i < n; ++i) mean[i] += theirs[i] * static_cast<float>(rows[rank]) / 8;
  }
  return fmt::format("{}", mean);
}

}  // namespace

// One to four ranks, equal and unequal shares, gradients of 0 to 5 numbers.
int main() {
  lesson::Exercise exercise("share_gradient");
  for (const std::vector<std::int64_t>& rows : kShares) {
    for (int n = 0; n <= 5; ++n) {
      const std::vector<std::string> yours = run(rows, n);
      for (std::size_t rank = 0; rank < rows.size(); ++rank) {
        if (!exercise.expect(yours[rank], specified(rows, n), "rows {}, {} numbers, rank {}", rows,
                             n, rank)) {
          return exercise.end();
        }
      }
    }
  }
  return exercise.end();
}
