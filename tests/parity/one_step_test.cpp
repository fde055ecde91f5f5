#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "gpt/gpt.h"
#include "nn/loss.h"
#include "parity/golden.h"
#include "support/whole_model.h"

namespace nanofsdp::gpt {
namespace {

using testing::Owned;
using testing::relative_l2;
using testing::WholeModel;

// The contents of golden/one_step.txt, by kind and name.
class Golden {
 public:
  Golden() {
    std::istringstream file(testing::golden("one_step.txt"));
    std::string line;
    while (std::getline(file, line)) {
      std::istringstream words(line);
      std::string kind, name;
      std::size_t n = 0;
      if (!(words >> kind >> name >> n)) continue;
      std::vector<double>& values = values_[kind + " " + name];
      for (double value; words >> value;) values.push_back(value);
      if (values.size() != n) throw std::runtime_error("golden file: " + name);
    }
  }
  const std::vector<double>& operator()(const std::string& key) const { return values_.at(key); }
  std::size_t count(const std::string& kind) const {
    std::size_t n = 0;
    for (const auto& [key, values] : values_) n += key.starts_with(kind + " ");
    return n;
  }

 private:
  std::map<std::string, std::vector<double>> values_;
};

constexpr GPTConfig kConfig{.block_size = 8,
                            .vocab_size = 13,
                            .n_layer = 2,
                            .n_head = 2,
                            .n_embd = 8,
                            .dropout = 0,
                            .bias = true};

Owned<std::int32_t> tokens_of(const std::vector<double>& values) {
  Owned<std::int32_t> tokens({4, 8});
  for (std::size_t i = 0; i < values.size(); ++i) {
    tokens.values[i] = static_cast<std::int32_t>(values[i]);
  }
  return tokens;
}

class OneStep : public ::testing::TestWithParam<int> {};

// Compares the whole model with float64 PyTorch: logits, loss, and the gradient of every tensor.
TEST_P(OneStep, EqualsPyTorchInFloat64) {
  const Golden golden;
  Context context(0, 1, GetParam());
  GPT model(kConfig);
  WholeModel memory(model);
  ASSERT_EQ(memory.parameters.size(), golden.count("gradient"));
  for (nn::Parameter* parameter : memory.parameters) {
    const auto& values = golden("weight " + parameter->name);
    ASSERT_EQ(static_cast<std::int64_t>(values.size()), parameter->shape.numel());
    std::ranges::transform(values, parameter->data.f32(),
                           [](double x) { return static_cast<float>(x); });
  }
  Owned<std::int32_t> tokens = tokens_of(golden("input tokens"));
  Owned<std::int32_t> targets = tokens_of(golden("input targets"));
  Owned<double> total({1});

  nn::Tape tape(context);
  // The second pass uses the arena that the first one has sized.
  for (int pass = 0; pass < 2; ++pass) {
    memory.zero_grad();
    total.values[0] = 0;
    tape.begin(true);
    const Tensor logits = model.forward(tape, tokens);
    EXPECT_LE(relative_l2(logits.span<float>(), golden("output logits")), 1e-6);
    cross_entropy(tape, logits, targets, total);
    EXPECT_NEAR(total.values[0] / 32, golden("output loss")[0], 5e-7 * golden("output loss")[0]);
    model.backward(tape, cross_entropy_backward(tape, 1.0f / 32));
    tape.end_backward();
    for (const nn::Parameter* parameter : memory.parameters) {
      EXPECT_LE(relative_l2(parameter->grad().span<float>(), golden("gradient " + parameter->name)),
                2e-6)
          << parameter->name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Threads, OneStep, ::testing::Values(1, 2));

}  // namespace
}  // namespace nanofsdp::gpt
