#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "comm/mesh.h"
#include "fsdp/fully_shard.h"
#include "support/errors.h"
#include "support/layouts.h"
#include "support/ranks.h"
#include "support/tensors.h"
#include "support/translator.h"
#include "support/whole_model.h"

// Shards modules that take several tensors, cross attention with a memory and a mask, and return
// two.

namespace nanofsdp::fsdp::several_tensors_test {
namespace {

using testing::Backend;
using testing::CrossAttention;
using testing::Owned;
using testing::PlainLayer;
using testing::random_tensor;
using testing::Translator;

constexpr std::int64_t kSource = 4, kTarget = 3;

struct Batch {
  explicit Batch(int rank)
      : source(random_tensor({kSource, testing::kTranslatorWidth}, 10 + rank)),
        target(random_tensor({kTarget, testing::kTranslatorWidth}, 20 + rank)),
        mask({kTarget, kSource}, 1),
        dy(random_tensor({kTarget, testing::kTranslatorWidth}, 30 + rank)),
        dweights(random_tensor({kTarget, kSource}, 40 + rank)) {
    for (std::int64_t i = 0; i < kTarget; ++i) {
      for (std::int64_t j = i + 1; j < kSource; ++j) mask.values[i * kSource + j] = 0;
    }
  }
  Owned<float> source, target, mask, dy, dweights;
};

void append(std::vector<float>& all, Tensor x) {
  const std::span<float> values = x.span<float>();
  all.insert(all.end(), values.begin(), values.end());
}

// The results of a pass on one rank: two outputs, and the gradients of two inputs.
std::vector<float> pass(Translator& model, nn::Tape& tape, int rank) {
  Batch batch(rank);
  std::vector<float> seen;
  tape.begin(true);
  const auto [y, weights] = model.forward(tape, batch.source, batch.target, batch.mask);
  append(seen, y), append(seen, weights);
  const auto [dsource, dtarget] = model.backward(tape, batch.dy, batch.dweights);
  append(seen, dsource), append(seen, dtarget);
  tape.end_backward();
  return seen;
}

std::vector<float> values_of(const nn::Parameter& parameter) {
  std::uint32_t seed = 1;
  for (const char c : parameter.name) seed = seed * 31 + static_cast<unsigned char>(c);
  return random_tensor(parameter.shape, seed).values;
}

// The unsharded model computes the rows of each rank in turn. This has the results of each rank,
// and the average of the gradients, which are added in the order of the ranks.
struct Expected {
  explicit Expected(int ranks) {
    Context context;
    nn::Tape tape(context);
    Translator model;
    testing::WholeModel memory(model);
    for (nn::Parameter* p : memory.parameters) {
      std::ranges::copy(values_of(*p), p->data.f32());
      gradients.emplace_back(p->name, std::vector<float>());
    }
    for (int rank = 0; rank < ranks; ++rank) {
      memory.zero_grad();
      seen.push_back(pass(model, tape, rank));
      for (std::size_t i = 0; i < gradients.size(); ++i) {
        std::vector<float>& sum = gradients[i].second;
        if (rank == 0) sum.assign(memory.parameters[i]->shape.numel(), -0.0F);
        for (std::size_t e = 0; e < sum.size(); ++e)
          sum[e] += memory.parameters[i]->grad().f32()[e];
      }
    }
    for (auto& [name, sum] : gradients) {
      for (float& x : sum) x *= 1.0F / static_cast<float>(ranks);
    }
  }

