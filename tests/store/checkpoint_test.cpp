#include "store/checkpoint.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/fingerprint.h"
#include "store/safetensors.h"
#include "support/checkpoints.h"
#include "support/errors.h"
#include "support/layouts.h"

namespace nanofsdp::store {
namespace {

using namespace nanofsdp::testing;

// ---- what is saved is loaded

// Memory that was never written is no value, and no checkpoint says that it is one.
TEST(Checkpoint, OfParametersWithoutValuesIsRefused) {
  const TemporaryDirectory directory;
  run_ranks(Backend::local, 2, [&](Context& context, std::unique_ptr<comm::Communicator> world) {
    comm::Mesh mesh(std::move(world));
    gpt::GPT model(kTiny);
    fsdp::ShardedModel sharded(context, model, mesh, {});
    fsdp::AdamW optimizer(context, sharded.units(), {});
    expect_error<Error>([&] { save_checkpoint(directory.file("out"), sharded, optimizer); },
                        "no values of transformer.wte.weight");
  });
  EXPECT_FALSE(std::filesystem::exists(directory.file("out")));
}

TEST(Checkpoint, SavedByFourRanksIsLoadedByAnyNumber) {
  const TemporaryDirectory directory;
  const std::string from = directory.file("from"), back = directory.file("back");
  const State saved = save_after(2, from);
  for (const int world : {1, 2, 3, 8}) {
    EXPECT_EQ(load_at(world, from), saved) << world << " ranks";
    on_ranks(world, {}, [&](TinyTraining& t) {
      load(t, from);
      save(t, back, 2);
    });
    EXPECT_EQ(load_at(4, back), saved) << world << " ranks and back";
  }
}

TEST(Checkpoint, IsTheSameUnderEveryStrategyAndOverGloo) {
  using enum fsdp::ShardingStrategy;
  const TemporaryDirectory directory;
  const State saved = save_after(2, directory.file("full_shard"));
  const auto files = [](const std::string& out_dir) {
    auto all = tree(out_dir);
    std::map<std::string, std::string> named;
    for (auto& [path, bytes] : all) named[fs::path(path).filename().string()] = std::move(bytes);
    return named;
  };
  for (const auto strategy : {no_shard, shard_optimizer, shard_gradients, shard_grad_op}) {
    const std::string out_dir = directory.file("of");
    save_after(2, out_dir, 4, {.strategy = strategy});
    EXPECT_EQ(files(out_dir + "/checkpoint"), files(directory.file("full_shard/checkpoint")));
    EXPECT_EQ(load_at(3, directory.file("full_shard"), {.strategy = strategy}), saved);
  }
#ifndef NANOFSDP_TSAN
  on_ranks(
      4, {},
      [&](TinyTraining& t) {
        load(t, directory.file("full_shard"));
        save(t, directory.file("gloo"), 2);
      },
      Backend::gloo);
  EXPECT_EQ(files(directory.file("gloo/checkpoint")),
            files(directory.file("full_shard/checkpoint")));
#endif
}

// Parameters, moments and step counts are loaded into another layout. Gradients are not clipped, so
// the training continues with the bits that it would have had in its own layout.
TEST(Checkpoint, OfOneLayoutIsLoadedIntoTheOthers) {
  using enum fsdp::LayoutKind;
  const TemporaryDirectory directory;
  for (const auto& [from, to] :
       {std::pair(flat, per_parameter), std::pair(per_parameter, row_aligned),
        std::pair(row_aligned, flat), std::pair(per_parameter, flat), std::pair(flat, row_aligned),
        std::pair(row_aligned, per_parameter)}) {
    const std::string o = directory.file(name_of(from) + name_of(to));
    const TinyOptions before{.layout = from, .clip = 0}, after{.layout = to, .clip = 0};
    const State saved = save_after(2, o, 4, before);
    EXPECT_EQ(load_at(3, o, after), saved);
    const State one_more = save_after(3, directory.file("uninterrupted"), 4, before);
    EXPECT_EQ(whole_state(on_ranks(4, after,
                                   [&](TinyTraining& t) {
                                     load(t, o);
                                     for (const StateSlice& slice : slices_of(
                                              t.sharded.units(), t.optimizer, Slices::to_save)) {
                                       EXPECT_EQ(*slice.steps, 2) << slice.parameter.name;
                                     }
                                     t.step(2);
                                   })),
              one_more);
  }
}

// Frozen parameters that are stored in bfloat16 lie in files as bfloat16. Other ranks load them,
// and so does a model that has them in float32.
TEST(Checkpoint, OfParametersInBfloat16IsLoadedToTheBit) {
  const TemporaryDirectory directory;
  const auto weights_at = [](int world, fsdp::LayoutKind layout, DType stored, const auto& body) {
    return run_ranks(
        Backend::local, world, [&](Context& context, std::unique_ptr<comm::Communicator> group) {
          auto model = std::make_unique<gpt::GPT>(kTiny);
          for (nn::Parameter* p : model->named_parameters()) {
            p->requires_grad = p->shape.rank() < 2;
            if (!p->requires_grad) p->dtype = stored;
          }
          TinyTraining t(context, std::move(group), {.layout = layout}, std::move(model));
          body(t);
          return t.weights();
        })[0];
  };
  using enum fsdp::LayoutKind;
  const std::vector<float> saved =
      weights_at(4, per_parameter, DType::bfloat16, [&](TinyTraining& t) {
        t.step(0);
        save(t, directory.file("half"), 1);
      });
  const SafetensorsFile file(directory.file("half/checkpoint/rank_1_of_4.safetensors"));
  ASSERT_GT(file.tensors().size(), 4u);
  for (const TensorInfo& tensor : file.tensors()) {
    const bool trains = file.metadata().contains(tensor.name)
                            ? file.metadata().at(tensor.name).find("step") != std::string::npos
                            : true;  // a moment
    EXPECT_EQ(tensor.dtype, trains ? "F32" : "BF16") << tensor.name;
  }
  const auto load_it = [&](TinyTraining& t) { load(t, directory.file("half")); };
  for (const DType stored : {DType::bfloat16, DType::float32}) {
    EXPECT_EQ(weights_at(3, per_parameter, stored, load_it), saved);
    EXPECT_EQ(weights_at(2, flat, stored, load_it), saved);
    EXPECT_EQ(weights_at(3, row_aligned, stored, load_it), saved);
  }
}

// Two groups of two ranks hold the same state. One of them saves, and both load.
TEST(Checkpoint, OfReplicasIsSavedOnce) {
  const TemporaryDirectory directory;
  const TinyOptions hybrid{.strategy = fsdp::ShardingStrategy::hybrid_shard, .shard_size = 2};
  const State saved = save_after(2, directory.file("o"), 4, hybrid);
  EXPECT_TRUE(fs::exists(directory.file("o/checkpoint/rank_1_of_2.safetensors")));
  EXPECT_EQ(tree(directory.file("o/checkpoint")).size(), 3u);
  EXPECT_EQ(load_at(3, directory.file("o")), saved);
  const auto states = on_ranks(4, hybrid, [&](TinyTraining& t) {
    load(t, directory.file("o"));
    for (const nn::Parameter* p : t.sharded.units()[0].rows()[0].parameters()) {
      EXPECT_FALSE(p->data.empty() && p->data.numel() > 0);
    }
    t.step(2);
    EXPECT_EQ(t.optimizer.steps(), 3);
  });
  const State one_more = whole_state(on_ranks(4, hybrid, [](TinyTraining& t) {
    for (std::int64_t s = 0; s < 3; ++s) t.step(s);
  }));
  EXPECT_EQ(whole_state(states), one_more);
}

// If replicas split the update, every rank saves the piece that it updates. Any ranks load it.
TEST(Checkpoint, OfReplicasThatSplitTheUpdateIsSavedByAllOfThem) {
  for (const auto layout : testing::kLayouts) {
    const TemporaryDirectory directory;
    const TinyOptions split{.strategy = fsdp::ShardingStrategy::hybrid_shard_optimizer,
                            .layout = layout,
                            .shard_size = 2};
    const State saved = save_after(2, directory.file("o"), 6, split);
    EXPECT_EQ(tree(directory.file("o/checkpoint")).size(), 7u);
    EXPECT_EQ(load_at(4, directory.file("o"), split), saved);
    EXPECT_EQ(load_at(3, directory.file("o")), saved);
    save_after(2, directory.file("other"), 3);
    EXPECT_EQ(load_at(4, directory.file("other"), split), load_at(1, directory.file("other")));
    const auto goes_on = [&](TinyTraining& t) {
      load(t, directory.file("o"));
      t.step(2);
    };
    EXPECT_EQ(whole_state(on_ranks(6, split, goes_on)),
              whole_state(on_ranks(6, split, [](TinyTraining& t) {
                for (std::int64_t s = 0; s < 3; ++s) t.step(s);
              })));
  }
}

TEST(Checkpoint, TellsWhatTheProgramKeepsThere) {
  const TemporaryDirectory directory;
  save_after(2, directory.file("o"), 2);
  const Manifest manifest = read_manifest(directory.file("o"));
  EXPECT_EQ(manifest.optimizer_steps, 2);
  EXPECT_EQ(manifest.metadata, testing::metadata_at(2));
}

// Bytes that are not UTF-8 are replaced, and do no harm.
TEST(Checkpoint, KeepsNoBytesThatAreNoText) {
  const std::string text = write_manifest({.metadata = {{"name", "a=b\n\xff"}}, .files = {{1, 2}}});
  EXPECT_EQ(parse_manifest(text, "m", "").metadata.at("name"), "a=b\n\ufffd");
}

// Version 1 kept the trainer's own texts among those of the checkpoint.
TEST(Checkpoint, OfVersion1TellsTheSame) {
  nlohmann::json j = {{"format", "nanofsdp checkpoint, version 1"},
                      {"iteration", 250},
                      {"optimizer_steps", 249},
                      {"best_val_loss", nullptr},
                      {"alphabet", "a\"b"},
                      {"pieces", {"x", "y"}},
                      {"files", {{"rank_0_of_1.safetensors", {{"bytes", 1}, {"fingerprint", 2}}}}}};
  j["fingerprint"] = fingerprint(j.dump());
  const Manifest manifest = parse_manifest(j.dump(), "m", "");
  EXPECT_EQ(manifest.optimizer_steps, 249);
  EXPECT_EQ(manifest.files.at(0).bytes, 1u);
  EXPECT_EQ(manifest.metadata.at("iteration"), "250");
  EXPECT_EQ(manifest.metadata.at("best_val_loss"), "null");
  EXPECT_EQ(manifest.metadata.at("alphabet"), "a\"b");
  EXPECT_EQ(manifest.metadata.at("pieces"), "[\"x\",\"y\"]");
}

// ---- one after the other, and killed in between

TEST(Checkpoint, KeepsTheOneBefore) {
  const TemporaryDirectory directory;
  const std::string o = directory.file("o");
  std::vector<State> states;
  for (const std::int64_t steps : {1, 2, 3}) states.push_back(save_after(steps, o, 2));
  EXPECT_EQ(load_at(2, o), states[2]);
  EXPECT_FALSE(fs::exists(o + "/checkpoint.new"));
  fs::remove_all(o + "/checkpoint");
  EXPECT_TRUE(one_line_with(load_error(o), {"o/checkpoint/manifest.json'", "no such file", "put '",
                                            "checkpoint.previous' in its place"}));
  fs::rename(o + "/checkpoint.previous", o + "/checkpoint");
  EXPECT_EQ(load_at(2, o), states[1]);
}

// SIGKILL can leave the directories in these states. The next run must find a whole checkpoint in
// each.
TEST(Checkpoint, IsFoundWhereverASaveWasInterrupted) {
  const TemporaryDirectory directory;
  const std::string o = directory.file("o");
  const std::string now = o + "/checkpoint", before = now + ".previous", next = now + ".new";
  const auto fresh = [&] {
    fs::remove_all(o);
    save_after(1, o, 2);
    return save_after(2, o, 2);
  };
  const auto expect = [&](const State& state, std::int64_t iteration) {
    EXPECT_EQ(read_manifest(o).optimizer_steps, iteration);
    EXPECT_EQ(load_at(3, o), state);
    const State later = save_after(3, o, 3);
    EXPECT_EQ(load_at(2, o), later);
    EXPECT_FALSE(fs::exists(next));
    fs::remove_all(now);
    fs::rename(before, now);
    EXPECT_EQ(load_at(2, o), state) << "the one before";
  };
  State saved = fresh();  // killed while the files are written
  fs::create_directory(next);
  fs::copy(now + "/rank_0_of_2.safetensors", next + "/rank_0_of_2.safetensors");
  expect(saved, 2);
  saved = fresh();  // killed when the manifest has been written
  fs::copy(now, next);
  flip_bit(now + "/rank_0_of_2.safetensors", 9, 1);  // this checkpoint is damaged too
  EXPECT_EQ(checkpoint_path(o), next);
  expect(saved, 2);
  saved = fresh();  // killed while the previous one is removed
  fs::rename(now, next);
  fs::copy(before, now);
  fs::remove(before + "/manifest.json");
  expect(saved, 2);
  saved = fresh();  // killed between the two renames
  fs::rename(now, next);
  expect(saved, 2);
}

}  // namespace
}  // namespace nanofsdp::store
