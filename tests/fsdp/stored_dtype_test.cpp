#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "support/closed_formula.h"
#include "support/errors.h"
#include "support/layouts.h"
#include "support/ranks.h"
#include "support/tiny_training.h"

// Tests frozen parameters that are stored in bfloat16 beside float32 ones (LoRA on a bfloat16
// model).

namespace nanofsdp::fsdp {
namespace {

using testing::Backend;
using testing::TinyOptions;
using testing::TinyTraining;

// Every unit has parameters that train, frozen ones in float32, and frozen ones with the dtype
// `matrices`.
std::unique_ptr<gpt::GPT> model_with(DType matrices) {
  auto model = std::make_unique<gpt::GPT>(testing::kTiny);
  for (nn::Parameter* p : model->named_parameters()) {
    p->requires_grad = p->name.find("ln_") != std::string::npos;
    if (!p->requires_grad && p->shape.rank() == 2) p->dtype = matrices;
  }
  return model;
}

// Rounds the frozen matrices to bfloat16, in a model that stores them in float32.
void round_matrices(TinyTraining& t) {
  std::map<std::string, std::vector<float>> rounded;
  t.sharded.summon_full_parameters([&](const nn::Parameter& p) {
    for (const float x : p.data.span<float>()) {
      rounded[p.name].push_back(to_float32(to_bfloat16(x)));
    }
  });
  for (ShardedParameters* row : t.sharded.rows()) {
    for (std::size_t i = 0; i < row->parameters().size() && !row->trains(); ++i) {
      const nn::Parameter& p = *row->parameters()[i];
      if (p.shape.rank() == 2) row->store(i, rounded[p.name]);
    }
  }
}

// Losses and norms of a run on rank 0, and its weights in the order of their names, because the
// order of rows depends on the dtypes.
std::vector<float> run(const TinyOptions& options, DType matrices, int world = 4) {
  std::vector<float> record;
  testing::run_ranks(
      Backend::local, world, [&](Context& context, std::unique_ptr<comm::Communicator> group) {
        TinyTraining t(context, std::move(group), options, model_with(matrices));
        if (matrices == DType::float32) round_matrices(t);
        std::vector<float> mine = t.run();
        mine.resize(2 * testing::kTinySteps);
        std::map<std::string, std::vector<float>> weights;
        t.sharded.summon_full_parameters([&](const nn::Parameter& p) {
          weights[p.name].assign(p.data.span<float>().begin(), p.data.span<float>().end());
        });
        for (const auto& [name, of] : weights) mine.insert(mine.end(), of.begin(), of.end());
        if (context.rank == 0) record = mine;
      });
  return record;
}

TEST(StoredDtype, TrainsAsTheRoundedValuesInFloat32) {
  for (const LayoutKind layout : testing::kLayouts) {
    for (const DType computed : {DType::float32, DType::bfloat16}) {
      const auto options_of = [&](ShardingStrategy strategy) {
        return TinyOptions{.strategy = strategy,
                           .layout = layout,
                           .micro_steps = 2,
                           .no_sync = true,
                           .precision = {computed}};
      };
      const std::vector<float> reference =
          run(options_of(ShardingStrategy::no_shard), DType::float32);
      for (const Sharding& sharding : kShardings) {
        TinyOptions options = options_of(sharding.strategy);
        if (sharding.replicates) options.shard_size = 2;
        const std::vector<float> half = run(options, DType::bfloat16);
        EXPECT_TRUE(half == (sharding.replicates ? run(options, DType::float32) : reference))
            << sharding.name << ", " << nanofsdp::name_of(computed);
      }
      TinyOptions near = options_of(ShardingStrategy::full_shard);
      near.post_forward_size = 2;
      EXPECT_TRUE(run(near, DType::bfloat16) == reference) << "post-forward groups";
    }
  }
  EXPECT_TRUE(run({}, DType::bfloat16, 1) == run({}, DType::float32, 1)) << "one rank";
}

// They take half of the bytes of float32 in memory and when they are sent. A whole copy has the
// same size as before.
TEST(StoredDtype, HalvesShardsAndGathers) {
  const auto cost = [](LayoutKind layout, DType dtype) {
    std::pair<std::int64_t, std::int64_t> bytes;
    testing::run_ranks(
        Backend::local, 2, [&](Context& context, std::unique_ptr<comm::Communicator> group) {
          auto model = std::make_unique<gpt::GPT>(testing::kTiny);
          for (nn::Parameter* p : model->named_parameters()) {
            p->requires_grad = false;
            p->dtype = dtype;
          }
          TinyTraining t(context, std::move(group), {.layout = layout}, std::move(model));
          t.step(0);
          t.mesh.reset_traffic();
          t.step(1);
          if (context.rank > 0) return;
          bytes = {context.ledger.count(MemoryClass::parameter_shards).reserved,
                   t.mesh.traffic().bytes_sent};
        });
    return bytes;
  };
  for (const LayoutKind layout : testing::kLayouts) {
    const auto [shard, sent] = cost(layout, DType::float32);
    EXPECT_EQ(cost(layout, DType::bfloat16), std::pair(shard / 2, sent / 2));
  }
}

TEST(StoredDtype, OfWhatTrainsIsFloat32) {
  testing::run_ranks(
      Backend::local, 2, [](Context& context, std::unique_ptr<comm::Communicator> group) {
        auto model = std::make_unique<gpt::GPT>(testing::kTiny);
        for (nn::Parameter* p : model->named_parameters()) p->dtype = DType::bfloat16;
        testing::expect_error<Error>(
            [&] { TinyTraining(context, std::move(group), {}, std::move(model)); },
            "transformer.h.0.ln_1.weight, which trains: expected float32, got bfloat16");
      });
}

}  // namespace
}  // namespace nanofsdp::fsdp
