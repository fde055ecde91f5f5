#include "fsdp/layout.h"

#include <gtest/gtest.h>

#include "base/check.h"

namespace nanofsdp::fsdp {
namespace {

// The example of the lessons: three parameters, 25 elements, two ranks.
Layout toy() { return {{{"A", {2, 3}}, {"B", {1, 5}}, {"C", {7, 2}}}, 2}; }

TEST(FlatLayout, PadsToAMultipleOfTheWorldSize) {
  EXPECT_EQ(toy().total_numel(), 25);
  EXPECT_EQ(toy().shard_numel(), 13);
  EXPECT_EQ(toy().padding_numel(), 1);
}

TEST(FlatLayout, CutsAParameterWhereTheShardEnds) {
  const Layout layout = toy();
  EXPECT_EQ(layout.piece(0, 0).in_shard, (Range{0, 6}));       // all of A
  EXPECT_EQ(layout.piece(2, 0).in_shard, (Range{11, 13}));     // the first two elements of C
  EXPECT_EQ(layout.piece(2, 1).in_parameter, (Range{2, 14}));  // the other twelve
  EXPECT_TRUE(layout.piece(1, 1).in_shard.empty());            // none of B
}

TEST(FlatLayout, StartsEveryParameterAndShardAtAMultipleOfTheAlignment) {
  const Layout layout{{{"A", {2, 3}}, {"B", {1, 5}}, {"C", {7, 2}}}, 2, 4};
  EXPECT_EQ(layout.in_whole(0), (Range{0, 6}));
  EXPECT_EQ(layout.in_whole(1), (Range{8, 13}));
  EXPECT_EQ(layout.in_whole(2), (Range{16, 30}));
  EXPECT_EQ(layout.shard_numel(), 16);  // 30 / 2 = 15, rounded up to a multiple of 4
  EXPECT_EQ(layout.padding_numel(), 7);
}

// The law: over all ranks, the pieces of a parameter cover it exactly once, in order, and lie in
// the shard at the places of the flat parameter.
void expect_tiled(const Layout& layout) {
  for (std::size_t i = 0; i < layout.parameters().size(); ++i) {
    std::int64_t next = 0;
    for (int rank = 0; rank < layout.world_size(); ++rank) {
      const Piece piece = layout.piece(i, rank);
      ASSERT_EQ(piece.in_shard.size(), piece.in_parameter.size());
      if (piece.in_shard.empty()) continue;
      ASSERT_EQ(piece.in_parameter.begin, next);
      ASSERT_GE(piece.in_shard.begin, 0);
      ASSERT_LE(piece.in_shard.end, layout.shard_numel());
      ASSERT_EQ(layout.shard_of(rank).begin + piece.in_shard.begin,
                layout.in_whole(i).begin + piece.in_parameter.begin);
      next = piece.in_parameter.end;
    }
    ASSERT_EQ(next, layout.parameters()[i].numel());
  }
}

TEST(FlatLayout, PiecesTileEveryParameterForEverySizeAndWorld) {
  for (const std::int64_t alignment : {1, 4}) {
    for (int world = 1; world <= 8; ++world) {
      for (std::int64_t n = 0; n <= 3 * world + 1; ++n) {
        for (std::int64_t m = 0; m <= 3 * world + 1; ++m) {
          const Layout layout{{{"first", {n}}, {"second", {m}}}, world, alignment};
          SCOPED_TRACE(::testing::Message() << "n=" << n << " m=" << m << " W=" << world);
          ASSERT_EQ(layout.shard_numel() % alignment, 0);
          ASSERT_EQ(layout.padded_numel(), world * layout.shard_numel());
          if (alignment == 1) {
            ASSERT_LT(layout.padding_numel(), world);
          }
          expect_tiled(layout);
        }
      }
    }
  }
}

TEST(FlatLayout, RefusesAWorldWithoutRanksAndANegativeDimension) {
  EXPECT_THROW((Layout{{}, 0}), Error);
  EXPECT_THROW((Layout{{{"A", {-1}}}, 1}), Error);
  EXPECT_THROW((Layout{{}, 1, 0}), Error);
}

}  // namespace
}  // namespace nanofsdp::fsdp
