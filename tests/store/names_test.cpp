#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "comm/local.h"
#include "fsdp/adamw.h"
#include "store/checkpoint.h"
#include "store/weights.h"
#include "store/weights_files.h"
#include "support/errors.h"
#include "support/plain_models.h"
#include "support/ranks.h"
#include "support/temporary_directory.h"
#include "support/usage_error.h"

// Files that are written can be read, for all names and any number of parameters. Names that cannot
// be read are not written.

namespace nanofsdp::store {
namespace {

using namespace nanofsdp::testing;

// A module that has parameters with these names, of five elements each.
struct Named final : nn::Module {
  explicit Named(const std::vector<std::string>& names) {
    for (const std::string& name : names) {
      add(name, std::make_shared<nn::Parameter>(Shape{5}, nn::Init::ones()));
    }
  }
  Tensor do_forward(nn::Tape&, Tensor x) override { return x; }
  Tensor do_backward(nn::Tape&, Tensor dy) override { return dy; }
};

// Calls body(model, optimizer) for such a model on two ranks. Returns the error, which is the same
// on all ranks.
template <class Body>
void on_two(const std::vector<std::string>& names, const Body& body) {
  run_ranks(Backend::local, 2, [&](Context& context, std::unique_ptr<comm::Communicator> world) {
    comm::Mesh mesh(std::move(world));
    Named model(names);
    fsdp::ShardedModel sharded(context, model, mesh, {});
    store_random(sharded, 7);
    fsdp::AdamW optimizer(context, sharded.units(), {});
    body(sharded, optimizer);
  });
}

TEST(Names, ThatOurFilesUseThemselvesComeBack) {
  for (const std::vector<std::string>& names :
       std::vector<std::vector<std::string>>{{"format", "a"},
                                             {"shards", "DCP_SHARDING_INFO"},
                                             {"", "exp_avg"},
                                             {"pt", "\"\\\n\u00e9"}}) {
    const TemporaryDirectory directory;
    const std::string o = directory.file("o");
    on_two(names, [&](fsdp::ShardedModel& model, fsdp::AdamW& optimizer) {
      const std::vector<float> saved = whole_weights(model);
      save_checkpoint(o, model, optimizer);
      save_weights(o, model, {{"format", "pt"}});
      save_sharded_weights(directory.file("s"), model, {});
      const auto comes_back = [&](const auto& load) {
        store_random(model, 99);
        EXPECT_NE(whole_weights(model), saved);
        load();
        EXPECT_EQ(whole_weights(model), saved) << names[0];
      };
      comes_back([&] { load_checkpoint(o, model, optimizer); });
      comes_back([&] { load_weights(o, model); });
      comes_back([&] { load_weights(directory.file("s"), model); });
    });
  }
}

// The error is thrown on every rank, before any file is written.
TEST(Names, ThatFilesCannotHaveAreRefusedWhenTheyAreWritten) {
  const auto refused = [](const std::vector<std::string>& names, const std::string& named,
                          bool as_weights) {
    const TemporaryDirectory directory;
    const std::string o = directory.file("o"), s = directory.file("s");
    std::filesystem::create_directory(o);
    on_two(names, [&](fsdp::ShardedModel& model, fsdp::AdamW& optimizer) {
      expect_error<Error>([&] { save_checkpoint(o, model, optimizer); }, named);
      if (!as_weights) return;
      expect_error<Error>([&] { save_weights(o, model, {}); }, named);
      expect_error<Error>([&] { save_sharded_weights(s, model, {}); }, named);
    });
    EXPECT_TRUE(std::filesystem::is_empty(o)) << named;
    EXPECT_FALSE(std::filesystem::exists(s)) << named;
  };
  refused({"a", "__metadata__"}, "tensor \"__metadata__\": expected a name of its own", true);
  refused({"a", "b\xff"}, "tensor \"b\ufffd\": expected a name of its own in a file, in UTF-8",
          true);
  refused({"a", "b", "a"}, "tensor \"a\"", true);
  refused({"a.exp_avg", "a"}, "tensor \"a.exp_avg\"", false);
  refused({"a", "b", "b.exp_avg_sq"}, "tensor \"b.exp_avg_sq\"", false);
}

// A frozen parameter has no moments, so their names are free.
TEST(Names, OfMomentsThatDoNotExistAreFree) {
  const TemporaryDirectory directory;
  Context context;
  comm::Mesh mesh(comm::make_self());
  Named model({"a", "a.exp_avg"});
  model.named_parameters()[0]->requires_grad = false;
  fsdp::ShardedModel sharded(context, model, mesh, {});
  store_random(sharded, 7);
  fsdp::AdamW optimizer(context, sharded.units(), {});
  const std::vector<float> saved = whole_weights(sharded);
  save_checkpoint(directory.file("o"), sharded, optimizer);
  store_random(sharded, 8);
  load_checkpoint(directory.file("o"), sharded, optimizer);
  EXPECT_EQ(whole_weights(sharded), saved);
}

// A large mixture of experts has this number of tensors, and a header of 17 MB. They are looked up
// one by one.
TEST(Names, OfAHundredThousandTensorsAreReadAgain) {
  const TemporaryDirectory directory;
  std::vector<TensorInfo> tensors;
  for (int i = 0; i < 100'000; ++i) {
    tensors.push_back({fmt::format("model.layers.{}.mlp.experts.{}.down_proj.weight.exp_avg_sq",
                                   i / 384, i % 384),
                       {1}});
  }
  std::vector<float> values(tensors.size());
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  SafetensorsWriter writer(directory.file("model.safetensors"), tensors, {});
  for (const float& value : values) writer.append({&value, 1});
  writer.finish();
  WeightsFiles files(directory.file(""));
  require_same_tensors(tensors, files.tensors(), "them");
  for (std::size_t i = 0; i < tensors.size(); i += 7) {
    ASSERT_EQ(files.read(tensors[i]), std::vector<float>{values[i]}) << tensors[i].name;
  }
}

// The limits of the reader and of the writer are equal, to the byte.
TEST(Sizes, ThatNobodyWouldReadAreNotWritten) {
  const TemporaryDirectory directory;
  const auto write = [&](std::size_t text) {
    SafetensorsWriter(directory.file("m"), {}, {{"t", std::string(text, 'x')}}).finish();
  };
  const std::size_t around = std::string(R"({"__metadata__":{"t":""}})").size();
  static_assert(kLargestHeader % 8 == 0);
  write(kLargestHeader - around);
  EXPECT_EQ(SafetensorsFile(directory.file("m")).metadata().at("t").size(),
            kLargestHeader - around);
  EXPECT_TRUE(one_line_with(usage_error([&] { write(kLargestHeader - around + 1); }),
                            {"header of 0 tensors", "at most 100000000 bytes", "got 100000008"}));
  Manifest manifest{.metadata = {{"t", std::string(kLargestManifest - 1000, 'x')}},
                    .files = {{1, 2}}};
  EXPECT_EQ(parse_manifest(write_manifest(manifest), "m", "").metadata, manifest.metadata);
  manifest.metadata["t"] += std::string(1000, 'x');
  EXPECT_TRUE(one_line_with(usage_error([&] { write_manifest(manifest); }),
                            {"manifest", "at most 100000000 bytes", "keep less"}));
}

// The text of a hostile file, or of a file that a bug has written, gives an error and no stack
// overflow.
TEST(Sizes, OfBracketsHaveALimit) {
  const std::string deep = std::string(2'000'000, '[') + std::string(2'000'000, ']');
  const std::string text = R"({"w":{"dtype":"F32","shape":)" + deep + R"(,"data_offsets":[0,4]}})";
  EXPECT_TRUE(one_line_with(usage_error([&] { parse_header(text, 4, "m"); }),
                            {"weights 'm'", "too many brackets"}));
}

}  // namespace
}  // namespace nanofsdp::store
