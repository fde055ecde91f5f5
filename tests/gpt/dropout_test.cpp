#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/dropout_key.h"
#include "gpt/gpt.h"
#include "support/whole_model.h"

namespace nanofsdp::gpt {
namespace {

using testing::Owned;
using testing::WholeModel;

// In a pass, the masks of block k have the numbers 1 + 3 k to 3 + 3 k, after the mask of the
// embeddings. So runs of older versions continue with the same masks. In this test one place adds
// ones, and all others add zeros.
TEST(GPT, DropsByThePlaceInForward) {
  GPTConfig config{.block_size = 1, .vocab_size = 64, .n_layer = 5, .n_head = 1, .n_embd = 64};
  config.dropout = 0.5f;
  Context context;
  GPT model(config);
  WholeModel memory(model);
  for (int i = 0; i < 64; ++i) memory["transformer.wte.weight"].data.f32()[i * 65] = 1e-3f;
  const auto fill = [&](const std::string& name, float value) {
    for (float& x : memory[name].data.span<float>()) x = value;
  };
  fill("transformer.ln_f.weight", 1);
  std::vector<std::pair<std::string, int>> places = {{"transformer.wpe.weight", 0}};
  for (int k = 0; k < 5; ++k) {
    const std::string h = "transformer.h." + std::to_string(k);
    places.emplace_back(h + ".attn.c_proj.bias", 2 + 3 * k);
    places.emplace_back(h + ".mlp.c_proj.bias", 3 + 3 * k);
  }
  nn::Tape tape(context);
  Owned<std::int32_t> token({1, 1}, 63);
  for (const auto& [name, site] : places) {
    fill(name, 1);
    const DropoutKey key{.seed = 5, .iteration = 7, .micro_step = 2, .first_row = 3};
    tape.begin(true, key);
    const std::span<float> logits = model.forward(tape, token).span<float>();
    const float most = std::ranges::max(logits.first(63));
    DropoutKey mask = key;
    mask.site = site;
    for (std::uint32_t i = 0; i < 63; ++i) {
      EXPECT_EQ(logits[i] == most, keep(row_key(mask, 0), i, drop_threshold(0.5))) << name << i;
    }
    tape.end();
    fill(name, 0);
  }
}

// The backward of a block frees its temporaries: a block more needs what its forward saves.
TEST(Memory, OfBackwardIsThatOfOneBlock) {
  const auto peak = [](std::int64_t layers, bool backward) {
    GPTConfig config{
        .block_size = 8, .vocab_size = 5, .n_layer = layers, .n_head = 2, .n_embd = 16};
    GPT model(config);
    testing::WholeModel whole(model);
    Context context;
    nn::Tape tape(context);
    testing::Owned<std::int32_t> tokens({2, 8});
    tape.begin(true);
    const Tensor logits = model.forward(tape, tokens.view());
    if (backward) model.backward(tape, logits);
    backward ? tape.end_backward() : tape.end();
    return context.ledger.count(MemoryClass::activations).reserved_peak;
  };
  const std::int64_t saved = peak(3, false) - peak(2, false);
  EXPECT_GT(saved, 0);
  EXPECT_EQ(peak(3, true) - peak(2, true), saved);
  EXPECT_GT(peak(2, true), peak(2, false));
}

}  // namespace
}  // namespace nanofsdp::gpt
