#include "comm/local.h"

#include <exception>
#include <future>
#include <numeric>
#include <string>
#include <utility>

#include "base/check.h"
#include "comm/reading.h"

namespace nanofsdp::comm {
std::vector<std::unique_ptr<Communicator>> make_local_group(int world_size,
                                                            const LocalOptions& options) {
  NANOFSDP_CHECK(world_size >= 1, .what = "local group", .expected = "at least 1 rank",
                 .got = std::to_string(world_size));
  auto run = std::make_shared<RunState>(options.timeout);
  run->link = options.link;
  run->sharers.resize(static_cast<std::size_t>(world_size));
  std::iota(run->sharers.begin(), run->sharers.end(), 0);
  GroupSpec spec{.members = run->sharers};
  for (int rank = 0; rank < world_size; ++rank) spec.slots.push_back(take_slot(*run));
  std::vector<std::unique_ptr<Communicator>> ranks;
  for (; spec.rank < world_size; ++spec.rank)
    ranks.push_back(on_streams(make_reading_group(run, spec)));
  return ranks;
}

std::unique_ptr<Communicator> make_self() { return std::move(make_local_group(1).front()); }

void launch_threads(int world_size, int threads,
                    const std::function<void(Context&, std::unique_ptr<Communicator>)>& body,
                    const LocalOptions& options) {
  std::vector<std::future<void>> ranks;
  // If a thread cannot be started, this group ends first, which tells the ranks that have started.
  auto group = make_local_group(world_size, options);
  ranks.resize(group.size());
  for (int rank = 0; rank < world_size; ++rank) {
    ranks[rank] =
        std::async(std::launch::async, [&, rank, given = std::move(group[rank])]() mutable {
          // A rank that throws destroys its communicator, which tells the ranks that wait for it.
          auto comm = std::move(given);
          Context context(rank, world_size, threads, options.device, /*local_rank=*/0);
          body(context, std::move(comm));
        });
  }
  // Each is the error of the lowest rank that has one, because that rank is asked last.
  std::exception_ptr cause, consequence;
  for (auto rank = ranks.rbegin(); rank != ranks.rend(); ++rank) {
    try {
      rank->get();
    } catch (const CommError& e) {
      (e.consequence ? consequence : cause) = std::current_exception();
    } catch (...) {
      cause = std::current_exception();
    }
  }
  if (cause || consequence) std::rethrow_exception(cause ? cause : consequence);
}

}  // namespace nanofsdp::comm
