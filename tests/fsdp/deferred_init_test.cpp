#include "fsdp/deferred_init.h"

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <string>

#include "base/check.h"
#include "nn/layer_norm.h"
#include "support/errors.h"
#include "support/ranks.h"
#include "support/tiny_training.h"
#include "support/whole_model.h"

namespace nanofsdp::fsdp {
namespace {

using testing::Backend;
using testing::kTiny;
using testing::TinyTraining;
using testing::WholeModel;

std::vector<float> weights_by_unit(gpt::GPT& model) {
  std::vector<float> all;
  for (const WrappedModule& unit : wrap(model, is_a<gpt::Block>)) {
    for (const nn::Parameter* p : unit.parameters) {
      const auto values = p->data.span<float>();
      all.insert(all.end(), values.begin(), values.end());
    }
  }
  return all;
}

enum class Order { nanogpt, breadth_first };

std::vector<std::vector<float>> sharded_weights(int world, Order order) {
  return testing::run_ranks(world == 1 ? Backend::self : Backend::local, world,
                            [&](Context& context, std::unique_ptr<comm::Communicator> group) {
                              TinyTraining t(context, std::move(group), {});
                              Generator generator(7);
                              deferred_init(context, t.sharded.units(),
                                            order == Order::nanogpt
                                                ? t.model.nanogpt_draws()
                                                : breadth_first_draws(t.sharded.units()),
                                            generator);
                              // Room for one parameter at a time. The largest is a weight of an
                              // MLP.
                              const auto room = context.ledger.count(MemoryClass::activations);
                              EXPECT_EQ(room.reserved_peak, 4 * kTiny.n_embd * kTiny.n_embd * 4);
                              return t.weights();
                            });
}

// The law: at every number of ranks, the weights are those of the whole model, to the bit.
TEST(DeferredInit, GivesEveryWorldTheWeightsOfTheWholeModel) {
  gpt::GPT model(kTiny);
  WholeModel memory(model);
  memory.initialise(model.nanogpt_draws(), 7);
  const std::vector<float> whole = weights_by_unit(model);
  const std::vector<float> breadth_first = sharded_weights(1, Order::breadth_first)[0];
  EXPECT_NE(whole, breadth_first);
  for (const int world : {1, 2, 3, 4}) {
    for (const auto& rank : sharded_weights(world, Order::nanogpt)) EXPECT_EQ(rank, whole);
    for (const auto& rank : sharded_weights(world, Order::breadth_first)) {
      EXPECT_EQ(rank, breadth_first);
    }
  }
}

// Blocks are drawn first, and the root last. In the root the head comes before the embedding, whose
// draw stays.
TEST(DeferredInit, DrawsBreadthFirst) {
  testing::run_ranks(
      Backend::self, 1, [](Context& context, std::unique_ptr<comm::Communicator> group) {
        TinyTraining training(context, std::move(group), {});
        std::vector<std::string> order;
        for (const nn::Draw& draw : breadth_first_draws(training.sharded.units())) {
          if (draw.init.kind == nn::Init::Kind::normal) order.push_back(draw.parameter->name);
        }
        std::vector<std::string> expected;
        for (const std::string block : {"0", "1", "2"}) {
          for (const std::string layer : {"attn.c_attn", "attn.c_proj", "mlp.c_fc", "mlp.c_proj"}) {
            expected.push_back("transformer.h." + block + "." + layer + ".weight");
          }
        }
        const std::string wte = "transformer.wte.weight";
        expected.insert(expected.end(), {wte, wte, "transformer.wpe.weight"});
        EXPECT_EQ(order, expected);
      });
}

// With any units, each parameter is drawn once for each of its owners, and wte has two.
TEST(DeferredInit, DrawsNoParameterOfAnotherUnit) {
  testing::run_ranks(
      Backend::self, 1, [](Context& context, std::unique_ptr<comm::Communicator> group) {
        gpt::GPT model(kTiny);
        comm::Mesh mesh(std::move(group));
        ShardedModel sharded(context, model, mesh, {.wrap_policy = is_a<nn::LayerNorm>});
        std::map<std::string, int> draws;
        for (const nn::Draw& draw : breadth_first_draws(sharded.units())) {
          ++draws[draw.parameter->name];
        }
        EXPECT_EQ(draws.size(), model.named_parameters().size());
        for (const auto& [name, times] : draws) {
          EXPECT_EQ(times, name == "transformer.wte.weight" ? 2 : 1) << name;
        }
      });
}

// A parameter that the plan leaves out keeps its value, as in a pretrained model with a new head.
// If it has none, it is named.
TEST(DeferredInit, DrawsWhatIsInThePlanAndMissesNoOther) {
  const auto body = [](Context& context, std::unique_ptr<comm::Communicator> group) {
    comm::Mesh mesh(std::move(group));
    gpt::GPT model(kTiny);
    auto sharded = fully_shard(context, model, mesh, {.wrap_policy = is_a<gpt::Block>});
    const nn::DrawPlan all = model.nanogpt_draws();
    nn::DrawPlan some = all, rest = all;
    const auto is_position = [](const nn::Draw& draw) {
      return draw.parameter->name == "transformer.wpe.weight";
    };
    std::erase_if(some, is_position);
    std::erase_if(rest, std::not_fn(is_position));
    Generator generator(7);
    testing::expect_error<Error>([&] { deferred_init(context, sharded.units(), some, generator); },
                                 "transformer.wpe.weight");
    deferred_init(context, sharded.units(), all, generator);
    const auto values = [&] {
      std::map<std::string, std::vector<float>> of;
      sharded.summon_full_parameters([&](const nn::Parameter& p) {
        const auto elements = p.data.span<float>();
        of[p.name].assign(elements.begin(), elements.end());
      });
      return of;
    };
    auto before = values();
    deferred_init(context, sharded.units(), rest, generator);
    auto after = values();
    EXPECT_NE(after["transformer.wpe.weight"], before["transformer.wpe.weight"]);
    after["transformer.wpe.weight"] = before["transformer.wpe.weight"];
    EXPECT_EQ(after, before);
  };
  testing::run_ranks(Backend::self, 1, body);
  testing::run_ranks(Backend::local, 2, body);
}

TEST(DeferredInit, NamesAParameterThatNoUnitHas) {
  const auto body = [](Context& context, std::unique_ptr<comm::Communicator> group) {
    TinyTraining training(context, std::move(group), {});
    nn::DrawPlan plan = training.model.nanogpt_draws();
    nn::Parameter stranger({3}, plan.front().init);
    stranger.name = "stranger";
    plan.push_back({&stranger, stranger.init});
    Generator generator(7);
    testing::expect_error<Error>(
        [&] { deferred_init(context, training.sharded.units(), plan, generator); },
        "draw of stranger");
  };
  testing::run_ranks(Backend::self, 1, body);
}

// A model that has its values is sharded as it is. If the caller asks for it, every rank gets rank
// 0's values.
TEST(Materialised, ModelKeepsItsValues) {
  for (ShardingStrategy strategy : {ShardingStrategy::no_shard, ShardingStrategy::shard_optimizer,
                                    ShardingStrategy::full_shard}) {
    for (const bool sync : {false, true}) {
      testing::run_ranks(
          Backend::local, 3, [&](Context& context, std::unique_ptr<comm::Communicator> world) {
            gpt::GPT model(kTiny);
            WholeModel memory(model);
            const auto seed = static_cast<std::uint64_t>(sync ? context.rank : 0);
            memory.initialise(model.nanogpt_draws(), 7 + seed);
            gpt::GPT twin(kTiny);
            WholeModel twin_memory(twin);
            twin_memory.initialise(twin.nanogpt_draws(), 7);  // the values of rank 0
            comm::Mesh mesh(std::move(world));
            ShardedModel sharded(context, model, mesh,
                                 {.strategy = strategy,
                                  .sync_module_states = sync,
                                  .wrap_policy = is_a<gpt::Block>});
            std::vector<float> whole;
            sharded.summon_full_parameters([&](const nn::Parameter& p) {
              const auto values = p.data.span<float>();
              whole.insert(whole.end(), values.begin(), values.end());
            });
            EXPECT_EQ(whole, weights_by_unit(twin)) << name_of(strategy);
            // This traffic is not part of training, unless the copy is kept for the first step.
            EXPECT_EQ(mesh.traffic().bytes_sent > 0, strategy == ShardingStrategy::shard_optimizer);
          });
    }
  }
}

TEST(Unit, RefusesToGatherWhatWasNeverInitialised) {
  testing::run_ranks(
      Backend::local, 2, [](Context& context, std::unique_ptr<comm::Communicator> world) {
        gpt::GPT model(kTiny);
        comm::Mesh mesh(std::move(world));
        ShardedModel sharded(context, model, mesh,
                             {.wrap_policy = [](const nn::Module&) { return false; }});
        testing::expect_error<Error>([&] { sharded.units()[0].unshard(); },
                                     "no values of transformer.wte.weight");
      });
}

}  // namespace
}  // namespace nanofsdp::fsdp
