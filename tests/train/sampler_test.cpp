#include "train/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "fsdp/deferred_init.h"
#include "gpt/gpt.h"
#include "support/ranks.h"
#include "support/whole_model.h"

namespace nanofsdp::train {
namespace {

using nanofsdp::testing::Backend;
using nanofsdp::testing::run_ranks;
using nanofsdp::testing::WholeModel;
using Tokens = std::vector<std::int32_t>;

constexpr gpt::GPTConfig kConfig{
    .block_size = 12, .vocab_size = 31, .n_layer = 3, .n_head = 2, .n_embd = 16};

// Values that look random, large enough that every position and every layer matters.
float value(std::size_t i) { return 0.4f * std::sin(static_cast<float>(i * i % 1009)); }

void fill(fsdp::ShardedModel& model) {
  std::size_t i = 0;
  for (fsdp::Unit& unit : model.units()) {
    const auto parameters = unit.rows()[0].parameters();
    for (std::size_t p = 0; p < parameters.size(); ++p) {
      std::vector<float> whole(static_cast<std::size_t>(parameters[p]->shape.numel()));
      for (float& x : whole) x = value(i++);
      unit.rows()[0].store(p, whole);
    }
  }
}

// The logits of nanoGPT's generate(), which computes all positions of the window for every token.
std::vector<float> last_logits(fsdp::ShardedModel& model, nn::Tape& tape, const Tokens& tokens) {
  const std::int64_t T = std::min<std::int64_t>(std::ssize(tokens), kConfig.block_size);
  tape.begin(/*training=*/false);
  const Tensor window = tape.allocate({1, T}, DType::int32);
  std::copy(tokens.end() - T, tokens.end(), window.data<std::int32_t>());
  const Tensor logits = model.forward(tape, window);
  tape.stream().synchronize();
  const std::int64_t V = kConfig.vocab_size;
  const auto last = logits.slice((T - 1) * V, V).span<float>();
  std::vector<float> copy(last.begin(), last.end());
  tape.end();
  return copy;
}

// The choice of nanoGPT's generate(): the same draw from the same generator.
Tokens generate_without_cache(fsdp::ShardedModel& model, nn::Tape& tape, Tokens tokens,
                              const SamplingOptions& options, Generator& generator) {
  for (std::int64_t i = 0; i < options.max_new_tokens; ++i) {
    std::vector<float> p = last_logits(model, tape, tokens);
    for (float& x : p) x = static_cast<float>(x / options.temperature);
    std::vector<float> sorted = p;
    std::ranges::sort(sorted, std::greater<>());
    const auto k = std::min<std::size_t>(static_cast<std::size_t>(options.top_k), p.size());
    for (float& x : p) x = x < sorted[k - 1] ? 0 : std::exp(x - sorted[0]);
    tokens.push_back(static_cast<std::int32_t>(generator.multinomial(p)));
  }
  return tokens;
}

struct Case {
  SamplingOptions options;
  Tokens prompt;
};

// Prompts that are shorter than the context, of its length, and longer; texts that end inside the
// context, and longer ones.
std::vector<Case> cases() {
  Tokens long_prompt;
  for (std::int32_t i = 0; i < 20; ++i) long_prompt.push_back(i * 7 % 31);
  const Tokens whole(long_prompt.begin(), long_prompt.begin() + 12);
  const SamplingOptions greedy{.max_new_tokens = 40, .temperature = 1, .top_k = 1};
  const SamplingOptions wild{.max_new_tokens = 40, .temperature = 1.3, .top_k = 9};
  const SamplingOptions brief{.max_new_tokens = 8, .temperature = 0.7, .top_k = 200};
  return {{greedy, {3}}, {wild, {3}},           {brief, {5, 6, 7}}, {wild, {1, 2, 3, 4}},
          {wild, whole}, {greedy, long_prompt}, {wild, long_prompt}};
}

Tokens expected(const Case& c) {
  Context context;
  comm::Mesh mesh(comm::make_self());
  gpt::GPT model(kConfig);
  fsdp::ShardedModel sharded(context, model, mesh, {.wrap_policy = fsdp::is_a<gpt::Block>});
  fill(sharded);
  nn::Tape tape(context);
  Generator generator(1337);
  return generate_without_cache(sharded, tape, c.prompt, c.options, generator);
}

// The law: the tokens are the same with and without the cache, also beyond the context, on any
// number of ranks, under any sharding.
TEST(Sampler, WritesWithTheCacheWhatItWritesWithout) {
  for (const Case& c : cases()) {
    const Tokens want = expected(c);
    ASSERT_EQ(std::ssize(want), std::ssize(c.prompt) + c.options.max_new_tokens);
    for (const int ranks : {1, 2, 3}) {
      for (const auto& strategy :
           {fsdp::ShardingStrategy::full_shard, fsdp::ShardingStrategy::no_shard}) {
        const auto got = run_ranks(
            ranks == 1 ? Backend::self : Backend::local, ranks,
            [&](Context& context, std::unique_ptr<comm::Communicator> world) {
              comm::Mesh mesh(std::move(world));
              gpt::GPT model(kConfig);
              fsdp::ShardedModel sharded(
                  context, model, mesh,
                  {.strategy = strategy, .poison = true, .wrap_policy = fsdp::is_a<gpt::Block>});
              fill(sharded);
              nn::Tape tape(context);
              nn::KeyValueCache cache(context, kConfig.block_size);
              Generator generator(1337);
              return generate(sharded, tape, cache, c.prompt, c.options, generator);
            });
        for (const Tokens& tokens : got) EXPECT_EQ(tokens, want) << ranks << " ranks";
      }
    }
  }
}

// The lower the temperature, the likelier the likeliest token, down to the lowest allowed
// temperature.
TEST(Sampler, WritesTheLikeliestTokensWhenItIsCold) {
  const Tokens prompt = {5, 6, 7};
  const Tokens greedy = expected({{.max_new_tokens = 20, .temperature = 1, .top_k = 1}, prompt});
  Context context;
  comm::Mesh mesh(comm::make_self());
  gpt::GPT model(kConfig);
  fsdp::ShardedModel sharded(context, model, mesh, {.wrap_policy = fsdp::is_a<gpt::Block>});
  fill(sharded);
  nn::Tape tape(context);
  nn::KeyValueCache cache(context, kConfig.block_size);
  for (const double temperature : {1e-3, 1e-4, 1e-5, 1e-6}) {
    Generator generator(1337);
    const SamplingOptions cold{.max_new_tokens = 20, .temperature = temperature, .top_k = 200};
    EXPECT_EQ(generate(sharded, tape, cache, prompt, cold, generator), greedy) << temperature;
  }
}

// One model, one tape and one cache write two texts. The first text must not affect the second.
TEST(Sampler, BeginsEveryTextAnew) {
  Context context;
  comm::Mesh mesh(comm::make_self());
  gpt::GPT model(kConfig);
  fsdp::ShardedModel sharded(context, model, mesh, {.wrap_policy = fsdp::is_a<gpt::Block>});
  fill(sharded);
  nn::Tape tape(context);
  nn::KeyValueCache cache(context, kConfig.block_size);
  for (const Case& c : cases()) {
    Generator generator(1337);
    EXPECT_EQ(generate(sharded, tape, cache, c.prompt, c.options, generator), expected(c));
  }
}

// A text may be given in any portions. The logits of its last token are equal, except for rounding.
TEST(Decoding, InPortionsIsTheForwardOfTheWhole) {
  Context context;
  gpt::GPT model(kConfig);
  WholeModel memory(model);
  std::size_t i = 0;
  for (nn::Parameter* parameter : memory.parameters) {
    for (float& x : parameter->data.span<float>()) x = value(i++);
  }
  nn::Tape tape(context);
  nanofsdp::testing::Owned<std::int32_t> tokens({1, 12});
  for (std::size_t t = 0; t < 12; ++t) tokens.values[t] = static_cast<std::int32_t>(t * 5 % 31);
  const auto copy = [](const Tensor& x) {
    const auto values = x.span<float>();
    return std::vector<double>(values.begin(), values.end());
  };
  tape.begin(/*training=*/false);
  const std::vector<double> whole = copy(model.forward(tape, tokens));
  tape.end();
  for (const std::vector<std::int64_t>& portions : {std::vector<std::int64_t>{12},
                                                    {1, 11},
                                                    {11, 1},
                                                    {4, 3, 5},
                                                    std::vector<std::int64_t>(12, 1)}) {
    nn::KeyValueCache cache(context, kConfig.block_size);
    std::int64_t end = 0;
    for (const std::int64_t count : portions) {
      tape.begin_decoding(cache);
      const Tensor logits = model.forward(tape, tokens.view().slice(end, count).view({1, count}));
      end += count;
      EXPECT_EQ(cache.length(), end);
      EXPECT_EQ(logits.shape(), (Shape{1, 1, 31}));
      const std::vector<double> want(whole.begin() + (end - 1) * 31, whole.begin() + end * 31);
      EXPECT_LE(nanofsdp::testing::relative_l2(logits.span<float>(), want), 1e-6);
      tape.end();
    }
  }
}

}  // namespace
}  // namespace nanofsdp::train
