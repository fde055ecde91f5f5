#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "support/temporary_directory.h"
#include "support/usage_error.h"
#include "train/pretrained.h"

namespace nanofsdp::train {
namespace {

using namespace nanofsdp::testing;

const std::string kSmallGpt2 = NANOFSDP_SOURCE_DIR "/tests/parity/gpt2";

// The sizes in config.json must be those of the weights. If it asks for a computation that we do
// not have, it is refused by name.
TEST(PretrainedConfig, IsWhatTheWeightsAre) {
  const auto error_with = [](const std::string& config) {
    const TemporaryDirectory directory;
    std::filesystem::copy(kSmallGpt2, directory.file("copy"));
    directory.write("copy/config.json", config);
    return usage_error([&] { read_model_info(directory.file("copy")); });
  };
  using Case = std::pair<std::string, std::vector<const char*>>;
  for (const auto& [config, words] :
       {Case{R"("n_layer": 3)", {"n_layer to be 2", "got 3"}},
        Case{R"("n_layer": 1)", {"n_layer to be 2", "got 1", "these weights"}},
        Case{R"("n_embd": 99)", {"n_embd to be 8", "got 99"}},
        Case{R"("vocab_size": 50257)", {"vocab_size to be 264", "got 50257"}},
        Case{R"("n_positions": 1024)", {"n_positions to be 16", "got 1024"}},
        Case{R"("model_type": "gpt_neo")", {"model_type to be \"gpt2\"", "\"gpt_neo\""}},
        Case{R"("activation_function": "relu")", {"activation_function", "\"relu\""}},
        Case{R"("layer_norm_epsilon": 0.1)", {"layer_norm_epsilon", "got 0.1"}},
        Case{R"("scale_attn_weights": false)", {"scale_attn_weights", "false"}},
        Case{R"("scale_attn_by_inverse_layer_idx": true)", {"scale_attn_by_inverse_layer_idx"}},
        Case{R"("add_cross_attention": true)", {"add_cross_attention"}},
        Case{R"("tie_word_embeddings": false)", {"tie_word_embeddings"}},
        Case{R"("n_inner": 31)", {"n_inner", "31"}}}) {
    const std::string error = error_with(R"({"n_head": 2, )" + config + "}");
    EXPECT_TRUE(one_line_with(error, words)) << config << ": " << error;
  }
  EXPECT_EQ(error_with(R"({"n_head": 2, "n_layer": 2, "n_inner": null})"), "no error");
}

}  // namespace
}  // namespace nanofsdp::train
