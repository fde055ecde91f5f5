#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "store/weights.h"
#include "store/weights_files.h"
#include "support/checkpoints.h"

// A collective call is over on every rank when it returns, even if the disk of one rank is slow. An
// error on one rank is an error on all.

namespace {
thread_local int slow_disk_ms = 0;  // delay of one rank, which may be a thread or a process
}

// Replaces the system's function in this program, because a save spends its time waiting for the
// disk.
extern "C" int fsync(int file) {
  if (slow_disk_ms > 0) std::this_thread::sleep_for(std::chrono::milliseconds(slow_disk_ms));
  return static_cast<int>(::syscall(SYS_fsync, file));
}

namespace nanofsdp::store {
namespace {

using namespace nanofsdp::testing;
using namespace std::chrono_literals;

class Together : public ::testing::TestWithParam<Backend> {
 protected:
  void TearDown() override { slow_disk_ms = 0; }

  // Runs three ranks. One of them has a slow disk.
  template <class Body>
  void on_three(int slow_rank, int disk_ms, const Body& body, RankOptions options = {}) {
    run_ranks(
        GetParam(), 3,
        [&](Context& context, std::unique_ptr<comm::Communicator> group) {
          TinyTraining t(context, std::move(group), {});
          slow_disk_ms = context.rank == slow_rank ? disk_ms : 0;
          body(t);
          slow_disk_ms = 0;
        },
        options);
  }
};
INSTANTIATE_TEST_SUITE_P(Ranks, Together, ::testing::ValuesIn(backends()),
                         [](const auto& info) { return name_of(info.param); });

TEST_P(Together, WhatIsSavedIsThereForEveryRankThatReturns) {
  for (int slow = 0; slow < 3; ++slow) {
    const TemporaryDirectory directory;
    const std::string o = directory.file("o");
    on_three(slow, 30, [&](TinyTraining& t) {
      for (std::int64_t i = 1; i <= 3; ++i) {
        save(t, o, i);
        EXPECT_EQ(read_manifest(o).metadata.at("iteration"), std::to_string(i));
        load(t, o);
        const std::string weights = directory.file("w"),
                          shards = directory.file("s" + std::to_string(i));
        if (t.mesh.rank() == 0) std::filesystem::create_directories(weights);
        save_weights(weights, t.sharded, {{"n", std::to_string(i)}});
        EXPECT_EQ(WeightsFiles(weights).metadata().at("n"), std::to_string(i));
        save_sharded_weights(shards, t.sharded, {});
        EXPECT_EQ(WeightsFiles(shards).tensors().size(), infos_of(t.sharded).size());
      }
    });
  }
}

// When loading returns on one rank, that rank may replace the files, because all ranks have read
// them.
TEST_P(Together, WhatIsLoadedMayBeReplacedByWhoeverReturns) {
  const TemporaryDirectory directory;
  on_three(-1, 0, [&](TinyTraining& t) {
    const std::vector<float> first = t.weights();
    save_weights(directory.file(""), t.sharded, {});
    t.step(0);
    for (int i = 0; i < 5; ++i) {
      if (t.mesh.rank() == 2) std::this_thread::sleep_for(10ms);
      load_weights(directory.file(""), t.sharded);
      if (t.mesh.rank() == 0) {
        std::filesystem::rename(directory.file("model.safetensors"), directory.file("moved"));
        std::filesystem::rename(directory.file("moved"), directory.file("model.safetensors"));
      }
      EXPECT_EQ(t.weights(), first);
    }
  });
}

// A rank that writes to a slow disk must not count as lost.
TEST_P(Together, ASaveMayTakeLongerThanTheTimeout) {
  for (const int slow : {0, 2}) {
    const TemporaryDirectory directory;
    on_three(slow, 900,
             [&](TinyTraining& t) {
               save(t, directory.file("o"), 1);
               save_weights(directory.file(""), t.sharded, {});
               save_sharded_weights(directory.file("shards"), t.sharded, {});
               load(t, directory.file("o"));
             },
             {.timeout = 400ms});
    EXPECT_TRUE(std::filesystem::exists(directory.file("model.safetensors")));
  }
}

// If the disk of one rank is full, each rank is told which file it is. Then it may go on, and save
// again.
TEST_P(Together, WhatFailsOnOneRankFailsOnAll) {
  if (GetParam() == Backend::local) GTEST_SKIP() << "threads have one limit";
  for (int full = 0; full < 3; ++full) {
    const TemporaryDirectory directory;
    const std::string o = directory.file("o");
    on_three(-1, 0, [&](TinyTraining& t) {
      std::signal(SIGXFSZ, SIG_IGN);
      save(t, o, 1);
      save_weights(o, t.sharded, {{"n", "1"}});
      rlimit before{};
      getrlimit(RLIMIT_FSIZE, &before);
      const rlimit small{.rlim_cur = 3000, .rlim_max = before.rlim_max};
      if (t.mesh.rank() == full) setrlimit(RLIMIT_FSIZE, &small);
      const std::string file = "rank_" + std::to_string(full) + "_of_3.safetensors";
      EXPECT_TRUE(one_line_with(usage_error([&] { save(t, o, 2); }),
                                {"cannot write", file.c_str(), "File too large"}));
      const std::string weights = usage_error([&] { save_weights(o, t.sharded, {{"n", "2"}}); });
      EXPECT_TRUE(one_line_with(weights, {full == 0 ? "File too large" : "no error"}));
      EXPECT_TRUE(one_line_with(
          usage_error([&] { save_sharded_weights(directory.file("s"), t.sharded, {}); }),
          {"cannot write", "File too large"}));
      EXPECT_EQ(read_manifest(o).metadata.at("iteration"), "1");
      EXPECT_EQ(WeightsFiles(o).metadata().at("n"), full == 0 ? "1" : "2");
      setrlimit(RLIMIT_FSIZE, &before);
      t.step(0);
      save(t, o, 3);
      EXPECT_EQ(read_manifest(o).metadata.at("iteration"), "3");
    });
  }
}

// The same law for files that cannot be read. Then no rank has loaded anything.
TEST_P(Together, WhatCannotBeReadByOneIsAnErrorOfAll) {
  const TemporaryDirectory directory;
  const std::string o = directory.file("o");
  on_three(-1, 0, [&](TinyTraining& t) {
    save(t, o, 1);
    t.step(0);
    const std::vector<float> before = t.weights();
    if (t.mesh.rank() == 0) flip_bit(o + "/checkpoint/rank_1_of_3.safetensors", 5000, 3);
    t.mesh.world().barrier(*t.context.compute).synchronize();
    EXPECT_TRUE(one_line_with(usage_error([&] { load(t, o); }), {"rank_1_of_3", "damaged"}));
    EXPECT_TRUE(one_line_with(usage_error([&] { load_weights(o, t.sharded); }),
                              {"model.safetensors", "no such file"}));
    EXPECT_EQ(t.weights(), before);
  });
}

TEST(LoadingWeights, InTheMiddleOfAPassIsRefused) {
  const TemporaryDirectory directory;
  Context context;
  TinyTraining t(context, comm::make_self(), {});
  save_weights(directory.file(""), t.sharded, {});
  const std::vector<float> before = t.weights();
  fsdp::Unit& unit = t.sharded.units()[1];
  unit.unshard();
  try {
    load_weights(directory.file(""), t.sharded);
    ADD_FAILURE() << "loaded into a pass";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("loading of weights"), std::string::npos)
        << error.what();
  }
  unit.wait_until_unsharded();
  unit.reshard();
  load_weights(directory.file(""), t.sharded);
  EXPECT_EQ(t.weights(), before);
}

}  // namespace
}  // namespace nanofsdp::store
