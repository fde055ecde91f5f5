#include "store/checkpoint.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "support/checkpoints.h"

namespace nanofsdp::store {
namespace {

using namespace nanofsdp::testing;

// ---- files that differ from the saved ones

TEST(CheckpointDamage, IsToldWithItsFileAndChangesNothing) {
  const TemporaryDirectory directory;
  const std::string o = directory.file("o"), good = directory.file("good");
  save_after(1, good, 3);
  save_after(2, good, 3);
  const auto expect = [&](const char* file, const auto& damage,
                          std::initializer_list<const char*> words) {
    fs::remove_all(o);
    fs::copy(good, o, fs::copy_options::recursive);
    const std::string path = o + "/checkpoint/" + file;
    damage(path);
    const auto before = tree(o);
    const std::string error = load_error(o);
    EXPECT_TRUE(one_line_with(error, words)) << error;
    EXPECT_TRUE(one_line_with(error, {path.c_str(), "checkpoint.previous"})) << error;
    EXPECT_TRUE(tree(o) == before) << error;
  };
  const auto truncate = [](const std::string& p) { fs::resize_file(p, fs::file_size(p) - 3); };
  for (const char* file :
       {"rank_0_of_3.safetensors", "rank_1_of_3.safetensors", "rank_2_of_3.safetensors"}) {
    expect(file, [](const std::string& p) { fs::remove(p); }, {"No such file"});
    expect(file, truncate, {"bytes"});
    for (const std::uintmax_t byte : {0, 7, 8, 100, 5000}) {
      expect(file, [&](const std::string& p) { flip_bit(p, byte, byte % 8); }, {"is damaged"});
    }
    expect(file, [](const std::string& p) { flip_bit(p, fs::file_size(p) - 1, 7); }, {"damaged"});
    expect(file,
           [&](const std::string& p) {
             fs::copy_file(good + "/checkpoint.previous/" + file, p,
                           fs::copy_options::overwrite_existing);
           },
           {"of another checkpoint"});
  }
  expect("manifest.json", [](const std::string& p) { fs::remove(p); }, {"no such file"});
  expect("manifest.json", truncate, {"the manifest of a checkpoint"});
  expect("manifest.json", [](const std::string& p) { std::ofstream(p) << "{}"; }, {"something"});
  const auto later = [](const std::string& p) {
    std::ofstream(p) << R"({"format": "nanofsdp checkpoint, version 3"})";
  };
  expect("manifest.json", later, {"checkpoint, version 3"});
}

// The user is sent one save back, wherever the last one lies.
TEST(CheckpointDamage, IsToldWithTheCheckpointBefore) {
  const TemporaryDirectory directory;
  const std::string o = directory.file("o"), now = o + "/checkpoint";
  for (int step = 1; step <= 3; ++step) save_after(step, o, 2);
  const auto expect = [&](const std::string& damaged, const std::string& before) {
    flip_bit(damaged + "/rank_1_of_2.safetensors", 100, 1);
    const std::string error = load_error(o);
    EXPECT_TRUE(one_line_with(error, {damaged.c_str(), ("put '" + before + "' in").c_str()}))
        << error;
  };
  expect(now, now + ".previous");
  // A save was killed when it had written the manifest, and before it renamed a directory.
  flip_bit(now + "/rank_1_of_2.safetensors", 100, 1);
  fs::copy(now, now + ".new");
  EXPECT_EQ(load_error(o), "no error");
  expect(now + ".new", now);
}

// One bit is changed anywhere in the manifest. It is noticed if it matters; in blanks it does not.
TEST(CheckpointDamage, OfTheManifestNeverChangesWhatItSays) {
  const TemporaryDirectory directory;
  const std::string o = directory.file("o");
  save_after(1, o, 2);
  const std::string path = o + "/checkpoint/manifest.json", whole = read_file(path);
  const Manifest expected = read_manifest(o);
  int taken = 0;
  for (std::size_t bit = 0; bit < 8 * whole.size(); bit += 17) {
    std::string text = whole;
    text[bit / 8] = static_cast<char>(text[bit / 8] ^ (1 << bit % 8));
    try {
      const Manifest read = parse_manifest(text, path, "");
      EXPECT_EQ(read.fingerprint, expected.fingerprint);
      EXPECT_EQ(read.metadata, expected.metadata);
      ++taken;
    } catch (const UsageError&) {
    }
  }
  EXPECT_LT(taken, 10);  // changes of blanks
}

TEST(CheckpointDamage, OfAModelIsNotAnotherModel) {
  const TemporaryDirectory directory;
  const std::string o = directory.file("o");
  save_after(1, o, 2);
  const std::string error = usage_error([&] {
    gpt::GPTConfig config = kTiny;
    config.n_layer = 4;
    Context context;
    TinyTraining t(context, comm::make_self(), {}, std::make_unique<gpt::GPT>(config));
    load(t, o);
  });
  EXPECT_TRUE(one_line_with(error, {"o/checkpoint'", "12 missing: transformer.h.3.ln_1.weight,"}))
      << error;
}

// Otherwise ranks that see different directories would train a model made of two.
TEST(CheckpointDamage, RanksMustSeeTheSame) {
  const TemporaryDirectory directory;
  save_after(1, directory.file("a"), 2);
  save_after(2, directory.file("b"), 2);
  try {
    on_ranks(2, {},
             [&](TinyTraining& t) { load(t, directory.file(t.mesh.rank() == 0 ? "a" : "b")); });
    ADD_FAILURE() << "no error";
  } catch (const RankError& error) {
    EXPECT_TRUE(one_line_with(error.what(), {"ranks disagree on checkpoint", "--out_dir"}));
  }
  const fs::path left_over = directory.file("d/checkpoint.new");
  fs::create_directories(left_over);
  fs::last_write_time(left_over, fs::last_write_time(left_over) - std::chrono::hours(1));
  on_ranks(2, {}, [&](TinyTraining& t) {
    const std::string out_dir = directory.file(t.mesh.rank() == 0 ? "c" : "d");
    EXPECT_FALSE(save_checkpoint(out_dir, t.sharded, t.optimizer));
  });
  EXPECT_TRUE(tree(directory.file("c")).empty());
}

// A run saves while others load its checkpoint. They have one of the two, or are told what
// happened. The advice for damaged files would move the directories of a run that is well.
TEST(CheckpointDamage, IsNotWhatARunSavesMeanwhile) {
  const TemporaryDirectory directory;
  const std::string a = directory.file("a"), b = directory.file("b"), o = directory.file("o");
  const std::vector<State> states = {save_after(1, a, 2), save_after(2, b, 2)};
  int told = 0;
  for (int trial = 0; trial < 200; ++trial) {
    fs::remove_all(o);
    fs::create_directory(o);
    fs::copy(a + "/checkpoint", o + "/checkpoint");
    fs::copy(b + "/checkpoint", o + "/checkpoint.new");
    fs::rename(o + "/checkpoint.new/manifest.json", o + "/manifest");
    std::thread run([&] {  // it ends a save
      std::this_thread::sleep_for(std::chrono::microseconds(20 * trial));
      fs::rename(o + "/manifest", o + "/checkpoint.new/manifest.json");
      fs::rename(o + "/checkpoint", o + "/checkpoint.previous");
      fs::rename(o + "/checkpoint.new", o + "/checkpoint");
    });
    try {
      EXPECT_EQ(std::ranges::count(states, load_at(2, o)), 1);
    } catch (const RankError& error) {
      const std::string what = error.what();
      const bool says = what.find("saved meanwhile") != what.npos;
      EXPECT_TRUE(says || what.find("in which no run saves now") != what.npos) << what;
      ++told;
    }
    run.join();
  }
  EXPECT_LT(told, 200);
}

}  // namespace
}  // namespace nanofsdp::store
