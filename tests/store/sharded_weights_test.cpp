#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "comm/mesh.h"
#include "nn/linear.h"
#include "store/weights.h"
#include "store/weights_files.h"
#include "support/layouts.h"
#include "support/plain_models.h"
#include "support/ranks.h"
#include "support/temporary_directory.h"
#include "support/usage_error.h"

// Tests weights in one file for each rank: they are loaded at any other number of ranks.

namespace nanofsdp::store {
namespace {

namespace fs = std::filesystem;
using testing::TemporaryDirectory;

// Four ranks have 2, 2, 1 and 0 rows of the first layer, and one row each of the second.
struct Model final : nn::Module {
  Model() { add("a", a), add("b", b); }
  Tensor do_forward(nn::Tape& t, Tensor x) override { return b.forward(t, a.forward(t, x)); }
  Tensor do_backward(nn::Tape& t, Tensor d) override { return a.backward(t, b.backward(t, d)); }
  nn::Linear a{{.in = 3, .out = 5}};
  nn::Linear b{{.in = 5, .out = 4}};
};

constexpr std::uint32_t kSaved = 1, kOther = 77;
using testing::kLayouts;

// Calls body(model) on every rank. Returns the whole weights afterwards.
template <class Body>
std::vector<float> at(int ranks, std::uint32_t seed, Body&& body, const fsdp::Options& options = {},
                      int shard_size = 0) {
  return testing::run_ranks(testing::Backend::local, ranks,
                            [&](Context& context, std::unique_ptr<comm::Communicator> world) {
                              comm::Mesh mesh(std::move(world), shard_size);
                              Model model;
                              fsdp::ShardedModel sharded(context, model, mesh, options);
                              testing::store_random(sharded, seed);
                              body(sharded);
                              return testing::whole_weights(sharded);
                            })[0];
}

std::vector<float> save_at(int ranks, const std::string& directory,
                           const fsdp::Options& options = {}, int shard_size = 0) {
  return at(
      ranks, kSaved,
      [&](fsdp::ShardedModel& model) {
        save_sharded_weights(directory, model, {{"by", "us"}});
      },
      options, shard_size);
}

std::vector<float> load_at(int ranks, const std::string& directory, fsdp::LayoutKind layout) {
  return at(ranks, kOther, [&](fsdp::ShardedModel& model) { load_weights(directory, model); },
            {.layout = layout});
}

std::string shard(int number) {
  return fmt::format("shard-{:05}-model-00001-of-00001.safetensors", number);
}

std::map<std::string, std::string> files(const std::string& directory) {
  std::map<std::string, std::string> all;
  for (const auto& file : fs::directory_iterator(directory)) {
    all[file.path().filename().string()] = testing::read_file(file.path().string());
  }
  return all;
}

TEST(ShardedWeights, SavedByAnyNumberOfRanksAreLoadedByAnyOther) {
  const TemporaryDirectory directory;
  for (const int saves : {1, 2, 3, 4, 6}) {
    const std::string from = directory.file(std::to_string(saves));
    const std::vector<float> saved = save_at(saves, from);
    EXPECT_EQ(files(from).size(), static_cast<std::size_t>(saves));
    for (const int loads : {1, 2, 3, 4}) {
      for (const auto layout : kLayouts) {
        EXPECT_EQ(load_at(loads, from, layout), saved) << saves << " to " << loads;
      }
    }
  }
}

// Each number is rounded to the nearest bfloat16, and half the bytes are written.
TEST(ShardedWeights, AreRoundedToBfloat16WhereThatIsAsked) {
  const TemporaryDirectory directory;
  std::vector<float> saved = at(3, kSaved, [&](fsdp::ShardedModel& model) {
    save_sharded_weights(directory.file("half"), model, {}, DType::bfloat16);
  });
  save_at(3, directory.file("whole"));
  for (float& x : saved) x = to_float32(to_bfloat16(x));
  EXPECT_EQ(load_at(2, directory.file("half"), fsdp::LayoutKind::flat), saved);
  for (const int number : {1, 2, 3}) {
    const SafetensorsFile half(directory.file("half/" + shard(number)));
    for (const TensorInfo& tensor : half.tensors()) EXPECT_EQ(tensor.dtype, "BF16");
  }
}

// A parameter that is stored as bfloat16 needs no more bytes in a file.
TEST(ShardedWeights, AreWrittenAsTheyAreStored) {
  const TemporaryDirectory directory;
  testing::run_ranks(
      testing::Backend::local, 3, [&](Context& context, std::unique_ptr<comm::Communicator> world) {
        comm::Mesh mesh(std::move(world));
        Model model;
        for (nn::Parameter* p : model.b.named_parameters()) {
          p->requires_grad = false;
          p->dtype = DType::bfloat16;
        }
        fsdp::ShardedModel sharded(context, model, mesh, {});
        testing::store_random(sharded, kSaved);
        for (const DType dtype : {DType::float32, DType::bfloat16}) {
          save_sharded_weights(directory.file(std::string(name_of(dtype))), sharded, {}, dtype);
        }
      });
  for (const int number : {1, 2, 3}) {
    const SafetensorsFile mixed(directory.file("float32/" + shard(number))),
        half(directory.file("bfloat16/" + shard(number)));
    for (const TensorInfo& tensor : mixed.tensors()) {
      EXPECT_EQ(tensor.dtype, tensor.name.starts_with("b.") ? "BF16" : "F32") << tensor.name;
    }
    for (const TensorInfo& tensor : half.tensors()) EXPECT_EQ(tensor.dtype, "BF16");
  }
}

// A parameter without elements is in the file of the first rank, as readers may want all names.
TEST(ShardedWeights, OfNoElementsAreInTheFirstFile) {
  const TemporaryDirectory directory;
  const auto at_ranks = [&](int ranks, std::uint32_t seed, auto&& body, fsdp::LayoutKind layout) {
    return testing::run_ranks(testing::Backend::local, ranks,
                              [&](Context& context, std::unique_ptr<comm::Communicator> world) {
                                comm::Mesh mesh(std::move(world));
                                nn::Linear model({.in = 0, .out = 3});
                                fsdp::ShardedModel sharded(context, model, mesh,
                                                           {.layout = layout});
                                testing::store_random(sharded, seed);
                                body(directory.file("d"), sharded);
                                return testing::whole_weights(sharded);
                              })[0];
  };
  const auto save = [](const std::string& d, auto& model) { save_sharded_weights(d, model, {}); };
  const std::vector<float> saved = at_ranks(2, kSaved, save, fsdp::LayoutKind::flat);
  const std::vector<TensorInfo> first = SafetensorsFile(directory.file("d/" + shard(1))).tensors();
  EXPECT_TRUE(std::ranges::any_of(first, [](const TensorInfo& tensor) {
    return tensor.name == "weight" && tensor.shape == std::vector<std::int64_t>{3, 0};
  }));
  for (const auto layout : kLayouts) EXPECT_EQ(at_ranks(3, kOther, load_weights, layout), saved);
}

// PyTorch reads these: names of files, shapes, and the places where the boxes begin.
TEST(ShardedWeights, EachRankHasTheRowsOfTorchChunk) {
  const TemporaryDirectory directory;
  save_at(4, directory.file("d"));
  const auto offsets = [](const SafetensorsFile& file) {
    return nlohmann::json::parse(file.metadata().at("DCP_SHARDING_INFO"));
  };
  const SafetensorsFile third(directory.file("d/" + shard(3))),
      last(directory.file("d/" + shard(4)));
  EXPECT_EQ(third.tensors(),
            (std::vector<TensorInfo>{
                {"a.weight", {1, 3}}, {"a.bias", {1}}, {"b.weight", {1, 5}}, {"b.bias", {1}}}));
  EXPECT_EQ(offsets(third), nlohmann::json::parse(R"({"a.weight": {"saved_offsets": [4, 0]},
                                                      "a.bias": {"saved_offsets": [4]},
                                                      "b.weight": {"saved_offsets": [2, 0]},
                                                      "b.bias": {"saved_offsets": [2]}})"));
  EXPECT_EQ(third.metadata().at("by"), "us");
  EXPECT_EQ(last.tensors(), (std::vector<TensorInfo>{{"b.weight", {1, 5}}, {"b.bias", {1}}}));
}

TEST(ShardedWeights, AreTheSameUnderEveryStrategyAndLayout) {
  using enum fsdp::ShardingStrategy;
  const TemporaryDirectory directory;
  save_at(4, directory.file("first"));
  for (const auto strategy :
       {full_shard, no_shard, shard_optimizer, hybrid_shard, hybrid_shard_optimizer}) {
    for (const auto layout : kLayouts) {
      const std::string other = directory.file("other");
      save_at(4, other, {.strategy = strategy, .layout = layout},
              fsdp::sharding_of(strategy).replicates ? 2 : 0);
      EXPECT_EQ(files(other), files(directory.file("first")));
      fs::remove_all(other);
    }
  }
}

TEST(ShardedWeights, WithoutOneOfTheirFilesAreRefused) {
  for (const int number : {1, 2, 3}) {
    const TemporaryDirectory directory;
    save_at(3, directory.file("d"));
    fs::remove(directory.file("d/" + shard(number)));
    EXPECT_TRUE(
        testing::one_line_with(testing::usage_error([&] { WeightsFiles(directory.file("d")); }),
                               {"weights '", "3 files of one model, got 2"}));
  }
}

// The error names a file that was cut off, and a file that an earlier save by another number of
// ranks has left.
TEST(ShardedWeights, OfDamagedFilesAreRefused) {
  const TemporaryDirectory directory;
  save_at(3, directory.file("d")), save_at(4, directory.file("other"));
  const auto complaint = [&] {
    return testing::usage_error([&] { WeightsFiles(directory.file("d")); });
  };
  fs::copy(directory.file("other/" + shard(4)), directory.file("d/" + shard(4)));
  EXPECT_TRUE(testing::one_line_with(complaint(), {"3 files of one model, got 4"}));
  fs::remove(directory.file("d/" + shard(4)));
  const auto replace = fs::copy_options::overwrite_existing;
  fs::copy(directory.file("other/" + shard(2)), directory.file("d/" + shard(3)), replace);
  EXPECT_TRUE(testing::one_line_with(complaint(), {"'a.bias' once", "twice"}));
  fs::resize_file(directory.file("d/" + shard(2)), 100);
  EXPECT_TRUE(testing::one_line_with(complaint(), {"weights '", shard(2).c_str()}));
}

// Readers take every file of a directory, so files of two models must not lie in one.
TEST(ShardedWeights, AreNotSavedBesideOthers) {
  const TemporaryDirectory directory;
  save_at(4, directory.file("d"));
  const auto before = files(directory.file("d"));
  at(1, kOther, [&](fsdp::ShardedModel& model) {
    EXPECT_TRUE(testing::one_line_with(
        testing::usage_error([&] { save_sharded_weights(directory.file("d"), model, {}); }),
        {"without .safetensors files and their index, got 'shard-0000", "name another one"}));
    fs::create_directory(directory.file("i"));
    directory.write("i/model.safetensors.index.json", "{}");
    EXPECT_TRUE(testing::one_line_with(
        testing::usage_error([&] { save_sharded_weights(directory.file("i"), model, {}); }),
        {"and their index, got 'model.safetensors.index.json'"}));
    directory.write("file", "");
    EXPECT_TRUE(testing::one_line_with(
        testing::usage_error([&] { save_sharded_weights(directory.file("file"), model, {}); }),
        {"cannot write '", "/file'", "Not a directory"}));
  });
  EXPECT_EQ(files(directory.file("d")), before);
}

}  // namespace
}  // namespace nanofsdp::store
