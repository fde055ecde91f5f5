#include "train/trainer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "comm/local.h"
#include "nn/loss.h"
#include "ops/adamw.h"
#include "support/ranks.h"
#include "support/whole_model.h"
#include "train/options.h"

namespace nanofsdp::train {
namespace {

using nanofsdp::testing::Backend;
using nanofsdp::testing::Owned;
using nanofsdp::testing::WholeModel;

constexpr std::int64_t kSteps = 6;

/// Options that differ from their defaults nearly all, with values that show their effect. Clipping
/// is always active.
TrainerOptions small() {
  TrainerOptions o;
  o.batch_size = 4;
  o.block_size = 8;
  o.gradient_accumulation_steps = 3;
  o.n_layer = 2;
  o.n_head = 2;
  o.n_embd = 8;
  o.dropout = 0.1;
  o.bias = true;
  o.learning_rate = 1e-2;
  o.weight_decay = 0.3;
  o.beta1 = 0.8;
  o.beta2 = 0.9;
  o.grad_clip = 0.1;
  o.warmup_iters = 2;
  o.lr_decay_iters = 5;
  o.eval_iters = 2;
  o.seed = 7;
  return o;
}

/// A text of digits. Its last tenth, which validates, has only a's and b's.
data::Dataset text(const TrainerOptions& o, int first = 0) {
  std::string all;
  for (int i = first; all.size() < 450; ++i) all += std::to_string(i) + " ";
  all.resize(450);
  for (int i = 0; i < 25; ++i) all += "ab";
  return data::Dataset(all, "text", o.block_size);
}

// nanoGPT's loop in one process. Returns loss and gradient norm of each step.
std::vector<double> written_out(const TrainerOptions& o, const data::Dataset& dataset) {
  Context context;
  gpt::GPT model({.block_size = o.block_size,
                  .vocab_size = dataset.tokenizer().vocab_size(),
                  .n_layer = o.n_layer,
                  .n_head = o.n_head,
                  .n_embd = o.n_embd,
                  .dropout = static_cast<float>(o.dropout),
                  .bias = o.bias});
  WholeModel memory(model);
  std::vector<Owned<float>> m, v;
  for (const nn::Parameter* p : memory.parameters) {
    m.emplace_back(p->shape);
    v.emplace_back(p->shape);
  }
  Generator generator(static_cast<std::uint64_t>(o.seed));
  for (const nn::Draw& draw : model.nanogpt_draws()) {
    nn::draw(generator, draw.init, draw.parameter->data.span<float>());
  }
  nn::Tape tape(context);
  const std::int64_t B = o.batch_size, T = o.block_size, G = o.gradient_accumulation_steps;
  std::vector<double> record;
  for (std::int64_t it = 0; it < kSteps; ++it) {
    memory.zero_grad();
    Owned<double> total({1});
    for (std::int64_t g = 0; g < G; ++g) {
      Owned<std::int32_t> x({B, T}), y({B, T});
      dataset.draw(data::Split::train, generator, B, {0, B}, {x.values, y.values});
      tape.begin(true,
                 {.seed = static_cast<std::uint64_t>(o.seed), .iteration = it, .micro_step = g});
      nn::cross_entropy(tape, model.forward(tape, x), y, total);
      model.backward(tape, nn::cross_entropy_backward(tape, 1.0f / static_cast<float>(G * B * T)));
      tape.end_backward();
    }
    double squares = 0;
    for (const nn::Parameter* p : memory.parameters) {
      for (const double x : p->grad().span<float>()) squares += x * x;
    }
    const double norm = std::sqrt(squares);
    Owned<float> coefficient({1}, static_cast<float>(std::min(o.grad_clip / (norm + 1e-6), 1.0)));
    for (std::size_t i = 0; i < memory.parameters.size(); ++i) {
      nn::Parameter& p = *memory.parameters[i];
      ops::adamw(*context.compute, {.param = p.data,
                                    .grad = p.grad(),
                                    .m = m[i],
                                    .v = v[i],
                                    .lr = learning_rate_at(o, it),
                                    .beta1 = o.beta1,
                                    .beta2 = o.beta2,
                                    .weight_decay = p.shape.rank() >= 2 ? o.weight_decay : 0,
                                    .step = it + 1,
                                    .grad_scale = coefficient});
    }
    record.insert(record.end(), {total.values[0] / static_cast<double>(G * B * T), norm});
  }
  return record;
}

/// The result of `use` for a trainer on one rank.
template <class Use>
auto with_trainer(const TrainerOptions& o, const Use& use) {
  const data::Dataset dataset = text(o);
  Context context;
  Trainer trainer(context, comm::make_self(), o, dataset);
  return use(trainer);
}

TEST(Trainer, IsTheLoopWrittenOut) {
  const TrainerOptions o = small();
  const std::vector<double> expected = written_out(o, text(o));
  with_trainer(o, [&](Trainer& trainer) {
    for (std::int64_t it = 0; it < kSteps; ++it) {
      const StepResult result = trainer.step(it);
      EXPECT_NEAR(result.loss / expected[2 * it], 1, 1e-6) << "step " << it;
      EXPECT_NEAR(result.grad_norm / expected[2 * it + 1], 1, 2e-6) << "step " << it;
      EXPECT_GT(result.grad_norm, o.grad_clip);
      EXPECT_EQ(result.lr, learning_rate_at(o, it));
    }
  });
}

// Another order gives other weights and another place in the stream of draws, so another loss.
TEST(Trainer, DrawsItsWeightsInTheOrderAskedFor) {
  TrainerOptions o = small();
  const auto first_loss = [&] {
    return with_trainer(o, [](Trainer& trainer) { return trainer.step(0).loss; });
  };
  const double nanogpt = first_loss();
  o.init_order = InitOrder::fsdp;
  EXPECT_NE(first_loss(), nanogpt);
}

// The training text is learned, but the other one is not, because it has other characters.
TEST(Trainer, EvaluatesEachSplitOnItsOwnText) {
  with_trainer(small(), [](Trainer& trainer) {
    for (std::int64_t it = 0; it < 20; ++it) trainer.step(it);
    const EvalResult result = trainer.evaluate();
    EXPECT_GT(result.val_loss, result.train_loss + 0.2);
    // It has a seed of its own, and no dropout.
    EXPECT_EQ(trainer.evaluate().val_loss, result.val_loss);
  });
}

// Only learning changes the loss of an evaluation; the number of steps before it does not.
TEST(Trainer, EvaluatesTheSameBatchesEachTime) {
  TrainerOptions o = small();
  o.learning_rate = o.min_lr = 0;
  with_trainer(o, [](Trainer& trainer) {
    const EvalResult first = trainer.evaluate();
    for (std::int64_t it = 0; it < 5; ++it) {
      trainer.step(it);
      EXPECT_EQ(trainer.evaluate().train_loss, first.train_loss) << it;
      EXPECT_EQ(trainer.evaluate().val_loss, first.val_loss) << it;
    }
  });
}

// There are fewer rows than ranks. A rank without rows computes a row so that it takes part in
// collectives, and this row does not count.
TEST(Trainer, EvaluatesTheSameRowsOnAnyNumberOfRanks) {
  TrainerOptions o = small();
  o.batch_size = 2;
  const data::Dataset dataset = text(o);
  const EvalResult one = with_trainer(o, [](Trainer& trainer) { return trainer.evaluate(); });
  nanofsdp::testing::run_ranks(Backend::local, 3,
                               [&](Context& context, std::unique_ptr<comm::Communicator> world) {
                                 Trainer trainer(context, std::move(world), o, dataset);
                                 const EvalResult many = trainer.evaluate();
                                 EXPECT_NEAR(many.train_loss / one.train_loss, 1, 1e-6);
                                 EXPECT_NEAR(many.val_loss / one.val_loss, 1, 1e-6);
                               });
}

// Strategies and schedules give the same numbers, so the test tells them apart by the order of
// events.
TEST(Trainer, ShardsAndPrefetchesAsAskedFor) {
  const auto count = [](const TrainerOptions& o, const std::string& event) {
    const data::Dataset dataset = text(o);
    return nanofsdp::testing::run_ranks(
        Backend::local, 2, [&](Context& context, std::unique_ptr<comm::Communicator> world) {
          Trainer trainer(context, std::move(world), o, dataset);
          trainer.step(0);
          context.tracer.start();
          trainer.step(1);
          const std::vector<std::string> order = context.tracer.take_order();
          return std::vector<std::int64_t>{std::ranges::count_if(
              order, [&](const std::string& e) { return e.starts_with(event); })};
        })[0][0];
  };
  TrainerOptions o = small();                  // two blocks and the root, three micro-steps
  EXPECT_EQ(count(o, "u.transformer.h"), 12);  // gathered ahead, and asked for again in its turn
  o.forward_prefetch = 0;
  EXPECT_EQ(count(o, "RS."), 9);
  EXPECT_EQ(count(o, "u.transformer.h"), 6);  // gathered ahead, and asked for again in its turn
  o.backward_prefetch = fsdp::BackwardPrefetch::none;
  EXPECT_EQ(count(o, "u.transformer.h"), 0);
  o.no_sync = true;
  EXPECT_EQ(count(o, "RS."), 3);
  o.strategy = fsdp::ShardingStrategy::no_shard;
  EXPECT_EQ(count(o, "RS."), 0);
  EXPECT_EQ(count(o, "AR."), 3);
}

// Every rank divides by the tokens of all ranks, so the sum over ranks is the mean, and the norm is
// that of one rank.
TEST(Trainer, HasTheGradientOfTheWholeBatchOnAnyNumberOfRanks) {
  const TrainerOptions o = small();
  const data::Dataset dataset = text(o);
  const auto one = with_trainer(o, [](Trainer& trainer) { return trainer.step(0).grad_norm; });
  for (const int world : {2, 3}) {
    nanofsdp::testing::run_ranks(
        Backend::local, world, [&](Context& context, std::unique_ptr<comm::Communicator> group) {
          Trainer trainer(context, std::move(group), o, dataset);
          EXPECT_NEAR(trainer.step(0).grad_norm / one, 1, 1e-6) << world << " ranks";
        });
  }
}

// Rounded weights change the loss. Recompute does not change it, and takes less memory.
TEST(Trainer, RoundsAndRecomputesAsAskedFor) {
  const auto run = [](const TrainerOptions& o) {
    const data::Dataset dataset = text(o);
    Context context;
    Trainer trainer(context, comm::make_self(), o, dataset);
    for (std::int64_t it = 0; it < 2; ++it) trainer.step(it);
    return std::pair(trainer.step(2).loss, context.ledger.count(MemoryClass::activations).reserved);
  };
  TrainerOptions o = small();
  const auto [loss, bytes] = run(o);
  o.recompute = gpt::Recompute::block;
  const auto [same_loss, fewer_bytes] = run(o);
  EXPECT_EQ(same_loss, loss);
  EXPECT_LT(fewer_bytes, bytes);
  o.precision.param_dtype = DType::bfloat16;
  EXPECT_NE(run(o).first, loss);
}

// If ranks were started with different options, texts or models, they are told before the first
// step.
TEST(Trainer, RefusesRanksThatDisagree) {
  const auto error_of = [](const std::function<void(TrainerOptions&)>& change, bool other_text) {
    try {
      nanofsdp::testing::run_ranks(
          Backend::local, 2, [&](Context& context, std::unique_ptr<comm::Communicator> world) {
            TrainerOptions o = small();
            o.settings = {{"learning_rate", "0.01"}};
            o.max_iters = 1;
            if (context.rank == 1) change(o);
            const data::Dataset dataset = text(o, other_text ? context.rank : 0);
            Listener silent;
            Trainer(context, std::move(world), o, dataset).run(silent);
          });
    } catch (const nanofsdp::testing::RankError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  const auto nothing = [](TrainerOptions&) {};
  EXPECT_EQ(error_of(nothing, false), "");
  EXPECT_NE(error_of(
                [](TrainerOptions& o) {
                  o.settings = {{"learning_rate", "0.02"}};
                },
                false)
                .find("ranks disagree on options: rank 0"),
            std::string::npos);
  EXPECT_NE(error_of([](TrainerOptions& o) { o.n_embd = 4; }, false).find("on model"),
            std::string::npos);
  EXPECT_NE(error_of(nothing, true).find("on data"), std::string::npos);
}

}  // namespace
}  // namespace nanofsdp::train
