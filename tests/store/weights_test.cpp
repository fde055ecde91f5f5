#include "store/weights.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "comm/local.h"
#include "comm/mesh.h"
#include "nn/linear.h"
#include "store/weights_files.h"
#include "support/plain_models.h"
#include "support/temporary_directory.h"
#include "support/usage_error.h"

// Tests files of weights with models that are not GPTs.

namespace nanofsdp::store {
namespace {

struct Pair final : nn::Module {
  Pair(const std::string& second, std::int64_t out)
      : a({.in = 3, .out = 2}), b({.in = 2, .out = out}) {
    add("a", a), add(second, b);
  }
  Tensor do_forward(nn::Tape& t, Tensor x) override { return b.forward(t, a.forward(t, x)); }
  Tensor do_backward(nn::Tape& t, Tensor d) override { return a.backward(t, b.backward(t, d)); }
  nn::Linear a, b;
};

struct Sharded {
  explicit Sharded(const std::string& second = "b", std::int64_t out = 4, std::uint32_t seed = 1)
      : model(second, out), sharded(fsdp::fully_shard(context, model, mesh)) {
    testing::store_random(sharded, seed);
  }
  std::vector<float> values() { return testing::whole_weights(sharded); }

  Context context;
  comm::Mesh mesh{comm::make_self()};
  Pair model;
  fsdp::ShardedModel sharded;
};

TEST(Weights, OfAnyModelComeBack) {
  const testing::TemporaryDirectory directory;
  Sharded saved("b", 4, 1), loaded("b", 4, 77);
  ASSERT_NE(saved.values(), loaded.values());
  save_weights(directory.file("new/deep"), saved.sharded, {});
  load_weights(directory.file("new/deep"), loaded.sharded);
  EXPECT_EQ(saved.values(), loaded.values());
}

// The metadata of ranks' files say how many they are, which would be wrong of one file.
TEST(Weights, KeepTheMetadataOfSeveralFilesButForTheirNumber) {
  const testing::TemporaryDirectory directory;
  Sharded saved, loaded("b", 4, 77);
  save_sharded_weights(directory.file("shards"), saved.sharded, {{"made_by", "a test"}});
  const WeightsFiles files(directory.file("shards"));
  ASSERT_TRUE(files.metadata().contains("shards"));
  save_weights(directory.file("one"), saved.sharded, files.metadata());
  load_weights(directory.file("one"), loaded.sharded);
  EXPECT_EQ(saved.values(), loaded.values());
  EXPECT_EQ(WeightsFiles(directory.file("one")).metadata(), (Metadata{{"made_by", "a test"}}));
}

// One error names everything that does not fit, and no parameter has been written.
TEST(Weights, OfAnotherModelAreRefusedByTheirNames) {
  const testing::TemporaryDirectory directory;
  Sharded saved;
  save_weights(directory.file(""), saved.sharded, {});
  Sharded renamed("c", 4), wider("b", 5);
  const std::vector<float> before = renamed.values();
  EXPECT_TRUE(testing::one_line_with(
      testing::usage_error([&] { load_weights(directory.file(""), renamed.sharded); }),
      {"weights '", "2 missing: c.weight, c.bias", "2 surplus: b.", "another model"}));
  EXPECT_EQ(renamed.values(), before);
  EXPECT_TRUE(testing::one_line_with(
      testing::usage_error([&] { load_weights(directory.file(""), wider.sharded); }),
      {"of another shape: ", "b.weight ([4, 2], not [5, 2])", "b.bias ([4], not [5])"}));
}

}  // namespace
}  // namespace nanofsdp::store
