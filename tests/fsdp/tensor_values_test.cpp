#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "fsdp/fully_shard.h"
#include "support/errors.h"
#include "support/plain_models.h"
#include "support/ranks.h"

// Tests the first values of a model that is divided over tensor groups.

namespace nanofsdp::fsdp::tensor_values_test {
namespace {

using testing::Backend;

// One unit, which computes nothing.
struct Layer final : nn::Module {
  Tensor do_forward(nn::Tape&, Tensor x) override { return x; }
  Tensor do_backward(nn::Tape&, Tensor dy) override { return dy; }
  void add_parameter(const std::string& name, Shape shape, nn::Part part) {
    parameters.push_back(std::make_shared<nn::Parameter>(shape, nn::Init::zeros()));
    parameters.back()->part = part;
    add(name, parameters.back());
  }
  std::vector<std::shared_ptr<nn::Parameter>> parameters;
};

using Model = testing::InTurn<Layer>;

// A replicated parameter has the same values on all ranks of a tensor group. If not, it is refused.
TEST(TensorGroups, RefuseReplicatedParametersThatDiffer) {
  for (const bool is_part : {true, false}) {
    testing::run_ranks(Backend::local, 4, [&](Context& context, auto world) {
      comm::Mesh mesh(std::move(world), 0, 0, /*tensor_size=*/2);
      Model model;
      std::vector<float> values(3, static_cast<float>(mesh.tensor().rank()));
      model.first.add_parameter("p", {3},
                                is_part ? nn::Part{0, mesh.tensor().rank(), 2} : nn::Part{});
      model.first.parameters[0]->data = Tensor(values.data(), {3});
      ShardedModel sharded(context, model, mesh, {.wrap_policy = is_a<Layer>});
      nn::Tape tape(context);
      tape.begin(/*training=*/false);
      const auto forward = [&] { sharded.forward(tape, Tensor(values.data(), {3})); };
      if (is_part) {
        forward();
      } else {
        testing::expect_error<comm::CommError>(forward, "first values");
      }
      tape.end();
    });
  }
}

// Rank 0 of the run gives its values to all ranks that have the parameter: replicated parameters to
// all, and a part to those with the same part.
TEST(TensorGroups, ShareTheFirstValuesOfRank0) {
  testing::run_ranks(Backend::local, 4, [&](Context& context, auto world) {
    comm::Mesh mesh(std::move(world), 0, 0, /*tensor_size=*/2);
    const int part = mesh.tensor().rank();
    Model model;
    model.first.add_parameter("replicated", {3}, {});
    model.first.add_parameter("part", {3}, nn::Part{0, part, 2});
    std::vector<float> values(3, static_cast<float>(context.rank + 7));
    for (const auto& p : model.first.parameters) p->data = Tensor(values.data(), {3});
    ShardedModel sharded(context, model, mesh,
                         {.sync_module_states = true, .wrap_policy = is_a<Layer>});
    sharded.summon_full_parameters([&](const nn::Parameter& p) {
      const float expected = p.part.ranks == 1 ? 7 : static_cast<float>(7 + part);
      for (const float w : p.data.span<float>()) EXPECT_EQ(w, expected) << p.name;
    });
  });
}

// The norm counts each part once, so each rank of a tensor group has one of its own.
TEST(TensorGroups, HaveAPartForEachRank) {
  for (const int tensor_size : {1, 4}) {
    testing::run_ranks(Backend::local, 4, [&](Context& context, auto world) {
      comm::Mesh mesh(std::move(world), 0, 0, tensor_size);
      Model model;
      model.first.add_parameter("p", {3}, nn::Part{0, context.rank % 2, 2});
      testing::expect_error<Error>([&] { ShardedModel(context, model, mesh, {}); },
                                   "first.p: expected parts for " + std::to_string(tensor_size));
    });
  }
}

}  // namespace
}  // namespace nanofsdp::fsdp::tensor_values_test
