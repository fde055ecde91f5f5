#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <thread>
#include <vector>

#include "comm/rank_data.h"
#include "comm/reading.h"
#include "support/ranks.h"

// A program that makes groups for ever must not grow: a slot is given back when all ranks of its
// group have gone.

namespace nanofsdp::testing {
namespace {

using comm::Communicator;
using namespace std::chrono_literals;

// Makes a group, a group inside it, and calls whose operands are copied to their slots.
void make_groups(Context& context, Communicator& world) {
  const auto group = world.split(0), pair = group->split(group->rank() / 2);
  std::vector<float> mine(1'000), all(static_cast<std::size_t>(1'000 * pair->size()));
  pair->all_gather(*context.compute, view(mine), view(all));
}

TEST(Slots, OfThreadsGoWithTheirGroups) {
  constexpr int kRanks = 3;
  const auto run = std::make_shared<comm::RunState>(10s);
  run->sharers = {0, 1, 2};
  comm::GroupSpec spec{.members = run->sharers};
  for (int rank = 0; rank < kRanks; ++rank) spec.slots.push_back(take_slot(*run));
  std::vector<std::thread> ranks;
  for (; spec.rank < kRanks; ++spec.rank) {
    ranks.emplace_back([&, spec] {
      Context context(spec.rank, kRanks);
      const auto world = comm::on_streams(comm::make_reading_group(run, spec));
      for (int i = 0; i < 200; ++i) make_groups(context, *world);
    });
  }
  for (std::thread& rank : ranks) rank.join();
  // There are the slots of the world and of the last groups, and at most those of a rank that was
  // ahead.
  EXPECT_LE(run->slots.size(), 5u * kRanks);
}

// The bytes of mapped files that this process has in memory.
std::int64_t resident_in_files() {
  std::int64_t all = 0, resident = 0, files = 0;
  std::ifstream("/proc/self/statm") >> all >> resident >> files;
  return files * 4096;
}

TEST(Slots, OfProcessesGoWithTheirGroups) {
#ifdef NANOFSDP_TSAN
  GTEST_SKIP() << "the thread sanitizer does not see other processes";
#endif
  run_ranks(Backend::shared, 3, [](Context& context, Communicator& world) {
    // The first gap that is large enough for a slot begins here.
    const auto gap = [&] {
      const Buffer room = context.buffer(MemoryClass::communication, 1 << 16);
      return context.shared->offset_of(room.tensor({0}).raw());
    };
    for (int i = 0; i < 10; ++i) make_groups(context, world);
    const auto first_gap = gap();
    const std::int64_t before = resident_in_files();
    for (int i = 0; i < 200; ++i) make_groups(context, world);
    EXPECT_LE(gap(), first_gap + (1 << 20));
    EXPECT_LE(resident_in_files(), before + (1 << 20));
  });
}

}  // namespace
}  // namespace nanofsdp::testing
