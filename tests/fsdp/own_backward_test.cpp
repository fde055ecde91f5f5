#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "support/caller.h"
#include "support/errors.h"

// Tests that a backward adds to the gradient of a parameter only while the backward of the
// parameter's unit runs. At any other moment the whole gradients are not there, or have been
// reduced already, so what is added would be lost.

namespace nanofsdp::fsdp::own_backward_test {
namespace {

using testing::Caller;
using testing::CallerOptions;
using testing::for_all_shardings;
using testing::run_callers;

using Layer = testing::CallerLayer;
using Hooks = nn::HookList nn::Module::Hooks::*;

// Runs a pass in which a hook of `module` asks for the gradient. Then gives the pass up.
void expect_refused(Caller& c, nn::Module& module, Hooks moment, nn::Parameter& parameter) {
  const int handle = (module.hooks.*moment).add([&](nn::Tape&) { parameter.grad_to_add_to(); });
  testing::expect_error<Error>([&] { c.pass(); },
                               "gradient of " + parameter.name + ": expected the backward of its");
  c.tape.end();
  (module.hooks.*moment).remove(handle);
  c.sharded.zero_grad();
}

TEST(OwnBackward, IsTheOnlyOneThatAddsToAGradient) {
  for_all_shardings([](CallerOptions options) {
    for (const bool no_sync : {false, true}) {
      options.no_sync = no_sync;
      run_callers(options, [](Caller& c) {
        Layer& layer = c.model.first;
        nn::Parameter& weight = *c.model.named_parameters()[0];
        c.sharded.zero_grad();
        for (const bool last : {false, true}) c.pass(last);
        c.step();
        c.sharded.zero_grad();
        // The user's hooks run outside those of FSDP.
        expect_refused(c, c.model, &nn::Module::Hooks::pre_forward, weight);
        expect_refused(c, layer, &nn::Module::Hooks::post_forward, weight);
        expect_refused(c, c.model, &nn::Module::Hooks::pre_backward, weight);
        expect_refused(c, layer, &nn::Module::Hooks::pre_backward, weight);
        expect_refused(c, layer, &nn::Module::Hooks::post_backward, weight);
        expect_refused(c, c.model, &nn::Module::Hooks::post_backward, weight);
        // A module inside the unit may ask, as often as it likes.
        const auto ask = [&](nn::Tape&) {
          EXPECT_EQ(weight.grad_to_add_to().shape(), weight.shape);
        };
        layer.linear.hooks.pre_backward.add(ask);
        layer.linear.hooks.post_backward.add(ask);
        for (const bool last : {false, true}) {
          c.pass(last);
          testing::expect_error<Error>([&] { weight.grad_to_add_to(); }, weight.name);
        }
        c.step();
      });
    }
  });
}

}  // namespace
}  // namespace nanofsdp::fsdp::own_backward_test
