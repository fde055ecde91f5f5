#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "fsdp/deferred_init.h"
#include "support/caller.h"
#include "support/errors.h"

// Tests the edges of what a caller may do: calls in the middle of a pass, options that make no
// sense, and ranks that do not have the same model or the same values.

namespace nanofsdp::fsdp::edges_test {
namespace {

using testing::Backend;
using testing::Caller;
using testing::CallerOptions;
using testing::expect_error;
using testing::for_all_shardings;
using testing::Owned;
using testing::run_callers;

using Model = testing::InTurn<testing::CallerLayer>;

// Until the end of the backward, gradients are still being reduced. After it, clip() is right.
TEST(Clip, IsRefusedBeforeTheBackwardHasEnded) {
  for_all_shardings([](const CallerOptions& options) {
    const auto norm = [&](bool meddles) {
      return run_callers(options, [&](Caller& c) {
        Owned<float> x = testing::random_tensor({2, testing::kCallerWidth}, 3 + c.context.rank);
        Owned<float> dy = x;
        c.sharded.zero_grad();
        c.tape.begin(true);
        c.sharded.forward(c.tape, x);
        c.model.backward(c.tape, dy);
        if (meddles) expect_error<Error>([&] { c.sharded.clip(1); }, "clip");
        c.context.compute->synchronize();
        c.tape.end_backward();
        c.sharded.clip(1);
        return std::vector<float>{c.norm()};
      });
    };
    EXPECT_EQ(norm(true), norm(false));
  });
}

// A backward without its end_backward() is no evaluation: what it has not reduced would be lost.
TEST(Tape, MissesTheEndOfABackward) {
  for_all_shardings([](const CallerOptions& options) {
    run_callers(options, [&](Caller& c) {
      Owned<float> x = testing::random_tensor({2, testing::kCallerWidth}, 3), dy = x;
      c.tape.begin(true);
      c.sharded.forward(c.tape, x);
      expect_error<Error>([&] { c.tape.release(); }, "end_backward()");  // saved tensors lie there
      c.model.backward(c.tape, dy);
      expect_error<Error>([&] { c.tape.begin(false); }, "end_backward()");
      expect_error<Error>([&] { c.tape.release(); }, "end_backward()");
      c.tape.end_backward();
      c.tape.release();
      c.step();
      c.sharded.zero_grad();
      c.pass();
    });
  });
}

// A look that begins inside another one is refused if units are unsharded for the outer one. A look
// in rounded units gathers beside them, so it is not refused. Then the outer one goes on to show
// whole parameters.
TEST(Looks, InsideLooksLeaveWholeParametersWhole) {
  for_all_shardings([](CallerOptions options) {
    options.precision.param_dtype = DType::bfloat16;
    run_callers(options, [&](Caller& c) {
      std::vector<std::int64_t> seen, expected;
      for (const nn::Parameter* p : c.model.named_parameters())
        expected.push_back(p->shape.numel());
      c.sharded.summon_full_parameters([&](const nn::Parameter& p) {
        seen.push_back(p.data.numel());
        c.weights();
      });
      EXPECT_EQ(seen, expected);
    });
  });
}

TEST(Options, ThatMakeNoSenseAreRefusedBeforeTheModelIsTouched) {
  const auto refused = [](const Options& options, const std::string& words) {
    testing::run_ranks(Backend::local, 2, [&](Context& context, auto world) {
      comm::Mesh mesh(std::move(world));
      Model model;
      std::vector<float> values(30, 1);
      for (nn::Parameter* p : model.named_parameters()) p->data = Tensor(values.data(), p->shape);
      Options all = options;
      all.wrap_policy = is_a<testing::CallerLayer>;
      expect_error<UsageError>([&] { ShardedModel(context, model, mesh, all); }, words);
      for (const nn::Parameter* p : model.named_parameters()) EXPECT_FALSE(p->data.empty());
    });
  };
  refused({.forward_prefetch = -1}, "forward_prefetch: expected 0 units or more, got -1");
  for (const DType dtype : {DType::int32, DType::float64}) {
    const std::string got = ", got " + std::string(name_of(dtype));
    refused({.precision = {.param_dtype = dtype}},
            "param_dtype: expected float32, bfloat16 or float8_e4m3" + got);
    refused({.precision = {.reduce_dtype = dtype}},
            "reduce_dtype: expected float32 or bfloat16" + got);
  }
}

// A parameter that cannot be sharded is found before the first unit has taken its values.
TEST(Sharding, ThatIsRefusedLeavesTheModelItsValues) {
  testing::run_ranks(Backend::local, 2, [](Context& context, auto world) {
    comm::Mesh mesh(std::move(world));
    Model model;
    std::vector<float> values(30, 1);
    const std::vector<nn::Parameter*> all = model.named_parameters();
    for (nn::Parameter* p : all) p->data = Tensor(values.data(), p->shape);
    all.back()->dtype = DType::bfloat16;
    const Options options{.wrap_policy = is_a<testing::CallerLayer>};
    expect_error<Error>([&] { ShardedModel(context, model, mesh, options); }, "which trains");
    for (const nn::Parameter* p : all) EXPECT_FALSE(p->data.empty());
    all.back()->dtype = DType::float32;
    ShardedModel sharded(context, model, mesh, options);
    expect_error<Error>([&] { ShardedModel(context, model, mesh, options); },
                        "shard once, by one wrap_policy");
    EXPECT_EQ(testing::whole_weights(sharded), std::vector<float>(60, 1));
  });
}

// A layer under a name. The parameters of another one come before or after it.
struct Named final : nn::Module {
  explicit Named(const char* name, bool after = true) {
    if (!after) add("other", other);
    add(name, layer);
    if (after) add("other", other);
  }
  Tensor do_forward(nn::Tape& tape, Tensor x) override { return layer.forward(tape, x); }
  Tensor do_backward(nn::Tape& tape, Tensor dy) override { return layer.backward(tape, dy); }
  testing::CallerLayer layer, other;
};

// Ranks that do not have the same model say so in their first forward, whether its layers are units
// or not.
TEST(Ranks, AgreeOnTheLayoutAndOnNames) {
  const auto expect_disagreement = [](LayoutKind other, const char* name, bool after = true,
                                      const WrapPolicy& units = {}) {
    testing::run_ranks(Backend::local, 2, [&](Context& context, auto world) {
      const bool second = context.rank == 1;
      comm::Mesh mesh(std::move(world));
      Named model(second ? name : "a", after || !second);
      ShardedModel sharded(context, model, mesh,
                           {.layout = second ? other : LayoutKind::flat, .wrap_policy = units});
      for (nn::Parameter* p : model.named_parameters())  // the same in each order
        p->init = nn::Init::ones();
      Generator generator(1);
      deferred_init(context, sharded.units(), generator);
      expect_error<comm::CommError>([&] { testing::whole_weights(sharded); },
                                    "ranks disagree on strategy, first values, names or layout");
    });
  };
  expect_disagreement(LayoutKind::per_parameter, "a");
  expect_disagreement(LayoutKind::row_aligned, "a");
  expect_disagreement(LayoutKind::flat, "b");
  expect_disagreement(LayoutKind::flat, "a", /*after=*/false);
  expect_disagreement(LayoutKind::flat, "a", /*after=*/false, is_a<testing::CallerLayer>);
}

TEST(Ranks, AgreeOnTheStrategy) {
  for (const Sharding& sharding : kShardings) {
    if (sharding.replicates || sharding.strategy == ShardingStrategy::full_shard) continue;
    testing::run_ranks(Backend::local, 2, [&](Context& context, auto world) {
      comm::Mesh mesh(std::move(world));
      testing::CallerLayer model;
      const auto mine = context.rank == 1 ? sharding.strategy : ShardingStrategy::full_shard;
      ShardedModel sharded(context, model, mesh, {.strategy = mine});
      Generator generator(1);
      deferred_init(context, sharded.units(), generator);
      expect_error<comm::CommError>([&] { testing::whole_weights(sharded); },
                                    "ranks disagree on strategy, first values, names or layout");
    });
  }
}

// Ranks that cut a model in other ways, or train other parts of it, would mix its parameters up.
TEST(Ranks, AgreeOnWhatIsCutAndTrained) {
  const auto expect_disagreement = [](const Sharding& sharding, const auto& prepare) {
    SCOPED_TRACE(sharding.name);
    const int ranks = sharding.replicates ? 4 : 2;
    testing::run_ranks(Backend::local, ranks, [&](Context& context, auto world) {
      comm::Mesh mesh(std::move(world), ranks == 4 ? 2 : 0);
      testing::CallerLayer model;
      const std::vector<nn::Parameter*> parameters = model.named_parameters();
      Options options{.strategy = sharding.strategy};
      if (context.rank == 1) prepare(options, parameters);
      ShardedModel sharded(context, model, mesh, options);
      Generator generator(1);
      deferred_init(context, sharded.units(), generator);
      expect_error<comm::CommError>([&] { testing::whole_weights(sharded); }, "ranks disagree on");
    });
  };
  using All = std::vector<nn::Parameter*>;
  for (const Sharding& sharding : kShardings) {
    expect_disagreement(sharding, [](Options& options, const All&) { options.alignment = 16; });
    for (const std::size_t i : {0, 1}) {
      expect_disagreement(sharding,
                          [&](Options&, const All& all) { all[i]->requires_grad = false; });
    }
  }
}

TEST(Ranks, AgreeOnTheDtypesOfWhatIsFrozen) {
  for (const Sharding& sharding : kShardings) {
    if (sharding.replicates) continue;
    SCOPED_TRACE(sharding.name);
    testing::run_ranks(Backend::local, 2, [&](Context& context, auto world) {
      comm::Mesh mesh(std::move(world));
      testing::CallerLayer model;
      nn::Parameter& bias = *model.named_parameters()[1];
      bias.requires_grad = false;
      if (context.rank == 1) bias.dtype = DType::bfloat16;
      ShardedModel sharded(context, model, mesh, {.strategy = sharding.strategy});
      Generator generator(1);
      deferred_init(context, sharded.units(), generator);
      expect_error<comm::CommError>([&] { testing::whole_weights(sharded); }, "ranks disagree on");
    });
  }
}

TEST(Options, HaveAnAlignmentOfOneOrMore) {
  for_all_shardings([](const CallerOptions& options) {
    for (const int alignment : {0, -1, -4}) {
      testing::run_ranks(Backend::local, 4, [&](Context& context, auto world) {
        Model model;
        comm::Mesh mesh(std::move(world), sharding_of(options.strategy).replicates ? 2 : 0);
        expect_error<Error>(
            [&] {
              ShardedModel(
                  context, model, mesh,
                  {.strategy = options.strategy, .layout = options.layout, .alignment = alignment});
            },
            "alignment");
      });
    }
  });
}

// The last values that a rank was given count, whether training has begun or not.
TEST(Ranks, AgreeOnTheLastValues) {
  for_all_shardings([](const CallerOptions& options) {
    run_callers(options, [&](Caller& c) {
      const auto give = [&](int seed) {
        Generator generator(static_cast<std::uint64_t>(seed));
        deferred_init(c.context, c.sharded.units(), generator);
      };
      c.pass();
      c.step();
      give(10 + c.context.rank);
      expect_error<comm::CommError>([&] { c.evaluate(); }, "ranks disagree");
      c.tape.end();
      expect_error<comm::CommError>([&] { c.weights(); }, "ranks disagree");
      give(20);
      c.sharded.zero_grad();
      c.pass();
    });
  });
}

}  // namespace
}  // namespace nanofsdp::fsdp::edges_test
