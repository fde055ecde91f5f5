#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "plan/simulated.h"
#include "support/closed_formula.h"
#include "support/errors.h"
#include "support/ranks.h"
#include "support/tiny_training.h"

// The wrap policy gives units options of their own.

namespace nanofsdp::fsdp::unit_options_test {
namespace {

using testing::Backend;
using testing::TinyOptions;
using testing::TinyTraining;

constexpr MixedPrecision kHalf{DType::bfloat16, DType::bfloat16};
constexpr LayoutKind kLayouts[] = {LayoutKind::flat, LayoutKind::per_parameter};

// The MLPs inside the blocks are units too.
bool is_mlp(const nn::Module& module) { return is_a<gpt::MLP>(module); }
bool is_unit(const nn::Module& module) {
  return is_mlp(module) || is_a<gpt::Block>(module) || is_a<gpt::GPT>(module);
}

struct Done {
  std::vector<float> record{};
  comm::Traffic traffic{};
  std::int64_t whole = 0;  // bytes of all slots
  friend bool operator==(const Done&, const Done&) = default;
};

constexpr MemoryClass kPlanned[] = {MemoryClass::parameter_shards, MemoryClass::gradient_shards,
                                    MemoryClass::unsharded_parameters, MemoryClass::optimizer,
                                    MemoryClass::unsharded_gradients};

// Trains, and compares memory and the traffic of the last step with the closed formula.
Done train(int ranks, const TinyOptions& options) {
  Done done;
  testing::run_ranks(
      Backend::local, ranks, [&](Context& context, std::unique_ptr<comm::Communicator> world) {
        TinyTraining training(context, std::move(world), options);
        const formula::Plan plan = formula::plan(formula::layouts_of(training.sharded.units()),
                                                 {.strategy = options.strategy,
                                                  .layout = options.layout,
                                                  .precision = options.precision,
                                                  .forward_prefetch = options.forward_prefetch,
                                                  .no_sync = options.no_sync},
                                                 {.shard_size = ranks,
                                                  .post_forward_size = options.post_forward_size,
                                                  .micro_steps = options.micro_steps});
        training.step(0);
        training.mesh.reset_traffic();
        training.step(1);
        if (ranks > 1) {
          EXPECT_EQ(training.mesh.traffic().all_gathers, plan.step.all_gathers);
          EXPECT_EQ(training.mesh.traffic().bytes_sent, plan.step.bytes_sent);
        }
        for (const MemoryClass c : kPlanned) {
          EXPECT_EQ(context.ledger.count(c).reserved_peak, plan.of(c)) << name_of(c);
        }
        const comm::Traffic traffic = training.mesh.traffic();
        const std::int64_t whole =
            context.ledger.count(MemoryClass::unsharded_parameters).reserved_peak;
        const std::vector<float> record = training.run();
        if (context.rank == 0) done = {record, traffic, whole};
      });
  return done;
}

void for_all_worlds(const auto& test) {
  for (int ranks = 1; ranks <= 3; ++ranks) {
    for (const Sharding& sharding : kShardings) {
      if (sharding.replicates) continue;
      for (const LayoutKind layout : kLayouts) {
        SCOPED_TRACE(std::string(sharding.name) + ", " + std::to_string(ranks) + " ranks");
        test(ranks, TinyOptions{.strategy = sharding.strategy,
                                .layout = layout,
                                .steps = 1,
                                .wrap_policy = is_unit});
      }
    }
  }
}

// Any unit may stay or be resharded after forward: gathers and memory are as planned, and no bit
// changes. The root too.
TEST(UnitOptions, OfReshardingChangeNoBit) {
  for_all_worlds([](int ranks, TinyOptions options) {
    for (const bool no_sync : {false, true}) {
      options.no_sync = no_sync, options.micro_steps = no_sync ? 2 : 1;
      options.wrap_policy = is_unit;
      const std::vector<float> expected = train(ranks, options).record;
      for (const bool mlps : {false, true}) {
        for (const bool others : {false, true}) {
          options.wrap_policy = [=](const nn::Module& module) {
            UnitOptions unit = is_unit(module);
            unit.reshard_after_forward = is_mlp(module) ? mlps : others;
            return unit;
          };
          const Done done = train(ranks, options);
          EXPECT_EQ(done.record, expected);
          if (ranks == 1 || no_sync || !sharding_of(options.strategy).parameters) continue;
          EXPECT_EQ(done.traffic.all_gathers, 3 * (mlps ? 2 : 1) + 4 * (others ? 2 : 1));
        }
      }
    }
  });
}

// If every unit has them, they are those of the model.
TEST(UnitOptions, OfAllUnitsAreThoseOfTheModel) {
  for_all_worlds([](int ranks, TinyOptions options) {
    options.precision = kHalf;
    const Done given = train(ranks, options);
    options.precision = {};
    options.wrap_policy = [](const nn::Module& module) {
      UnitOptions unit = is_unit(module);
      unit.precision = kHalf;
      return unit;
    };
    EXPECT_EQ(train(ranks, options), given);
  });
}

// Some units are gathered and reduced in bfloat16, and some in float32: every strategy and layout
// gives the same bits, and they are neither those of float32 nor those of bfloat16 everywhere.
TEST(UnitOptions, OfPrecisionGiveEveryStrategyTheSameBits) {
  for (const MixedPrecision half : {kHalf, MixedPrecision{.param_dtype = DType::bfloat16},
                                    MixedPrecision{.reduce_dtype = DType::bfloat16}}) {
    std::vector<std::vector<float>> first(4);
    for_all_worlds([&](int ranks, TinyOptions options) {
      options.wrap_policy = [half](const nn::Module& module) {
        UnitOptions unit = is_unit(module);
        if (is_mlp(module)) unit.precision = half;
        return unit;
      };
      const std::vector<float> record = train(ranks, options).record;
      std::vector<float>& expected = first[static_cast<std::size_t>(ranks)];
      if (expected.empty()) {
        expected = record;
        options.wrap_policy = is_unit;
        const std::vector<float> none = train(ranks, options).record;
        options.precision = half;
        const std::vector<float> all = train(ranks, options).record;
        if (ranks > 1) {  // one rank reduces nothing
          EXPECT_NE(none, expected);
          EXPECT_NE(all, expected);
        }
      }
      EXPECT_EQ(record, expected);
    });
  }
}

// Whole parameters are exact, whatever the units compute with.
TEST(UnitOptions, LeaveTheMasterWeightsExact) {
  testing::run_ranks(Backend::local, 2,
                     [](Context& context, std::unique_ptr<comm::Communicator> world) {
                       TinyOptions options{.wrap_policy = [](const nn::Module& module) {
                         UnitOptions unit = is_unit(module);
                         if (is_mlp(module)) unit.precision = kHalf;
                         return unit;
                       }};
                       auto other = world->split(0);
                       TinyTraining half(context, std::move(world), options);
                       options.wrap_policy = is_unit;
                       TinyTraining exact(context, std::move(other), options);
                       EXPECT_EQ(half.weights(), exact.weights());
                     });
}

// A GPU would compute in two dtypes; a CPU widens what has arrived.
TEST(UnitOptions, MayNotMixDtypesOfComputationOnAGpu) {
  const auto shard = [](Device device, MixedPrecision precision) {
    plan::SimulatedRank context(0, 2, 1, device);
    comm::Mesh mesh = plan::make_simulated_mesh(context);
    gpt::GPT model(testing::kTiny);
    const ShardedModel sharded(context, model, mesh,
                               {.wrap_policy = [precision](const nn::Module& module) {
                                 UnitOptions unit = is_unit(module);
                                 if (is_mlp(module)) unit.precision = precision;
                                 return unit;
                               }});
  };
  shard(Device::simulated_cpu, kHalf);
  shard(Device::simulated_cuda, {.reduce_dtype = DType::bfloat16});
  testing::expect_error<Error>([&] { shard(Device::simulated_cuda, kHalf); },
                               "param_dtype of unit transformer.h.0.mlp: expected the model's");
}

}  // namespace
}  // namespace nanofsdp::fsdp::unit_options_test
