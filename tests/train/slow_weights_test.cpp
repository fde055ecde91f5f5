#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>

#include "comm/local.h"
#include "comm/operation.h"
#include "gpt/gpt.h"
#include "support/temporary_directory.h"
#include "train/pretrained.h"

// Tests that the other ranks wait for a rank as long as its disk needs.

namespace nanofsdp::train {
namespace {

using nanofsdp::testing::TemporaryDirectory;

// A rank that says when it works alone. Its files are there only as long as it does so.
class OnlyWhileAlone final : public comm::Communicator {
 public:
  explicit OnlyWhileAlone(const std::string& path) : Communicator(0, 1), path_(path) {
    work(-1, "");
  }
  Event run(Stream&, const comm::Operation&, Tensor, Tensor) override { return {}; }
  std::unique_ptr<Communicator> split(int) override { return comm::make_self(); }
  void work(int begins, const std::string&) override {
    std::filesystem::rename(path_ + (begins > 0 ? ".away" : ""),
                            path_ + (begins > 0 ? "" : ".away"));
  }
  void abort(const std::string&) noexcept override {}

 private:
  const std::string path_;
};

// Another rank must not take a rank for lost while it reads from a slow disk.
TEST(Pretrained, IsReadOnlyWhileTheOthersKnowOfIt) {
  const TemporaryDirectory directory;
  const std::string path = directory.file("copy");
  std::filesystem::copy(NANOFSDP_SOURCE_DIR "/tests/parity/gpt2", path);
  gpt::GPT model(read_model_info(path).config);
  Context context;
  comm::Mesh mesh(std::make_unique<OnlyWhileAlone>(path));
  fsdp::ShardedModel sharded(context, model, mesh, {.wrap_policy = fsdp::is_a<gpt::Block>});
  load_model(path, sharded);
  EXPECT_FALSE(std::filesystem::exists(path));
}

}  // namespace
}  // namespace nanofsdp::train
