#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <sys/resource.h>

#include "store/checkpoint.h"
#include "support/checkpoints.h"

namespace nanofsdp::store {
namespace {

using namespace nanofsdp::testing;

// Files of others lie among ours at every save. None of them is lost, rank 0 hears once where they
// are, and the last checkpoint and the one before are as good as without them.
TEST(Checkpoint, LeavesFilesOfOthersAlone) {
  const TemporaryDirectory directory;
  const std::string o = directory.file("o");
  save_after(1, o, 2);
  std::vector<std::string> theirs;
  State last;
  for (const char* place : {"checkpoint", "checkpoint.previous", "checkpoint.new"}) {
    for (const char* name : {".nfs0001", "thesis.txt", "rank_0_of_2.safetensors.bak", "a/b",
                             "theirs.safetensors", "rank_of_2.safetensors"}) {
      const fs::path file = fs::path(o) / place / name;
      fs::create_directories(file.parent_path());
      theirs.push_back("x" + file.string());
      std::ofstream(file) << theirs.back();
      std::vector<fs::path> told;
      for (std::int64_t steps = 1; steps < 4; ++steps) {
        last = whole_state(on_ranks(2, {}, [&](TinyTraining& t) {
          for (std::int64_t s = 0; s < steps; ++s) t.step(s);
          const auto aside = save_checkpoint(o, t.sharded, t.optimizer, metadata_at(steps));
          if (!aside.value().empty()) told.push_back(*aside);
        }));
        EXPECT_EQ(load_at(2, o), last);
      }
      ASSERT_EQ(told.size(), 1u) << file;
      EXPECT_EQ(read_file(told[0] / "checkpoint.previous" / name), theirs.back());
    }
  }
  EXPECT_EQ(read_manifest(o).metadata.at("iteration"), "3");
  fs::remove_all(o + "/checkpoint");
  fs::rename(o + "/checkpoint.previous", o + "/checkpoint");
  EXPECT_EQ(read_manifest(o).metadata.at("iteration"), "2");
  std::vector<std::string> found;
  for (const auto& [path, bytes] : tree(o)) {
    if (bytes.starts_with("x")) found.push_back(bytes);
  }
  std::ranges::sort(found);
  std::ranges::sort(theirs);
  EXPECT_EQ(found, theirs);
}

// A run goes on from a checkpoint that is linked into its directory. The archive stays as it is.
TEST(Checkpoint, ThatIsALinkKeepsWhatItLeadsTo) {
  const TemporaryDirectory directory;
  const std::string archive = directory.file("archive"), o = directory.file("o");
  const State archived = save_after(2, archive, 2);
  const auto before = tree(archive);
  for (const char* place : {"/checkpoint", "/checkpoint.previous", "/checkpoint.new"}) {
    fs::remove_all(o);
    fs::create_directory(o);
    fs::create_directory_symlink(archive + "/checkpoint", o + place);
    const bool is_the_last = place != std::string("/checkpoint.previous");
    EXPECT_EQ(is_the_last ? load_at(2, o) : archived, archived) << place;
    for (const std::int64_t steps : {1, 2, 3}) {
      const State saved = save_after(steps, o, 2);
      EXPECT_EQ(load_at(2, o), saved) << place;
    }
    EXPECT_TRUE(tree(archive) == before) << place;
    EXPECT_EQ(load_at(2, archive), archived);
  }
}

// The archive may be gone. Then the link is set aside as the previous checkpoint.
TEST(Checkpoint, ThatIsALinkMayLeadNowhere) {
  const TemporaryDirectory directory;
  const std::string o = directory.file("o");
  fs::create_directory(o);
  fs::create_directory_symlink(directory.file("gone"), o + "/checkpoint");
  for (const std::int64_t steps : {1, 2, 3}) {
    const State saved = save_after(steps, o, 2);
    EXPECT_EQ(load_at(2, o), saved);
    EXPECT_EQ(fs::is_symlink(o + "/checkpoint.previous"), steps == 1);
  }
}

// A disk that is full needs no files of a checkpoint that is not whole.
TEST(Checkpoint, ThatFindsNoRoomLeavesNothing) {
  const TemporaryDirectory directory;
  const std::string o = directory.file("o");
  const State saved = save_after(1, o, 2);
  const auto before = tree(o);
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit old{};
  getrlimit(RLIMIT_FSIZE, &old);
  const rlimit small{100, old.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  const std::string error = usage_error([&] {
    Context context;
    TinyTraining t(context, comm::make_self(), {});
    t.step(0);
    save_checkpoint(o, t.sharded, t.optimizer, metadata_at(7));
  });
  setrlimit(RLIMIT_FSIZE, &old);
  EXPECT_TRUE(one_line_with(error, {"File too large"})) << error;
  EXPECT_TRUE(tree(o) == before);
  EXPECT_EQ(load_at(2, o), saved);
}

// A save that was killed has left a file of ours under its temporary name.
TEST(Checkpoint, RemovesHalfOfAFileOfOurOwn) {
  const TemporaryDirectory directory;
  const std::string o = directory.file("o");
  save_after(1, o, 2);
  fs::create_directories(o + "/checkpoint.new");
  std::ofstream(o + "/checkpoint.new/rank_7_of_8.safetensors.tmp") << "half";
  for (std::int64_t steps = 1; steps < 4; ++steps) {
    on_ranks(2, {}, [&](TinyTraining& t) {
      const auto aside = save_checkpoint(o, t.sharded, t.optimizer, metadata_at(steps));
      EXPECT_EQ(aside.value(), "");
    });
  }
  for (const auto& [path, bytes] : tree(o)) EXPECT_NE(bytes, "half") << path;
}

// A file that stands where a checkpoint goes.
TEST(Checkpoint, TakesThePlaceOfNothingElse) {
  const TemporaryDirectory directory;
  const std::string o = directory.file("o");
  for (const char* place : {"/checkpoint", "/checkpoint.previous"}) {
    fs::remove_all(o);
    fs::create_directory(o);
    std::ofstream(o + place) << "x";
    for (const std::int64_t steps : {1, 2, 3}) {
      const State saved = save_after(steps, o, 2);
      EXPECT_EQ(load_at(2, o), saved) << place;
    }
    int found = 0;
    for (const auto& [path, bytes] : tree(o)) found += bytes == "x";
    EXPECT_EQ(found, 1) << place;
  }
  std::ofstream(o + "/checkpoint.new") << "x";
  const std::string error = usage_error([&] {
    Context context;
    TinyTraining t(context, comm::make_self(), {});
    save(t, o, 4);
  });
  EXPECT_TRUE(one_line_with(error, {"cannot write", "checkpoint.new", "Not a directory"})) << error;
  EXPECT_EQ(read_file(o + "/checkpoint.new"), "x");
  EXPECT_EQ(read_manifest(o).metadata.at("iteration"), "3");
}

}  // namespace
}  // namespace nanofsdp::store
