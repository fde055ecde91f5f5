#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "support/process.h"
#include "support/temporary_directory.h"

// Tests the export of weights in one file for each rank: the exported model writes the same text.

namespace nanofsdp::export_test {
namespace {

namespace fs = std::filesystem;
using testing::output_of;
using testing::TemporaryDirectory;
using Words = std::vector<std::string>;

void train(const TemporaryDirectory& directory) {
  output_of(directory, {"train", "--max_iters=3", "--eval_interval=3", "--eval_iters=1",
                        "--sample=0", "--block_size=8", "--batch_size=4", "--n_layer=2",
                        "--n_head=2", "--n_embd=10", "--out_dir=out"});
}

std::string sample(const TemporaryDirectory& directory, const char* from) {
  return output_of(directory, {"sample", from, "--max_new_tokens=30", "--ranks=3"});
}

TEST(Export, WritesAFileARankOfTheSameModel) {
  const TemporaryDirectory directory;
  train(directory);
  EXPECT_EQ(output_of(directory, {"export", "--out_dir=out", "--ranks=4"}),
            "saved weights in 4 files: out/shards\n");
  EXPECT_TRUE(
      fs::exists(directory.file("out/shards/shard-00004-model-00001-of-00001.safetensors")));
  EXPECT_EQ(sample(directory, "--out_dir=out/shards"), sample(directory, "--out_dir=out"));
  output_of(directory,
            {"export", "--out_dir=out/shards", "--to=two", "--ranks=2", "--backend=local"});
  EXPECT_EQ(sample(directory, "--out_dir=two"), sample(directory, "--out_dir=out"));
}

TEST(Export, RoundsToBfloat16WhereThatIsAsked) {
  const TemporaryDirectory directory;
  train(directory);
  output_of(directory, {"export", "--to=half", "--dtype=bfloat16", "--ranks=2"});
  output_of(directory, {"export", "--to=whole", "--ranks=2"});
  const auto bytes = [&](const std::string& to) {
    return fs::file_size(directory.file(to + "/shard-00001-model-00001-of-00001.safetensors"));
  };
  EXPECT_LT(bytes("half"), bytes("whole"));
  sample(directory, "--out_dir=half");  // bfloat16 can be read
}

// GPT-2's files lack nanofsdp's description of the model, so export adds it.
TEST(Export, WritesAPretrainedModel) {
  const TemporaryDirectory directory;
  fs::copy(NANOFSDP_SOURCE_DIR "/tests/parity/gpt2", directory.file("gpt2"));
  const Words pretrained = {"--init_from=gpt2", "--pretrained=gpt2", "--ranks=3"};
  Words written = {"export", "--to=shards"}, whole = {"sample", "--start=he", "--top_k=1"};
  written.insert(written.end(), pretrained.begin(), pretrained.end());
  whole.insert(whole.end(), pretrained.begin(), pretrained.end());
  output_of(directory, written);
  EXPECT_EQ(output_of(directory, {"sample", "--out_dir=shards", "--start=he", "--top_k=1"}),
            output_of(directory, whole));
}

TEST(Export, IsRefusedInOneLine) {
  const TemporaryDirectory directory;
  train(directory);
  const auto refusal = [&](const Words& words) {
    const std::string err = output_of(directory, words, 2);
    EXPECT_EQ(std::ranges::count(err, '\n'), 1) << err;
    return err;
  };
  EXPECT_NE(refusal({"export", "--to=out", "--ranks=2"}).find("without .safetensors files"),
            std::string::npos);
  output_of(directory, {"export", "--ranks=2"});
  fs::remove(directory.file("out/shards/shard-00001-model-00001-of-00001.safetensors"));
  EXPECT_NE(refusal({"sample", "--out_dir=out/shards"}).find("2 files of one model, got 1"),
            std::string::npos);
}

}  // namespace
}  // namespace nanofsdp::export_test
