#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "nccl/collective_checks.h"
#include "nccl/gpu.h"
#include "support/ranks.h"

// Measures the time that a collective over NCCL costs the host. The test expects no time: it prints
// the times for people.

namespace nanofsdp::testing {
namespace {

using comm::Communicator;
using comm::ReduceOp;

constexpr int kRounds = 30;

struct Times {
  std::vector<double> issue;  // until the call returns
  std::vector<double> order;  // until another stream waits for it, too
};

// The microseconds of each round, while the device has no other work.
template <class Call>
Times measure(Context& context, Communicator& world, const Call& call) {
  Times times;
  for (int i = -3; i < kRounds; ++i) {
    world.barrier(*context.reduce).synchronize();
    const double begin = now_seconds();
    const Event event = call();
    const double issued = now_seconds();
    context.compute->wait(event);
    const double ordered = now_seconds();
    context.compute->synchronize();
    if (i < 0) continue;  // the first rounds connect the ranks
    times.issue.push_back(1e6 * (issued - begin));
    times.order.push_back(1e6 * (ordered - begin));
  }
  return times;
}

void print(const std::string& what, Times times) {
  std::ranges::sort(times.issue);
  std::ranges::sort(times.order);
  std::printf("host time of %-28s %6.1f us to issue, %6.1f us until another stream waits for it\n",
              what.c_str(), times.issue[kRounds / 2], times.order[kRounds / 2]);
  std::fflush(stdout);
}

void print_all(Context& context, Communicator& world, comm::Reduction reduction) {
  constexpr std::int64_t n = 1 << 18;
  const bool ring = reduction == comm::Reduction::ring;
  const OnDevice<float> x(context, std::vector<float>(static_cast<std::size_t>(n * world.size())));
  const Tensor whole = x.tensor(), mine = whole.slice(world.rank() * n, n);
  Stream& stream = *context.reduce;
  const auto gathered =
      measure(context, world, [&] { return world.all_gather(stream, mine, whole); });
  const auto reduced = measure(
      context, world, [&] { return world.reduce_scatter(stream, whole, mine, ReduceOp::sum); });
  const auto both =
      measure(context, world, [&] { return world.all_reduce(stream, whole, ReduceOp::sum); });
  if (world.rank() != 0) return;
  if (!ring) print("all_gather", gathered);
  print(ring ? "reduce_scatter on the ring" : "reduce_scatter, ordered", reduced);
  print(ring ? "all_reduce on the ring" : "all_reduce, ordered", both);
}

TEST(HostTimeOnOneGpu, OfEachCollectiveIsPrinted) {
  const std::string problem = why_no_gpu();
  if (!problem.empty()) GTEST_SKIP() << problem;
  for (const auto reduction : {comm::Reduction::ordered, comm::Reduction::ring}) {
    run_ranks(Backend::nccl, 2,
              [=](Context& context, Communicator& world) { print_all(context, world, reduction); },
              {.reduction = reduction});
  }
}

}  // namespace
}  // namespace nanofsdp::testing
