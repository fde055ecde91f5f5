#include "train/pretrained.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/dtype.h"
#include "gpt/gpt.h"
#include "store/safetensors.h"
#include "support/errors.h"
#include "support/ranks.h"
#include "support/temporary_directory.h"
#include "support/usage_error.h"
#include "train/sampler.h"
#include "train/small_gpt2.h"

// Tests a small GPT-2 in Hugging Face's files, which tests/parity/gpt2.py wrote with PyTorch,
// together with PyTorch's results in float64.

namespace nanofsdp::train {
namespace {

using nanofsdp::testing::Backend;
using nanofsdp::testing::one_line_with;
using nanofsdp::testing::read_file;
using nanofsdp::testing::run_ranks;
using nanofsdp::testing::TemporaryDirectory;
using nanofsdp::testing::usage_error;
using Tokens = std::vector<std::int32_t>;

// The lines of expected.txt: their first words, and the numbers after them.
std::map<std::string, std::vector<double>> expected() {
  std::map<std::string, std::vector<double>> lines;
  std::istringstream file(read_file(kSmall + "/expected.txt"));
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string name, position;
    words >> name;
    if (name == "logits" && words >> position) name += " " + position;
    for (double x; words >> x;) lines[name].push_back(x);
  }
  return lines;
}

Tokens tokens_of(const std::vector<double>& numbers) { return {numbers.begin(), numbers.end()}; }

// The result of `use(sharded, tape, context)` for the model in a directory, on rank 0 of `ranks`
// ranks.
template <class Use>
auto with_model(const std::string& directory, int ranks, std::int64_t block_size, const Use& use) {
  return run_ranks(ranks == 1 ? Backend::self : Backend::local, ranks,
                   [&](Context& context, std::unique_ptr<comm::Communicator> world) {
                     comm::Mesh mesh(std::move(world));
                     gpt::GPTConfig config = read_model_info(directory).config;
                     config.block_size = block_size;
                     gpt::GPT model(config);
                     fsdp::ShardedModel sharded(context, model, mesh,
                                                {.wrap_policy = fsdp::is_a<gpt::Block>});
                     load_model(directory, sharded);
                     nn::Tape tape(context);
                     return use(sharded, tape, context);
                   })[0];
}

std::vector<float> logits_of(const std::string& directory, int ranks, std::int64_t block_size) {
  const Tokens all = tokens_of(expected()["tokens"]);
  return with_model(directory, ranks, block_size,
                    [&](fsdp::ShardedModel& model, nn::Tape& tape, Context&) {
                      tape.begin(/*training=*/false);
                      const Tensor x = tape.allocate({1, block_size}, DType::int32);
                      std::copy_n(all.begin(), block_size, x.data<std::int32_t>());
                      const Tensor y = model.forward(tape, x);
                      tape.stream().synchronize();
                      return std::vector<float>(y.f32(), y.f32() + y.numel());
                    });
}

void expect_logits(const std::vector<float>& got, const std::vector<std::string>& positions) {
  const auto want = expected();
  for (const std::string& position : positions) {
    const std::vector<double>& row = want.at("logits " + position);
    for (std::size_t v = 0; v < row.size(); ++v) {
      EXPECT_NEAR(got[std::stoul(position) * row.size() + v], row[v], 1e-5) << position << " " << v;
    }
  }
}

TEST(Pretrained, SaysItsSizes) {
  const gpt::GPTConfig config = read_model_info(kSmall).config;
  EXPECT_EQ(config.block_size, 16);
  EXPECT_EQ(config.vocab_size, 264);
  EXPECT_EQ(config.n_layer, 2);
  EXPECT_EQ(config.n_head, 2);
  EXPECT_EQ(config.n_embd, 8);
  EXPECT_TRUE(config.bias);
}

TEST(Pretrained, HasTheLogitsOfPyTorch) {
  for (const int ranks : {1, 2, 3}) {
    expect_logits(logits_of(kSmall, ranks, 16), {"0", "7", "15"});
  }
}

// This is nanoGPT's crop_block_size: the positions that are left have not changed.
TEST(Pretrained, CropsToASmallerContext) {
  for (const int ranks : {1, 3}) expect_logits(logits_of(kSmall, ranks, 8), {"0", "7"});
}

TEST(Pretrained, HasNoPositionsForALongerContext) {
  testing::expect_error<std::exception>([] { logits_of(kSmall, 1, 17); },
                                        "'wpe.weight' of shape [17, 8], got [16, 8]");
}

// The text is three times as long as the context. PyTorch's likeliest token was always clear.
TEST(Pretrained, WritesTheGreedyTextOfPyTorch) {
  const Tokens want = tokens_of(expected()["greedy"]);
  for (const int ranks : {1, 2}) {
    const Tokens got = with_model(
        kSmall, ranks, 16, [&](fsdp::ShardedModel& model, nn::Tape& tape, Context& context) {
          nn::KeyValueCache cache(context, 16);
          Generator generator(1);
          return generate(model, tape, cache, {want[0]},
                          {.max_new_tokens = std::ssize(want) - 1, .temperature = 1, .top_k = 1},
                          generator);
        });
    EXPECT_EQ(got, want);
  }
}

TEST(Pretrained, MayHaveThePrefixAndNoMasks) {
  const TemporaryDirectory directory;
  expect_logits(logits_of(rewritten(directory,
                                    [](Stored& tensor) {
                                      tensor.info.name = "transformer." + tensor.info.name;
                                      return !tensor.info.name.ends_with(".attn.bias");
                                    }),
                          1, 16),
                {"0", "7", "15"});
}

// nanoGPT saves a model in this layout: matrices [out, in].
TEST(Pretrained, MayHaveTheLayoutOfLinear) {
  const TemporaryDirectory directory;
  const std::string path = rewritten(directory, [](Stored& tensor) {
    auto& shape = tensor.info.shape;
    if (shape.size() != 2 || !tensor.info.name.starts_with("h.")) return true;
    const std::vector<float> before = tensor.values;
    const auto rows = static_cast<std::size_t>(shape[0]), cols = static_cast<std::size_t>(shape[1]);
    for (std::size_t i = 0; i < before.size(); ++i) {
      tensor.values[i % cols * rows + i / cols] = before[i];
    }
    std::swap(shape[0], shape[1]);
    return true;
  });
  expect_logits(logits_of(path, 2, 16), {"0", "7", "15"});
}

TEST(Pretrained, NamesWhatIsMissing) {
  for (const std::string missing :
       {"wte.weight", "wpe.weight", "h.0.attn.c_attn.weight", "h.1.mlp.c_fc.bias"}) {
    const TemporaryDirectory directory;
    const std::string path =
        rewritten(directory, [&](Stored& tensor) { return tensor.info.name != missing; });
    try {
      logits_of(path, 2, 16);
      ADD_FAILURE() << "nobody missed " << missing;
    } catch (const nanofsdp::testing::RankError& error) {
      EXPECT_TRUE(one_line_with(error.what(), {"model.safetensors", missing.c_str(), "none"}));
    }
  }
}

// The names are those of torch.compile, of DDP, and of both. The head shares the embedding, so
// save_model of safetensors keeps only the head. No prefix is so long that a rank would run out of
// stack.
TEST(Pretrained, MayHaveTheNamesOfThoseWhoSaveIt) {
  std::string long_one;
  for (int i = 0; i < 20'000; ++i) long_one += "module.";
  for (const std::string& prefix : {std::string("_orig_mod."), std::string("module."),
                                    std::string("module._orig_mod.transformer."), long_one}) {
    const TemporaryDirectory directory;
    const auto change = [&](Stored& tensor) {
      tensor.info.name =
          prefix + (tensor.info.name == "wte.weight" ? "lm_head.weight" : tensor.info.name);
      return true;
    };
    expect_logits(logits_of(rewritten(directory, change), 2, 16), {"0", "7", "15"});
  }
}

// The dtype and the shape of tensors that are no parameters do not matter.
TEST(Pretrained, MayHaveSurplusTensorsOfAnyKind) {
  const TemporaryDirectory directory;
  const std::string path = rewritten(directory, [](Stored&) { return true; });
  std::string text = read_file(path + "/model.safetensors");
  std::uint64_t size = 0;
  std::memcpy(&size, text.data(), sizeof size);
  auto header = nlohmann::json::parse(text.substr(8, size));
  std::uint64_t end = text.size() - 8 - size;
  for (const auto& [name, dtype, bytes] : {std::tuple{"position_ids", "I64", 24},
                                           {"h.0.attn.masked_bias", "BOOL", 3},
                                           {"x", "F8_E4M3", 3},
                                           {"y", "SOMETHING_NEW", 5}}) {
    header[name] = {{"dtype", dtype}, {"shape", {3}}, {"data_offsets", {end, end + bytes}}};
    end += bytes;
  }
  std::string head = header.dump();
  head.resize((head.size() + 7) / 8 * 8, ' ');
  const std::uint64_t new_size = head.size();
  std::string data = text.substr(8 + size);
  data.resize(end);
  std::ofstream(path + "/model.safetensors", std::ios::binary)
      << std::string(reinterpret_cast<const char*>(&new_size), 8) << head << data;
  expect_logits(logits_of(path, 2, 16), {"0", "7", "15"});
}

TEST(Pretrained, MayBeBfloat16WhichIsWidened) {
  const TemporaryDirectory directory;
  const std::string path = rewritten(directory, [](Stored& tensor) {
    tensor.info.dtype = "BF16";
    return true;
  });
  store::SafetensorsFile exact(kSmall + "/model.safetensors"), narrow(path + "/model.safetensors");
  for (const store::TensorInfo& info : exact.tensors()) {
    const std::vector<float> want = exact.read(info), got = narrow.read(info);
    for (std::size_t i = 0; i < want.size(); ++i)
      ASSERT_EQ(got[i], to_float32(to_bfloat16(want[i]))) << info.name << " " << i;
  }
  EXPECT_EQ(read_model_info(path).config.n_layer, 2);
}

}  // namespace
}  // namespace nanofsdp::train
