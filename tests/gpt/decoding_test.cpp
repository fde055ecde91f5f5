#include <gtest/gtest.h>

#include <numeric>
#include <stdexcept>
#include <vector>

#include "gpt/gpt.h"
#include "support/whole_model.h"

namespace nanofsdp::gpt {
namespace {

using Logits = std::vector<float>;

void collect(nn::Module& module, std::vector<nn::Module*>& all) {
  all.push_back(&module);
  for (const auto& [name, child] : module.children()) collect(*child, all);
}

// Whichever module throws in whichever pass: the pass adds nothing to the cache, and the same pass
// once more gives the same logits.
TEST(Decoding, APassThatFailsAddsNothingToTheCache) {
  Context context;
  nn::Tape tape(context);
  GPT model({.block_size = 8, .vocab_size = 11, .n_layer = 2, .n_head = 2, .n_embd = 8});
  testing::WholeModel memory(model);
  memory.initialise(model.nanogpt_draws(), 3);
  testing::Owned<std::int32_t> tokens({6});
  std::iota(tokens.values.begin(), tokens.values.end(), 2);
  std::vector<nn::Module*> modules;
  collect(model, modules);

  const std::vector<std::int64_t> portions = {3, 1, 2};
  nn::KeyValueCache cache(context, 8);
  const auto decode = [&](std::size_t pass) {
    tape.begin_decoding(cache);
    const std::int64_t n = portions[pass];
    const auto logits =
        model.forward(tape, tokens.view().slice(cache.length(), n).view({1, n})).span<float>();
    return Logits(logits.begin(), logits.end());
  };
  std::vector<Logits> want;
  for (std::size_t pass = 0; pass < 3; ++pass) want.push_back(decode(pass));

  for (nn::Module* const module : modules) {
    for (std::size_t failing = 0; failing < 3; ++failing) {
      cache.clear();
      for (std::size_t pass = 0; pass < 3; ++pass) {
        if (pass == failing) {
          const std::int64_t before = cache.length();
          module->hooks.pre_forward = [](nn::Tape&) { throw std::runtime_error("fails"); };
          EXPECT_THROW(decode(pass), std::runtime_error);
          module->hooks.pre_forward = {};
          tape.end();
          EXPECT_EQ(cache.length(), before);
        }
        EXPECT_EQ(decode(pass), want[pass]);
      }
      EXPECT_EQ(cache.length(), 6);
    }
  }
}

}  // namespace
}  // namespace nanofsdp::gpt
