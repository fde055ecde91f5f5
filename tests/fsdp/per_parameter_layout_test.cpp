#include "fsdp/layout.h"

#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "fsdp/fully_shard.h"
#include "fsdp/sharded_parameters.h"
#include "fsdp/wrap.h"
#include "gpt/gpt.h"
#include "nn/linear.h"
#include "support/ranks.h"

namespace nanofsdp::fsdp {
namespace {

constexpr LayoutKind kPerParameter = LayoutKind::per_parameter;

// The example of the lessons: three parameters, 25 elements, two ranks.
TEST(PerParameterLayout, CutsEachParameterBetweenTwoRows) {
  const Layout layout{{{"A", {2, 3}}, {"B", {1, 5}}, {"C", {7, 2}}}, 2, 1, kPerParameter};
  EXPECT_EQ(layout.shard_numel(), 3 + 5 + 8);  // 1, 1 and 4 rows
  EXPECT_EQ(layout.padding_numel(), 2 * 16 - 25);
  EXPECT_EQ(layout.piece(0, 1).in_parameter, (Range{3, 6}));  // the second row of A
  EXPECT_EQ(layout.piece(0, 1).in_shard, (Range{0, 3}));
  EXPECT_TRUE(layout.piece(1, 1).in_shard.empty());            // none of B
  EXPECT_EQ(layout.piece(2, 1).in_parameter, (Range{8, 14}));  // three rows of C, not four
  EXPECT_EQ(layout.piece(2, 1).in_shard, (Range{8, 14}));      // behind the places for A and for B
}

// The rows of each rank are those of torch.chunk(tensor, W), which leaves empty chunks out.
TEST(PerParameterLayout, GivesRanksTheRowsOfTorchChunk) {
  const struct {
    std::int64_t rows;
    std::vector<std::int64_t> chunks;
  } known[] = {{7, {3, 3, 1}},
               {5, {2, 2, 1, 0}},
               {6, {2, 2, 2, 0}},
               {8, {2, 2, 2, 2}},
               {9, {2, 2, 2, 2, 1, 0, 0, 0}},
               {1, {1, 0, 0}},
               {0, {0, 0}},
               {4, {4}}};
  for (const auto& [rows, chunks] : known) {
    const int world = static_cast<int>(chunks.size());
    const Layout layout{{{"p", {rows, 5}}}, world, 1, kPerParameter};
    for (int rank = 0; rank < world; ++rank) {
      EXPECT_EQ(layout.piece(0, rank).in_parameter.size(), 5 * chunks[rank])
          << rows << " rows, rank " << rank << " of " << world;
    }
  }
}

// Shapes for many ranks: scalars, single rows, fewer rows than ranks, no elements at all.
const std::vector<ParameterSpec> kMany = {
    {"scalar", {}},      {"one", {1}},        {"vector", {7}},  {"row", {1, 5}},
    {"none", {0}},       {"no_rows", {0, 4}}, {"rows", {7, 2}}, {"no_columns", {4, 0}},
    {"cube", {5, 3, 2}}, {"even", {8, 3}},    {"last", {17}}};

// The laws for one parameter: its pieces follow one another, in whole rows. All of them have
// `chunk` elements, except the last one that is not empty. All ranks have them at the same place of
// their shards.
void expect_chunks(const Layout& layout, std::size_t i, std::int64_t begin_in_shard) {
  const ParameterSpec& p = layout.parameters()[i];
  const std::int64_t rows = p.shape.rank() == 0 ? 1 : p.shape[0];
  const std::int64_t row = rows == 0 ? 0 : p.numel() / rows;
  std::int64_t next = 0;
  for (int rank = 0; rank < layout.world_size(); ++rank) {
    const auto [in_shard, in_parameter] = layout.piece(i, rank);
    ASSERT_EQ(in_shard.size(), in_parameter.size());
    if (in_parameter.empty()) continue;
    ASSERT_EQ(in_parameter.begin, next);
    ASSERT_EQ(in_parameter.begin, rank * layout.chunk(i)) << "a rank before it has less";
    ASSERT_EQ(in_parameter.size() % row, 0) << "a row was split";
    ASSERT_EQ(in_shard.begin, begin_in_shard);
    next = in_parameter.end;
  }
  ASSERT_EQ(next, p.numel());
}

TEST(PerParameterLayout, PiecesTileEveryParameterForEveryShapeAndWorld) {
  std::vector<ParameterSpec> reversed(kMany.rbegin(), kMany.rend());
  for (const std::int64_t alignment : {1, 4}) {
    for (int world = 1; world <= 8; ++world) {
      for (const auto& parameters : {kMany, reversed}) {
        SCOPED_TRACE(::testing::Message() << "W=" << world << " a=" << alignment);
        const Layout layout{parameters, world, alignment, kPerParameter};
        std::int64_t end = 0, numel = 0;
        for (std::size_t i = 0; i < parameters.size(); ++i) {
          const Shape& shape = parameters[i].shape;
          std::int64_t chunk = shape.rank() == 0 ? 1 : (shape[0] + world - 1) / world;
          for (int d = 1; d < shape.rank(); ++d) chunk *= shape[d];
          const std::int64_t begin = round_up(end, alignment);
          ASSERT_EQ(layout.chunk(i), chunk) << parameters[i].name;
          ASSERT_EQ(layout.in_whole(i).size(), parameters[i].numel());
          ASSERT_EQ(layout.in_whole(i).begin % alignment, 0);
          expect_chunks(layout, i, begin);
          end = begin + chunk;
          numel += parameters[i].numel();
        }
        ASSERT_EQ(layout.shard_numel(), round_up(end, alignment));
        ASSERT_EQ(layout.padded_numel(), world * layout.shard_numel());
        ASSERT_EQ(layout.padding_numel(), world * layout.shard_numel() - numel);
      }
    }
  }
}

// The padding of all units of a nanoGPT with blocks as units.
std::int64_t padding(LayoutKind kind, const gpt::GPTConfig& config, int world) {
  gpt::GPT model(config);
  std::int64_t padding = 0;
  for (const WrappedModule& unit : wrap(model, is_a<gpt::Block>)) {
    padding += Layout(specs_of(unit.parameters), world, 1, kind).padding_numel();
  }
  return padding;
}

// The elements that FSDP1 and FSDP2 add to nanoGPT's character model of 804,096 parameters, and to
// GPT-2.
TEST(PerParameterLayout, PadsNanoGPTAsFsdp2Does) {
  using enum LayoutKind;
  const gpt::GPTConfig chars{
      .block_size = 64, .vocab_size = 65, .n_layer = 4, .n_head = 4, .n_embd = 128, .bias = false};
  EXPECT_EQ(padding(flat, chars, 3), 9);
  EXPECT_EQ(padding(per_parameter, chars, 3), 3'465);
  EXPECT_EQ(padding(flat, chars, 6), 12);
  EXPECT_EQ(padding(per_parameter, chars, 6), 12'708);
  gpt::GPTConfig gpt2{.block_size = 1024,
                      .vocab_size = 50304,
                      .n_layer = 12,
                      .n_head = 12,
                      .n_embd = 768,
                      .bias = true};
  EXPECT_EQ(padding(per_parameter, gpt2, 8), 0);
  gpt2.vocab_size = 50257;
  EXPECT_EQ(padding(flat, gpt2, 8), 0);
  EXPECT_EQ(padding(per_parameter, gpt2, 8), 5'376);
}

// As in FSDP2's local tensors, a parameter at rest consists of rows of the whole one, also for the
// optimizer. In FSDP1's layout it consists of elements.
TEST(ShardedParameters, AreRowsInTheSecondLayout) {
  const auto shapes = [](LayoutKind layout, ShardingStrategy strategy, int rank) {
    std::vector<Shape> all;
    testing::run_ranks(testing::Backend::local, 3,
                       [&](Context& context, std::unique_ptr<comm::Communicator> group) {
                         nn::Linear model({.in = 2, .out = 4});
                         comm::Mesh mesh(std::move(group));
                         const Options options{.strategy = strategy, .layout = layout};
                         ShardedModel sharded(context, model, mesh, options);
                         if (context.rank != rank) return;
                         const ShardedParameters& row = *sharded.rows()[0];
                         for (std::size_t i = 0; i < 2; ++i) {
                           if (strategy == ShardingStrategy::full_shard) {
                             EXPECT_EQ(row.parameters()[i]->data.shape(), row.owned_shape(i));
                           }
                           all.push_back(row.owned_shape(i));
                         }
                       });
    return all;
  };
  using enum ShardingStrategy;
  using Shapes = std::vector<Shape>;
  for (const ShardingStrategy strategy : {full_shard, shard_optimizer}) {
    EXPECT_EQ(shapes(LayoutKind::per_parameter, strategy, 1), (Shapes{{2, 2}, {2}}));
    EXPECT_EQ(shapes(LayoutKind::per_parameter, strategy, 2), (Shapes{{0, 2}, {0}}));
    // 12 elements, 4 for each rank.
    EXPECT_EQ(shapes(LayoutKind::flat, strategy, 1), (Shapes{{4}, {0}}));
  }
  EXPECT_EQ(shapes(LayoutKind::per_parameter, no_shard, 2), (Shapes{{4, 2}, {4}}));
}

// A parameter may have no elements. Then no rank has rows of it.
TEST(ShardedParameters, MayHaveNoElements) {
  Context context;
  for (const Shape& shape : {Shape{0, 5}, Shape{3, 0}}) {
    nn::Parameter empty(shape, nn::Init::zeros()), other(Shape{3, 5}, nn::Init::zeros());
    const ShardedParameters row(context, {&empty, &other}, 0, 2,
                                sharding_of(ShardingStrategy::full_shard), /*alignment=*/4,
                                LayoutKind::per_parameter);
    EXPECT_EQ(row.owned_shape(0), (Shape{0, shape[1]}));
    EXPECT_EQ(row.owned_shape(1), (Shape{2, 5}));
  }
}

}  // namespace
}  // namespace nanofsdp::fsdp
