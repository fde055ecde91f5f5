#include "fsdp/wrap.h"

#include <gtest/gtest.h>

#include "base/check.h"
#include "gpt/gpt.h"
#include "support/errors.h"
#include "support/tiny_training.h"

namespace nanofsdp::fsdp {
namespace {

// The law: a unit answers for a parameter alone, or its gradient would be reduced before all of its
// uses have added their part. Here the head is the root's and the embedding another unit's.
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

}  // namespace
}  // namespace nanofsdp::fsdp
