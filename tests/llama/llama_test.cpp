#include "22_your_own_model/llama.h"

#include <gtest/gtest.h>

#include <sstream>

#include "22_your_own_model/float64.h"
#include "parity/golden.h"

// Tests lesson 22's Llama, which a user of the library could have written.

namespace lesson {
namespace {

Truth truth() { return Truth(std::istringstream(nanofsdp::testing::golden("llama.txt"))); }

TEST(Llama, HasTheGradientsOfPyTorchInFloat64) {
  const Truth theirs = truth();
  for (const int threads : {1, 2}) {
    const auto ours = measure_gradients(threads);
    ASSERT_EQ(ours.size(), theirs.gradients.size());
    for (const auto& [name, gradient] : ours) {
      const Measured& want = theirs.gradients.at(name);
      EXPECT_TRUE(gradient.is_near(want))
          << name << ": norm " << gradient.norm << " for " << want.norm << ", along "
          << gradient.along << " for " << want.along;
    }
  }
}

TEST(Llama, HasTheLossesOfPyTorchInFloat64) {
  for (const bool lora : {false, true}) {
    const Task task = tiny_task(lora);
    const Values start = tiny_values(*make_model(task));
    const std::vector<double> theirs = truth().losses[lora];
    ASSERT_EQ(theirs.size(), 10u);
    for (const int W : {1, 3}) {
      EXPECT_EQ(count_near(train(W, task, start).losses, theirs), 10)
          << W << " ranks, " << (lora ? "adapters" : "all parameters");
    }
  }
}

}  // namespace
}  // namespace lesson
