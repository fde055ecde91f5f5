#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "fsdp/adamw.h"
#include "fsdp/fully_shard.h"
#include "support/caller.h"
#include "support/errors.h"
#include "support/plain_models.h"
#include "support/ranks.h"

// Tests a mesh with tensor groups: norm, clipping and AdamW are those of the whole model. The test
// chooses all gradients, so the model needs no operators.

namespace nanofsdp::fsdp::tensor_test {
namespace {

using testing::Backend;

// A parameter of the whole model. A tensor group has its rows in equal parts, or each rank has it.
struct Whole {
  std::int64_t rows, columns;
  bool divided;
};

// Values by parameter, step and micro-batch (-1: the first weights). They are the same on all
// ranks.
std::vector<float> numbers(const Whole& p, std::size_t index, int step, int batch) {
  std::mt19937 random(static_cast<unsigned>(1000 * index + 100 * step + batch + 7));
  std::normal_distribution<float> normal(0, step < 0 ? 1.0F : 0.3F);
  std::vector<float> values(static_cast<std::size_t>(p.rows * p.columns));
  for (float& x : values) x = normal(random);
  return values;
}

// One unit. Its backward adds the gradients that the test has chosen.
struct Layer final : nn::Module {
  Tensor do_forward(nn::Tape&, Tensor x) override { return x; }
  Tensor do_backward(nn::Tape&, Tensor dy) override {
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const Tensor grad = parameters[i]->grad_to_add_to();
      for (std::int64_t e = 0; e < grad.numel(); ++e) grad.f32()[e] += gradients[i][e];
    }
    return dy;
  }
  void add_parameter(const std::string& name, Shape shape, nn::Part part) {
    parameters.push_back(std::make_shared<nn::Parameter>(shape, nn::Init::zeros()));
    parameters.back()->part = part;
    add(name, parameters.back());
  }
  std::vector<std::shared_ptr<nn::Parameter>> parameters;
  std::vector<std::vector<float>> gradients;
};

using Model = testing::InTurn<Layer>;

constexpr int kBatches = 8, kSteps = 3;
constexpr double kClip = 0.25;

struct Grid {
  int ranks, tensor, shards = 0;
  double clip = kClip;
};

// The results that all ranks of a run see: norms, and whole parameters after the last step.
struct Result {
  std::vector<float> norms;
  std::map<std::string, std::vector<float>> parameters;
  std::string order = {};  // the events of the last step, in the order of issue
  friend bool operator==(const Result& a, const Result& b) {
    return a.norms == b.norms && a.parameters == b.parameters;
  }
};

Result train(Context& context, std::unique_ptr<comm::Communicator> world, const Grid& grid,
             const std::vector<Whole>& whole, const Options& given) {
  comm::Mesh mesh(std::move(world), grid.shards, /*post_forward_size=*/0, grid.tensor);
  const int t = mesh.tensor().rank();
  Model model;
  std::vector<std::vector<float>> memory;
  // Each rank's rows of a whole.
  const auto mine = [&](const Whole& p, const std::vector<float>& values) {
    const std::int64_t n = std::ssize(values) / (p.divided ? grid.tensor : 1);
    const auto begin = values.begin() + (p.divided ? t * n : 0);
    return std::vector<float>(begin, begin + n);
  };
  const auto layer_of = [&](std::size_t i) -> Layer& {
    return i % 2 == 0 ? model.first : model.second;
  };
  memory.reserve(whole.size());
  for (std::size_t i = 0; i < whole.size(); ++i) {
    memory.push_back(mine(whole[i], numbers(whole[i], i, -1, -1)));
    const std::int64_t rows = std::ssize(memory[i]) / whole[i].columns;
    const nn::Part part = whole[i].divided ? nn::Part{0, t, grid.tensor} : nn::Part{};
    layer_of(i).add_parameter("p" + std::to_string(i), {rows, whole[i].columns}, part);
    nn::Parameter& p = *layer_of(i).parameters.back();
    p.data = Tensor(memory[i].data(), p.shape);
  }
  Options options = given;
  options.wrap_policy = is_a<Layer>;
  ShardedModel sharded(context, model, mesh, options);
  AdamW optimizer(context, sharded.units(), {});
  nn::Tape tape(context);
  Result result;
  for (int step = 0; step < kSteps; ++step) {
    model.first.gradients.clear(), model.second.gradients.clear();
    for (std::size_t i = 0; i < whole.size(); ++i) {
      // The mean over this rank's share of the micro-batches.
      const int count = kBatches / mesh.size();
      std::vector<float> mean(static_cast<std::size_t>(whole[i].rows * whole[i].columns));
      for (int batch = mesh.rank() * count; batch < (mesh.rank() + 1) * count; ++batch) {
        const std::vector<float> of_batch = numbers(whole[i], i, step, batch);
        for (std::size_t e = 0; e < mean.size(); ++e)
          mean[e] += of_batch[e] / static_cast<float>(count);
      }
      layer_of(i).gradients.push_back(mine(whole[i], mean));
    }
    if (step == kSteps - 1) context.tracer.start();
    sharded.zero_grad();
    std::vector<float> x(1);
    tape.begin(/*training=*/true);
    sharded.forward(tape, Tensor(x.data(), {1}));
    sharded.backward(tape, Tensor(x.data(), {1}));
    const Tensor coefficient = sharded.clip(grid.clip);
    optimizer.step(0.1, coefficient);
    result.norms.push_back(*sharded.grad_norm().f32());
  }
  for (const std::string& event : context.tracer.take_order()) result.order += event + " ";
  // The parts of a whole come together, in the order of the tensor group.
  std::size_t visited = 0;
  sharded.summon_full_parameters([&](const nn::Parameter& p) {
    const std::int64_t n = p.shape.numel(), ranks = (p.part.ranks > 1) ? mesh.tensor().size() : 1;
    std::vector<float> all(static_cast<std::size_t>(n * ranks));
    const Tensor out(all.data(), {n * ranks});
    if ((p.part.ranks > 1)) {
      context.compute->wait(mesh.tensor().all_gather(*context.compute, p.data.view({n}), out));
    } else {
      std::ranges::copy(p.data.span<float>(), all.begin());
    }
    result.parameters[p.name] = all;
    ++visited;
  });
  EXPECT_EQ(visited, whole.size());
  return result;
}

// All ranks of a run must see the same.
Result run(const Grid& grid, const std::vector<Whole>& whole, const Options& options) {
  std::vector<Result> results(static_cast<std::size_t>(grid.ranks));
  testing::run_ranks(Backend::local, grid.ranks, [&](Context& context, auto world) {
    results[static_cast<std::size_t>(context.rank)] =
        train(context, std::move(world), grid, whole, options);
  });
  for (const Result& result : results) EXPECT_EQ(result, results[0]);
  return results[0];
}

void expect_near(const Result& run, const Result& dense, const std::string& where) {
  for (std::size_t step = 0; step < kSteps; ++step) {
    EXPECT_NEAR(run.norms[step], dense.norms[step], 1e-6 * dense.norms[step]) << where;
  }
  ASSERT_EQ(run.parameters.size(), dense.parameters.size()) << where;
  for (const auto& [name, values] : dense.parameters) {
    const std::vector<float>& mine = run.parameters.at(name);
    ASSERT_EQ(mine.size(), values.size()) << where << name;
    for (std::size_t e = 0; e < values.size(); ++e) {
      EXPECT_NEAR(mine[e], values[e], 1e-6 * std::max(1.0F, std::abs(values[e]))) << where << name;
    }
  }
}

// Some models with replicated and divided parameters, also with none of one kind.
std::vector<std::vector<Whole>> models() {
  std::vector<std::vector<Whole>> all{{{4, 3, true}, {4, 1, true}}, {{5, 1, false}, {1, 3, false}}};
  std::mt19937 random(54);
  for (int i = 0; i < 6; ++i) {
    std::vector<Whole>& model = all.emplace_back();
    for (int p = 0; p < 5; ++p) {
      const bool divided = random() % 2 == 0;
      model.push_back({divided ? 4 * static_cast<std::int64_t>(1 + random() % 3)
                               : static_cast<std::int64_t>(1 + random() % 7),
                       static_cast<std::int64_t>(1 + random() % 5), divided});
    }
  }
  return all;
}

// The norm of the whole model, in double precision.
std::vector<double> norms_of(const std::vector<Whole>& whole) {
  std::vector<double> norms;
  for (int step = 0; step < kSteps; ++step) {
    double squares = 0;
    for (std::size_t i = 0; i < whole.size(); ++i) {
      std::vector<double> mean(static_cast<std::size_t>(whole[i].rows * whole[i].columns));
      for (int batch = 0; batch < kBatches; ++batch) {
        const std::vector<float> of_batch = numbers(whole[i], i, step, batch);
        for (std::size_t e = 0; e < mean.size(); ++e) mean[e] += of_batch[e] / kBatches;
      }
      for (const double g : mean) squares += g * g;
    }
    norms.push_back(std::sqrt(squares));
  }
  return norms;
}

TEST(TensorGroups, NormClippingAndAdamWAreThoseOfTheDenseRun) {
  for (const std::vector<Whole>& whole : models()) {
    const Result dense = run({.ranks = 1, .tensor = 1}, whole, {});
    const std::vector<double> norms = norms_of(whole);
    double longest = 0;
    for (std::size_t step = 0; step < kSteps; ++step) {
      EXPECT_NEAR(dense.norms[step], norms[step], 1e-6 * norms[step]);
      longest = std::max(longest, norms[step]);
    }
    EXPECT_GT(longest, kClip) << "no step clips";
    for (const Grid& grid : {Grid{4, 4}, Grid{4, 2}, Grid{4, 1}, Grid{2, 2}, Grid{8, 2}}) {
      const Result result = run(grid, whole, {});
      expect_near(result, dense, std::to_string(grid.ranks) + "/" + std::to_string(grid.tensor));
    }
    for (const LayoutKind layout : {LayoutKind::per_parameter, LayoutKind::row_aligned}) {
      expect_near(run({.ranks = 4, .tensor = 2}, whole, {.layout = layout}), dense, "layout ");
    }
    const Result replicas = run({.ranks = 8, .tensor = 2, .shards = 2}, whole,
                                {.strategy = ShardingStrategy::hybrid_shard});
    expect_near(replicas, dense, "replicas ");
  }
}

// At one size of tensor groups and one number of shards, the bits do not depend on the strategy.
// Norms are added up shard by shard, and layouts cut differently. So a gradient that is clipped has
// other last bits in another layout; without clipping, the parameters are the same.
TEST(TensorGroups, HaveTheSameBitsUnderEveryStrategyAndLayout) {
  const std::vector<Whole> whole = models().back();
  for (const Grid& grid : {Grid{2, 2}, {4, 2}, {8, 2}, {4, 4}, {8, 4}, {16, 4}}) {
    std::map<LayoutKind, Result> full;
    testing::for_all_shardings([&](const testing::CallerOptions& how) {
      if (sharding_of(how.strategy).replicates) return;
      SCOPED_TRACE(name_of(how.strategy) + " " + std::to_string(grid.ranks));
      if (!full.contains(how.layout)) full[how.layout] = run(grid, whole, {.layout = how.layout});
      Options options{.strategy = how.strategy, .layout = how.layout, .poison = true};
      EXPECT_EQ(run(grid, whole, options), full[how.layout]);
      options.forward_prefetch = 0, options.pool = false;
      EXPECT_EQ(run(grid, whole, options), full[how.layout]);
    });
    EXPECT_EQ(full.size(), 3u);
    const Grid unclipped{grid.ranks, grid.tensor, grid.shards, /*clip=*/1e9};
    const auto parameters = [&](LayoutKind layout) {
      return run(unclipped, whole, {.layout = layout}).parameters;
    };
    for (const auto& [layout, result] : full)
      EXPECT_EQ(parameters(layout), parameters(LayoutKind::flat));
  }
}

// FSDP does the same as without tensor groups, and in the same order, in every dtype.
TEST(TensorGroups, LeaveTheOrderAsItIs) {
  const std::vector<Whole> whole = models().back();
  const std::string order =
      "u.root U.first U.second F.first R.first u.second F.second R.second r.root u.root U.second "
      "u.second U.first R.second RS.second u.first R.first RS.first r.root ";
  for (const DType dtype : {DType::float32, DType::bfloat16, DType::float8_e4m3}) {
    for (const Grid& grid : {Grid{2, 1}, Grid{4, 2}, Grid{8, 4}}) {
      EXPECT_EQ(run(grid, whole, {.precision = {.param_dtype = dtype}}).order, order)
          << grid.tensor;
    }
  }
}

}  // namespace
}  // namespace nanofsdp::fsdp::tensor_test
