#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/rng.h"
#include "support/sha256.h"

// Every weight of a nanoGPT, to the bit: the draws that building the model makes in PyTorch, one by
// one, against hashes from PyTorch 1.13.1 (x86, AVX2), seed 1337.

namespace nanofsdp {
namespace {

using Values = std::vector<float>;

struct Shape {
  std::size_t layers, width, block, vocab;
  bool bias;
};

struct Block {
  Values c_attn, attn_proj, c_fc, mlp_proj;
};

class Gpt {
 public:
  explicit Gpt(Shape s) : s_(s), wte_(s.vocab * s.width), wpe_(s.block * s.width) {
    const std::size_t square = s.width * s.width;
    blocks_.assign(s.layers,
                   {Values(3 * square), Values(square), Values(4 * square), Values(4 * square)});
  }

  // nanoGPT's GPT(config): the constructors' draws, of which nothing survives, then its own.
  void draw_nanogpt(Generator& g) {
    embedding(g, wte_);
    embedding(g, wpe_);
    for (const Block& b : blocks_) {
      linear(g, b.c_attn, 3 * s_.width);
      linear(g, b.attn_proj, s_.width);
      linear(g, b.c_fc, 4 * s_.width);
      linear(g, b.mlp_proj, s_.width);
    }
    linear(g, wte_, 0);  // lm_head, without bias
    g.normal(wte_, 0, kStd);
    g.normal(wpe_, 0, kStd);
    draw_blocks(g);
    g.normal(wte_, 0, kStd);  // the tied weight again, as lm_head: this draw wins
    const double scaled = kStd / std::sqrt(2 * static_cast<double>(s_.layers));
    for (Block& b : blocks_) {
      g.normal(b.attn_proj, 0, scaled);
      g.normal(b.mlp_proj, 0, scaled);
    }
  }

  // FSDP's deferred initialisation: blocks first, the root last, each breadth-first.
  void draw_fsdp(Generator& g) {
    draw_blocks(g);
    g.normal(wte_, 0, kStd);  // as lm_head
    g.normal(wte_, 0, kStd);  // as wte: this draw wins
    g.normal(wpe_, 0, kStd);
  }

  // All parameters in the order of named_parameters(), the tied weight once.
  std::string sha256() const {
    testing::Sha256 hash;
    const auto add = [&](const Values& weight, std::size_t bias) {
      hash.update(std::span<const float>(weight));
      hash.update(std::span<const float>(Values(s_.bias ? bias : 0)));
    };
    const Values ones(s_.width, 1.0f);
    add(wte_, 0);
    add(wpe_, 0);
    for (const Block& b : blocks_) {
      add(ones, s_.width);  // ln_1
      add(b.c_attn, 3 * s_.width);
      add(b.attn_proj, s_.width);
      add(ones, s_.width);  // ln_2
      add(b.c_fc, 4 * s_.width);
      add(b.mlp_proj, s_.width);
    }
    add(ones, s_.width);  // ln_f
    return hash.hex();
  }

 private:
  static constexpr double kStd = 0.02;

  static void embedding(Generator& g, const Values& weight) {
    g.discard_normal(static_cast<std::int64_t>(weight.size()));
  }

  void linear(Generator& g, const Values& weight, std::size_t bias) const {
    g.discard_uniform(static_cast<std::int64_t>(weight.size() + (s_.bias ? bias : 0)));
  }

  void draw_blocks(Generator& g) {
    for (Block& b : blocks_) {
      for (Values* w : {&b.c_attn, &b.attn_proj, &b.c_fc, &b.mlp_proj}) g.normal(*w, 0, kStd);
    }
  }

  Shape s_;
  Values wte_, wpe_;
  std::vector<Block> blocks_;
};

struct InitCase {
  std::string name;
  Shape shape;
  std::string nanogpt, fsdp;
};

class RngInit : public ::testing::TestWithParam<InitCase> {};

TEST_P(RngInit, NanogptOrder) {
  Gpt gpt(GetParam().shape);
  Generator generator(1337);
  gpt.draw_nanogpt(generator);
  EXPECT_EQ(gpt.sha256(), GetParam().nanogpt);
}

TEST_P(RngInit, FsdpOrder) {
  Gpt gpt(GetParam().shape);
  Generator generator(1337);
  gpt.draw_fsdp(generator);
  EXPECT_EQ(gpt.sha256(), GetParam().fsdp);
}

constexpr Shape kChar = {.layers = 4, .width = 128, .block = 64, .vocab = 65, .bias = false};
constexpr Shape kCharBias = {.layers = 4, .width = 128, .block = 64, .vocab = 65, .bias = true};
constexpr Shape kSix = {.layers = 6, .width = 384, .block = 256, .vocab = 65, .bias = false};
constexpr Shape kOdd = {.layers = 2, .width = 5, .block = 7, .vocab = 13, .bias = true};

INSTANTIATE_TEST_SUITE_P(
    Models, RngInit,
    ::testing::Values(InitCase{"Char", kChar,
                               "6e2953416628e72eb2017e6bcf75fb662e84e846c5697d2abdf8dea8ead8a547",
                               "7dd50ad69f49629187eb565efded1cc38c1919fd98a9637652d21aca7d8b9c7e"},
                      InitCase{"CharWithBias", kCharBias,
                               "23c4991e14a9094368d3fc36758b936787631bc8b0fe24fbe99230826d5d4771",
                               "a14e5378e9537431d49fbf5506a177cf25850aabaf358ba438f97e700d78b318"},
                      InitCase{"SixLayers", kSix,
                               "c3f151f8642c36a2fa122aa87a28b710dc273c92c86ec1c468140db8e348c1bb",
                               "a8fcd9d7ea81e164e7617c65713283be9e2c4a928c76baf275377b05fd443747"},
                      InitCase{"OddSizes", kOdd,
                               "959f364f7c2b98cae5ce972db08004477314b62614cf6d8075df8528c211ff34",
                               "c018a21b2c6c28bde5fa3999a8df0b0d42a8164795f0a5402b64d7af315e0d07"}),
    [](const auto& info) { return info.param.name; });

// The batches come from the same stream, where building the model left it.
TEST(RngBatches, FirstTrainBatchesAfterBuildingTheModel) {
  constexpr std::uint64_t train_tokens = 1003854;  // of tiny Shakespeare
  Gpt gpt(kChar);
  Generator generator(1337);
  gpt.draw_nanogpt(generator);
  std::vector<std::int64_t> starts(24);
  generator.randint(starts, train_tokens - kChar.block);
  EXPECT_EQ(starts, (std::vector<std::int64_t>{485778, 573436, 991809, 730911, 545111, 732960,
                                               656043, 328484, 116521, 817434, 510961, 595837,
                                               832423, 393994, 900649, 824256, 932818, 496937,
                                               845498, 750279, 473896, 396168, 309985, 569132}));
}

// FIPS 180-4's examples: empty, one block, and a message whose length spills into a second block.
TEST(Sha256, KnownDigests) {
  const auto digest = [](const std::string& s) {
    return testing::sha256(std::span<const char>(s));
  };
  EXPECT_EQ(digest(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(digest("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(digest("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

}  // namespace
}  // namespace nanofsdp