  std::vector<std::vector<float>> seen;
  std::vector<std::pair<std::string, std::vector<float>>> gradients;
};

void expect_gradients(const ShardedModel& sharded, const Expected& expected) {
  for (const Unit& unit : sharded.units()) {
    for (const ShardedParameters& row : unit.rows()) {
      for (std::size_t i = 0; i < row.parameters().size(); ++i) {
        const std::string& name = row.parameters()[i]->name;
        const auto found = std::ranges::find(expected.gradients, name,
                                             &std::pair<std::string, std::vector<float>>::first);
        ASSERT_NE(found, expected.gradients.end()) << name;
        const Piece piece = row.owned(i);
        std::vector<float> got, want;
        append(got, row.gradient_shard().slice(piece.in_shard.begin, piece.in_shard.size()));
        for (std::int64_t e = piece.in_parameter.begin; e < piece.in_parameter.end; ++e) {
          want.push_back(found->second[static_cast<std::size_t>(e)]);
        }
        EXPECT_EQ(got, want) << name;
      }
    }
  }
}

bool is_unit(const nn::Module& module) {
  return is_a<CrossAttention>(module) || is_a<PlainLayer>(module);
}

// Under every strategy and layout, on one to three ranks, outputs and gradients are to the bit
// those of the model that is not sharded.
TEST(SeveralTensors, AreThoseOfTheUnshardedModel) {
  for (int ranks = 1; ranks <= 3; ++ranks) {
    const Expected expected(ranks);
    for (const Sharding& sharding : kShardings) {
      for (const LayoutKind layout : testing::kLayouts) {
        testing::run_ranks(
            Backend::local, ranks,
            [&](Context& context, std::unique_ptr<comm::Communicator> world) {
              SCOPED_TRACE(std::string(sharding.name) + " " + std::to_string(ranks));
              comm::Mesh mesh(std::move(world));
              Translator model;
              ShardedModel sharded(context, model, mesh,
                                   {.strategy = sharding.strategy,
                                    .layout = layout,
                                    .poison = true,
                                    .wrap_policy = is_unit});
              for (ShardedParameters* row : sharded.rows()) {
                for (std::size_t i = 0; i < row->parameters().size(); ++i) {
                  row->store(i, values_of(*row->parameters()[i]));
                }
              }
              nn::Tape tape(context);
              for (int step = 0; step < 2; ++step) {
                sharded.zero_grad();
                EXPECT_EQ(pass(model, tape, context.rank), expected.seen[context.rank]);
                expect_gradients(sharded, expected);
              }
              EXPECT_EQ(sharded.units().size(), 4u);
              // Evaluation.
              Batch batch(context.rank);
              std::vector<float> seen;
              tape.begin(false);
              const auto [y, weights] = model.forward(tape, batch.source, batch.target, batch.mask);
              append(seen, y), append(seen, weights);
              EXPECT_TRUE(
                  std::equal(seen.begin(), seen.end(), expected.seen[context.rank].begin()));
              tape.end();
            });
      }
    }
  }
}

// A user's hooks run outside FSDP's, around the module's own function.
TEST(SeveralTensors, AreBracketedByHooks) {
  Context context;
  nn::Tape tape(context);
  Translator model;
  testing::WholeModel memory(model);
  std::string calls;
  const auto note = [&](const char* name) {
    return [&calls, name](nn::Tape&) { calls += std::string(name) + " "; };
  };
  model.hooks = {note("f"), note("F"), note("b"), note("B")};
  model.innermost = {note("[f"), note("F]"), note("[b"), note("B]")};
  model.second.hooks = {note("2f"), note("2F"), note("2b"), note("2B")};
  pass(model, tape, 0);
  EXPECT_EQ(calls, "f [f 2f 2F F] F b [b 2b 2B B] B ");
}

TEST(SeveralTensors, AreNotRecomputed) {
  Context context;
  nn::Tape tape(context);
  Translator model;
  testing::WholeModel memory(model);
  model.first.recompute = true;
  testing::expect_error<Error>([&] { pass(model, tape, 0); }, "a module of one tensor");
  tape.end();
  model.first.recompute = false;
  const std::vector<float> kept = pass(model, tape, 0);
  model.encoder.recompute = true;  // it lies inside, and has one tensor
  EXPECT_EQ(pass(model, tape, 0), kept);
}

}  // namespace
}  // namespace nanofsdp::fsdp::several_tensors_test
