#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "support/temporary_directory.h"
#include "support/usage_error.h"
#include "train/pretrained.h"
#include "train/small_gpt2.h"

// Files whose model is not the one that would be computed.

namespace nanofsdp::train::pretrained_refused_test {
namespace {

using testing::one_line_with;
using testing::TemporaryDirectory;
using testing::usage_error;

TEST(Pretrained, OfAnUnknownPrefixIsNamedAsItIs) {
  const TemporaryDirectory directory;
  const std::string path = rewritten(directory, [](Stored& tensor) {
    tensor.info.name = "model." + tensor.info.name;
    return true;
  });
  const std::string error = usage_error([&] { read_model_info(path); });
  EXPECT_TRUE(
      one_line_with(error, {"'h.0.attn.c_attn.weight'", "got 'model.h.0.attn.c_attn.weight'"}))
      << error;
}

// Each of these would leave a model that computes something else, without an error.
TEST(Pretrained, RefusesTensorsThatOurLayersLack) {
  const auto error = [](const auto& change) {
    const TemporaryDirectory directory;
    const std::string path = rewritten(directory, change);
    directory.write("copy/config.json", R"({"n_head": 2})");
    return usage_error([&] { read_model_info(path); });
  };
  EXPECT_EQ(error([](Stored&) { return true; }), "no error");
  for (const auto& [missing, left] : {std::pair("ln_f.bias", "'h.0.attn.c_attn.bias'"),
                                      {"h.1.ln_1.weight", "'h.1.attn.c_attn.bias'"}}) {
    const std::string told = error([&](Stored& t) { return t.info.name != missing; });
    EXPECT_TRUE(one_line_with(told, {left, "layers with", "biases", "beside them"})) << told;
  }
  for (const char* as : {"h.0.attn.c_proj.lora_A.weight", "h.7.ln_1.weight", "h.1.scale"}) {
    const std::string told = error([&](Stored& t) {
      if (t.info.name == "h.0.attn.bias") t.info.name = as;
      return true;
    });
    EXPECT_TRUE(one_line_with(told, {as, "beside them"})) << told;
  }
}

// Some files have the head beside the embedding, with which ours shares its values.
TEST(Pretrained, MayHaveAHeadIfItIsTheEmbedding) {
  const std::size_t numel = 264 * 8;
  for (const bool tied : {true, false}) {
    const TemporaryDirectory directory;
    std::vector<float> embedding;
    const store::SafetensorsFile file(kSmall + "/model.safetensors");
    for (const store::TensorInfo& info : file.tensors())
      if (info.name == "wte.weight") embedding = file.read(info);
    ASSERT_EQ(embedding.size(), numel);
    if (!tied) embedding.back() += 1;
    const std::string path = rewritten(directory, [&](Stored& tensor) {
      if (tensor.info.name == "h.0.attn.bias") tensor = {{"lm_head.weight", {264, 8}}, embedding};
      return true;
    });
    const std::string told = usage_error([&] { read_model_info(path); });
    if (tied) {
      EXPECT_EQ(told, "no error");
    } else {
      EXPECT_TRUE(one_line_with(told, {"'lm_head.weight'", "the embedding as head"})) << told;
    }
  }
}

TEST(Pretrained, RefusesAnotherModel) {
  const TemporaryDirectory directory;
  const auto error = [&] { return usage_error([&] { read_model_info(directory.file("")); }); };
  EXPECT_TRUE(one_line_with(error(), {"model.safetensors", "no such file"})) << error();
  std::filesystem::copy(kSmall, directory.file(""));
  for (const char* config : {"", "[]", "{}", R"({"n_head": "2"})", R"({"n_head": -2})",
                             R"({"n_head": 0})", R"({"n_head": 3})", R"({"n_head": 2.5})"}) {
    directory.write("config.json", config);
    EXPECT_TRUE(one_line_with(error(), {"config.json", "n_head"})) << config << error();
  }
  std::filesystem::remove(directory.file("config.json"));
  EXPECT_TRUE(one_line_with(error(), {"config.json", "n_head", "no such file"})) << error();
}

}  // namespace
}  // namespace nanofsdp::train::pretrained_refused_test
