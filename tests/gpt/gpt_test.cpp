#include "gpt/gpt.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "base/check.h"
#include "gpt/attention.h"
#include "nn/loss.h"
#include "support/usage_error.h"
#include "support/whole_model.h"

namespace nanofsdp::gpt {
namespace {

using testing::Owned;
using testing::WholeModel;

constexpr GPTConfig kRecipe{.block_size = 64,
                            .vocab_size = 65,
                            .n_layer = 4,
                            .n_head = 4,
                            .n_embd = 128,
                            .dropout = 0,
                            .bias = false};

std::int64_t numel(GPT& model) {
  std::int64_t n = 0;
  for (const nn::Parameter* parameter : model.named_parameters()) n += parameter->shape.numel();
  return n;
}

TEST(GPT, HasNanoGPTsNamesInPyTorchsOrder) {
  GPTConfig config = kRecipe;
  config.n_layer = 1;
  config.bias = true;
  GPT model(config);
  std::vector<std::string> names;
  for (const nn::Parameter* parameter : model.named_parameters()) names.push_back(parameter->name);
  const std::string h = "transformer.h.0.";
  const std::vector<std::string> expected = {
      "transformer.wte.weight", "transformer.wpe.weight", h + "ln_1.weight",
      h + "ln_1.bias",          h + "attn.c_attn.weight", h + "attn.c_attn.bias",
      h + "attn.c_proj.weight", h + "attn.c_proj.bias",   h + "ln_2.weight",
      h + "ln_2.bias",          h + "mlp.c_fc.weight",    h + "mlp.c_fc.bias",
      h + "mlp.c_proj.weight",  h + "mlp.c_proj.bias",    "transformer.ln_f.weight",
      "transformer.ln_f.bias"};
  EXPECT_EQ(names, expected);
}

TEST(GPT, CountsParametersAsNanoGPT) {
  GPT recipe(kRecipe);
  EXPECT_EQ(numel(recipe), 804096);
  GPTConfig biased = kRecipe;
  biased.bias = true;
  GPT with_bias(biased);
  EXPECT_EQ(numel(with_bias), 809856);
  GPT by_default{GPTConfig()};
  EXPECT_EQ(numel(by_default), 124'475'904) << "GPT-2 124M, with a vocabulary padded to 50,304";
}

// A wrong token can only matter from its position on, to the bit.
// PyTorch's Linear draws its weight and then its bias from one interval, of 1 / sqrt(fan-in). What
// nanoGPT draws later are normals.
TEST(GPT, DrawsEveryLinearAsPyTorchConstructsIt) {
  for (const bool bias : {false, true}) {
    GPTConfig config = kRecipe;
    config.bias = bias;
    GPT model(config);
    std::vector<std::string> expected, drawn;
    for (const nn::Parameter* p : model.named_parameters()) {
      if (p->name.find(".c_") != std::string::npos) expected.push_back(p->name);
    }
    expected.push_back("transformer.wte.weight");  // the head's weight, before it is tied
    double bound = 0;
    for (const nn::Draw& draw : model.nanogpt_draws()) {
      if (draw.init.kind != nn::Init::Kind::uniform) continue;
      drawn.push_back(draw.parameter->name);
      const Shape& shape = draw.parameter->shape;
      if (shape.rank() == 2) bound = 1 / std::sqrt(static_cast<double>(shape[1]));
      EXPECT_NEAR(draw.init.scale, bound, 1e-7) << drawn.back();
    }
    EXPECT_EQ(drawn, expected);
  }
}

// After PyTorch's constructors nanoGPT draws every weight again, the head's tied weight once more,
// and at last each c_proj.
TEST(GPT, DrawsItsWeightsInTheOrderOfNanoGPT) {
  GPT model(kRecipe);
  std::vector<std::string> expected, drawn, scaled;
  for (const nn::Parameter* p : model.named_parameters()) {
    expected.push_back(p->name);
    if (p->name.ends_with("c_proj.weight")) scaled.push_back(p->name);
  }
  EXPECT_EQ(std::ssize(scaled), 2 * kRecipe.n_layer);
  expected.push_back("transformer.wte.weight");
  expected.insert(expected.end(), scaled.begin(), scaled.end());
  for (const nn::Draw& draw : model.nanogpt_draws()) drawn.push_back(draw.parameter->name);
  ASSERT_GT(drawn.size(), expected.size());
  EXPECT_EQ(std::vector(drawn.end() - std::ssize(expected), drawn.end()), expected);
}

TEST(GPT, IsCausal) {
  Context context;
  GPT model(kRecipe);
  WholeModel memory(model);
  memory.initialise(model.nanogpt_draws(), 1337);
  nn::Tape tape(context);
  Owned<std::int32_t> tokens({1, 64}, 7);
  const auto logits = [&] {
    tape.begin(false);
    const std::span<float> y = model.forward(tape, tokens).span<float>();
    std::vector<float> copy(y.begin(), y.end());
    tape.end();
    return copy;
  };
  const std::vector<float> before = logits();
  tokens.values[40] = 8;
  const std::vector<float> after = logits();
  const auto position = [](const std::vector<float>& y, std::size_t t) {
    return std::vector<float>(y.begin() + t * 65, y.begin() + (t + 1) * 65);
  };
  for (std::size_t t = 0; t < 40; ++t) EXPECT_EQ(position(before, t), position(after, t)) << t;
  EXPECT_NE(position(before, 40), position(after, 40));
}

TEST(GPT, StartsNearTheLossOfGuessing) {
  Context context;
  GPT model(kRecipe);
  WholeModel memory(model);
  memory.initialise(model.nanogpt_draws(), 1337);
  nn::Tape tape(context);
  Owned<std::int32_t> tokens({12, 64}), targets({12, 64});
  for (std::size_t i = 0; i < tokens.values.size(); ++i) {
    tokens.values[i] = static_cast<std::int32_t>(i * 31 % 65);
    targets.values[i] = static_cast<std::int32_t>(i * 17 % 65);
  }
  Owned<double> total({1});
  tape.begin(true);
  cross_entropy(tape, model.forward(tape, tokens), targets, total);
  EXPECT_NEAR(total.values[0] / 768, std::log(65.0), 0.1);
}

// The gradient of the whole batch is the sum of the micro-batches' gradients, each scaled by the
// number of all tokens. Gradient accumulation and data parallelism need this. Dropout is on: a mask
// belongs to its row, not to the batch of the row.
TEST(GPT, GradientsOfRowsAddUpToThoseOfTheBatch) {
  GPTConfig config = kRecipe;
  config.n_layer = 2;
  config.dropout = 0.2f;
  Context context;
  GPT model(config);
  WholeModel memory(model);
  memory.initialise(model.nanogpt_draws(), 1337);
  nn::Tape tape(context);
  Owned<std::int32_t> tokens({6, 64}), targets({6, 64});
  for (std::size_t i = 0; i < tokens.values.size(); ++i) {
    tokens.values[i] = static_cast<std::int32_t>(i * 31 % 65);
    targets.values[i] = static_cast<std::int32_t>(i * 17 % 63);
  }
  Owned<double> total({1});
  const auto add_gradients = [&](std::int64_t first, std::int64_t rows) {
    tape.begin(true, {.seed = 1, .iteration = 5, .first_row = first});
    const Tensor x = tokens.view().slice(first * 64, rows * 64).view({rows, 64});
    const Tensor y = targets.view().slice(first * 64, rows * 64).view({rows, 64});
    cross_entropy(tape, model.forward(tape, x), y, total);
    const Tensor dlogits = cross_entropy_backward(tape, 1.0f / (6 * 64));
    EXPECT_TRUE(model.backward(tape, dlogits).empty()) << "tokens have no gradient";
    tape.end_backward();
  };
  const auto gradients = [&] {
    std::vector<std::vector<double>> all;
    for (const nn::Parameter* p : memory.parameters) {
      const auto g = p->grad().span<float>();
      all.emplace_back(g.begin(), g.end());
    }
    return all;
  };
  add_gradients(0, 6);
  const auto whole = gradients();
  memory.zero_grad();
  add_gradients(0, 1);
  add_gradients(1, 3);
  add_gradients(4, 2);
  for (std::size_t i = 0; i < whole.size(); ++i) {
    EXPECT_LE(testing::relative_l2(memory.parameters[i]->grad().span<float>(), whole[i]), 2e-6)
        << memory.parameters[i]->name;
  }
}

// Every site on the residual path has its own dropout. Two sites add ones through dropout, so an
// element is the sum of 0, 1 or 2 survivors. With a shared mask it would be 0 or 2.
TEST(GPT, DropsOtherElementsAtEverySite) {
  GPTConfig config{.block_size = 1, .vocab_size = 64, .n_layer = 2, .n_head = 1, .n_embd = 64};
  config.dropout = 0.5f;
  config.bias = true;
  Context context;
  GPT model(config);
  WholeModel memory(model);
  for (int i = 0; i < 64; ++i) memory["transformer.wte.weight"].data.f32()[i * 65] = 1e-3f;
  const auto fill = [&](const std::string& name, float value) {
    for (float& x : memory[name].data.span<float>()) x = value;
  };
  fill("transformer.ln_f.weight", 1);
  const std::string h = "transformer.h.";
  const std::vector<std::string> sites = {"transformer.wpe.weight", h + "0.attn.c_proj.bias",
                                          h + "0.mlp.c_proj.bias", h + "1.attn.c_proj.bias",
                                          h + "1.mlp.c_proj.bias"};
  nn::Tape tape(context);
  Owned<std::int32_t> token({1, 1}, 63);
  for (std::size_t i = 0; i < sites.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      for (const std::string& site : sites) fill(site, site == sites[i] || site == sites[j]);
      tape.begin(true, {.seed = 1});
      const std::span<float> logits = model.forward(tape, token).span<float>();
      EXPECT_EQ(std::set<float>(logits.begin(), logits.end() - 1).size(), 3u)
          << sites[j] << " and " << sites[i];
      tape.end();
    }
  }
}

// The text has one token. Its only probability is element 0 of a mask, and so is the first element
// of the output. With a shared mask both would always be dropped together.
TEST(GPT, AttentionDropsInsideAndAfterApart) {
  Context context;
  CausalSelfAttention attention({.n_head = 1, .n_embd = 64, .dropout = 0.5f});
  WholeModel memory(attention);
  for (const char* bias : {"c_attn.bias", "c_proj.bias"}) {
    for (float& x : memory[bias].data.span<float>()) x = 1;
  }
  for (int i = 0; i < 64; ++i) memory["c_proj.weight"].data.f32()[i * 65] = 1;
  Owned<float> x({1, 1, 64});
  nn::Tape tape(context);
  std::set<std::pair<bool, bool>> fates;
  for (int iteration = 0; iteration < 64; ++iteration) {
    tape.begin(true, {.iteration = iteration});
    const std::span<float> y = attention.forward(tape, x).span<float>();
    // Twice the bias if the other parts are dropped.
    fates.insert({std::ranges::max(y) > 2, y[0] > 0});
    tape.end();
  }
  EXPECT_EQ(fates.size(), 4u);
}

// If all elements were dropped, the scale 1 / (1 - p) would divide by zero.
TEST(GPT, WantsADropoutBelowOne) {
  GPTConfig config = kRecipe;
  for (const float dropout : {0.0f, 0.5f, std::nextafter(1.0f, 0.0f)}) {
    config.dropout = dropout;
    EXPECT_NO_THROW(GPT{config}) << dropout;
  }
  for (const float dropout : {1.0f, 2.0f, -0.1f, INFINITY, NAN}) {
    config.dropout = dropout;
    const std::string error = testing::usage_error([&] { GPT{config}; });
    EXPECT_TRUE(testing::one_line_with(error, {"dropout", "0 <= dropout < 1"})) << dropout;
  }
}

TEST(GPT, WantsAtLeastOneOfEverything) {
  const std::pair<const char*, std::int64_t GPTConfig::*> sizes[] = {
      {"block_size", &GPTConfig::block_size},
      {"vocab_size", &GPTConfig::vocab_size},
      {"n_layer", &GPTConfig::n_layer},
      {"n_head", &GPTConfig::n_head},
      {"n_embd", &GPTConfig::n_embd}};
  for (const auto& [name, size] : sizes) {
    for (const std::int64_t n : {0, -1, -128}) {
      GPTConfig config = kRecipe;
      config.*size = n;
      EXPECT_EQ(testing::usage_error([&] { GPT{config}; }),
                fmt::format("{}: expected at least 1, got {}", name, n));
    }
  }
}

TEST(GPT, NamesTheSizeThatDoesNotFit) {
  GPTConfig config = kRecipe;
  config.n_head = 3;
  try {
    GPT model(config);
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_STREQ(error.what(), "n_embd: expected a multiple of n_head = 3, got 128");
  }
}

}  // namespace
}  // namespace nanofsdp::gpt
