#include "fsdp/wrap.h"

#include <gtest/gtest.h>

#include "base/check.h"
#include "gpt/gpt.h"
#include "nn/linear.h"
#include "support/errors.h"
#include "support/tiny_training.h"

namespace nanofsdp::fsdp {
namespace {

// The law: one unit alone owns a parameter, because otherwise its gradient would be reduced before
// all of its uses have added to it. Here the root has the head, and another unit the embedding.
TEST(Wrap, RefusesAWeightThatTwoUnitsUse) {
  gpt::GPT model(testing::kTiny);
  testing::expect_error<Error>(
      [&] {
        wrap(model, [](const nn::Module& module) {
          return dynamic_cast<const gpt::Transformer*>(&module) != nullptr;
        });
      },
      "tied parameter transformer.wte.weight");
}

TEST(Wrap, MakesOneUnitOfAModelWithoutAPolicy) {
  gpt::GPT model(testing::kTiny);
  const auto units = wrap(model, {});
  ASSERT_EQ(units.size(), 1u);
  EXPECT_EQ(units[0].module, &model);
  EXPECT_EQ(units[0].parameters.size(), model.named_parameters().size());
}

// A layer that a model has under two names, alone or inside two other modules.
class Shared final : public nn::Module {
 public:
  explicit Shared(bool apart) {
    if (apart) {
      add("first", first_), first_.add("layer", layer_);
      add("second", second_), second_.add("layer", layer_);
    } else {
      add("a", layer_), add("b", layer_);
    }
  }

 private:
  struct Part final : nn::Module {
    using nn::Module::add;
    Tensor do_forward(nn::Tape&, Tensor x) override { return x; }
    Tensor do_backward(nn::Tape&, Tensor dy) override { return dy; }
  };
  Tensor do_forward(nn::Tape&, Tensor x) override { return x; }
  Tensor do_backward(nn::Tape&, Tensor dy) override { return dy; }
  nn::Linear layer_{{.in = 2, .out = 2, .bias = false}};
  Part first_, second_;
};

// A unit that the tree has under two names is one unit, with its first name (PyTorch's
// named_modules). A layer that two units use is refused, as a weight is.
TEST(Wrap, TakesAModuleOnceWhateverItsNames) {
  Shared under_two_names(false), in_two_parts(true);
  const auto units = wrap(under_two_names, is_a<nn::Linear>);
  ASSERT_EQ(units.size(), 2u);
  EXPECT_EQ(units[0].name, "a");
  EXPECT_EQ(units[0].parameters.size(), 1u);
  EXPECT_TRUE(units[1].parameters.empty());
  EXPECT_EQ(wrap(in_two_parts, is_a<nn::Linear>).size(), 2u);
  const auto is_part = [](const nn::Module& m) { return m.own_parameters().empty(); };
  testing::expect_error<Error>([&] { wrap(in_two_parts, is_part); }, "in one FSDP unit");
}

}  // namespace
}  // namespace nanofsdp::fsdp
