#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "fsdp/layout.h"

namespace nanofsdp::fsdp {
namespace {

Layout row_aligned(const std::vector<ParameterSpec>& parameters, int world,
                   std::int64_t alignment = 1) {
  return {parameters, world, alignment, LayoutKind::row_aligned};
}

// The example of the lessons: three parameters, 25 elements. On two ranks the cut falls behind the
// first row of C by itself. On three ranks B would be cut, so it starts in the next shard. C starts
// one element late, so that the next cut ends a row.
TEST(RowAlignedLayout, StartsAParameterWhereACutEndsARow) {
  const std::vector<ParameterSpec> toy = {{"A", {2, 3}}, {"B", {1, 5}}, {"C", {7, 2}}};
  const Layout two = row_aligned(toy, 2), three = row_aligned(toy, 3);
  EXPECT_EQ(two.shard_numel(), 13);
  EXPECT_EQ(two.in_whole(2), (Range{11, 25}));
  EXPECT_EQ(two.piece(2, 0).in_parameter, (Range{0, 2}));   // one row of C
  EXPECT_EQ(two.piece(2, 1).in_parameter, (Range{2, 14}));  // the other six
  EXPECT_EQ(two.padding_numel(), 1);
  EXPECT_EQ(three.shard_numel(), 10);
  EXPECT_EQ(three.in_whole(0), (Range{0, 6}));
  EXPECT_EQ(three.in_whole(1), (Range{10, 15}));
  EXPECT_EQ(three.in_whole(2), (Range{16, 30}));
  EXPECT_EQ(three.padding_numel(), 5);
}

// The matrix starts four elements late, so that the cut ends its first row. The two vectors behind
// it fill the gap.
TEST(RowAlignedLayout, FillsGapsWithLaterParameters) {
  const Layout layout =
      row_aligned({{"wide", {1, 6}}, {"matrix", {4, 5}}, {"bias", {2}}, {"last", {2}}}, 2);
  EXPECT_EQ(layout.shard_numel(), 15);
  EXPECT_EQ(layout.in_whole(0), (Range{0, 6}));
  EXPECT_EQ(layout.in_whole(1), (Range{10, 30}));
  EXPECT_EQ(layout.piece(1, 0).in_parameter, (Range{0, 5}));
  EXPECT_EQ(layout.in_whole(2), (Range{6, 8}));
  EXPECT_EQ(layout.in_whole(3), (Range{8, 10}));
  EXPECT_EQ(layout.padding_numel(), 0);
}

// If a row is longer than a rank's share of the elements, the shard grows to the row, and some
// ranks own nothing.
TEST(RowAlignedLayout, HasRoomForTheLongestRow) {
  const Layout layout = row_aligned({{"row", {1, 10}}, {"rows", {2, 10}}}, 8);
  EXPECT_EQ(layout.shard_numel(), 10);
  EXPECT_EQ(layout.padded_numel(), 80);
  for (int rank = 0; rank < 8; ++rank) {
    EXPECT_EQ(layout.piece(0, rank).in_shard.size(), rank == 0 ? 10 : 0);
    EXPECT_EQ(layout.piece(1, rank).in_shard.size(), rank == 1 || rank == 2 ? 10 : 0);
  }
  EXPECT_EQ(row_aligned({{"row", {1, 10}}}, 4, 4).shard_numel(), 12);  // aligned
}

TEST(RowAlignedLayout, MayBeEmpty) {
  EXPECT_EQ(row_aligned({}, 3).padded_numel(), 0);
  EXPECT_EQ(row_aligned({{"none", {0, 4}}, {"no_columns", {4, 0}}}, 3, 4).padded_numel(), 0);
}

// The law for places: parameters lie in the whole, at aligned places, and do not overlap.
void expect_places(const Layout& layout, std::int64_t alignment) {
  std::vector<Range> places;
  for (std::size_t i = 0; i < layout.parameters().size(); ++i) {
    const Range at = layout.in_whole(i);
    ASSERT_EQ(at.size(), layout.parameters()[i].numel());
    ASSERT_EQ(at.begin % alignment, 0);
    if (!at.empty()) places.push_back(at);
  }
  std::ranges::sort(places, {}, &Range::begin);
  std::int64_t end = 0;
  for (const Range& at : places) {
    ASSERT_GE(at.begin, end) << "two parameters overlap";
    end = at.end;
  }
  ASSERT_LE(end, layout.whole_numel());
  ASSERT_EQ(layout.whole_numel(), layout.padded_numel()) << "the row is not the whole";
}

// The law for pieces: over all ranks, the pieces of a parameter cover it once and in order, each
// consists of whole rows, and its place in the shard is that in the whole.
void expect_whole_rows(const Layout& layout) {
  for (std::size_t i = 0; i < layout.parameters().size(); ++i) {
    const std::int64_t row = layout.parameters()[i].row_numel();
    std::int64_t next = 0;
    for (int rank = 0; rank < layout.world_size(); ++rank) {
      const Piece piece = layout.piece(i, rank);
      ASSERT_EQ(piece.in_shard.size(), piece.in_parameter.size());
      if (piece.in_shard.empty()) continue;
      ASSERT_EQ(piece.in_parameter.begin, next);
      ASSERT_EQ(piece.in_parameter.begin % row, 0) << "a row was split";
      ASSERT_EQ(layout.shard_of(rank).begin + piece.in_shard.begin,
                layout.in_whole(i).begin + piece.in_parameter.begin);
      ASSERT_LE(piece.in_shard.end, layout.shard_numel());
      next = piece.in_parameter.end;
    }
    ASSERT_EQ(next, layout.parameters()[i].numel());
  }
}

// The law for padding. The gap before a parameter is smaller than `step`, the least common multiple
// of its row and the alignment. A shard with room for all parameters and their gaps is long enough,
// if the steps of all parameters that are longer than a shard divide it. So it is not longer than
// the first common multiple of these steps behind that, or than the longest parameter.
void expect_little_padding(const Layout& layout, std::int64_t alignment) {
  const std::int64_t world = layout.world_size();
  const Layout flat({layout.parameters().begin(), layout.parameters().end()}, layout.world_size(),
                    alignment);
  std::int64_t all = 0, common = alignment, longest = 0;
  for (const ParameterSpec& p : layout.parameters()) {
    if (p.numel() == 0) continue;
    const std::int64_t step = std::lcm(p.row_numel(), alignment);
    all += p.numel() + step - 1;
    longest = std::max(longest, p.numel());
    if (p.numel() > flat.shard_numel()) common = std::lcm(common, step);
  }
  const std::int64_t with_room = (all + world - 1) / world + alignment;
  const std::int64_t most = std::min(with_room + common, std::max(with_room, longest + alignment));
  ASSERT_LE(layout.shard_numel(), most);
  ASSERT_GE(layout.shard_numel(), flat.shard_numel());
  ASSERT_EQ(layout.shard_numel() % alignment, 0);
}

// Random units: scalars, vectors, matrices and cubes, of rows that have common factors or none, and
// parameters without elements.
std::vector<ParameterSpec> any_unit(std::mt19937& random) {
  const auto below = [&](unsigned n) { return static_cast<std::int64_t>(random() % n); };
  const std::int64_t columns[] = {1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 48, 1 + below(50)};
  std::vector<ParameterSpec> unit;
  for (std::int64_t i = below(9); i >= 0; --i) {
    const std::int64_t rows = below(10) == 0 ? 1 : below(below(3) == 0 ? 200 : 12);
    switch (below(6)) {
      case 0:
        unit.push_back({"scalar", {}});
        break;
      case 1:
        unit.push_back({"vector", {rows}});
        break;
      case 2:
        unit.push_back({"cube", {rows, 1 + below(3), columns[below(12)]}});
        break;
      case 3:
        unit.push_back({"none", {rows, 0}});
        break;
      default:
        unit.push_back({"matrix", {rows, columns[below(12)]}});
    }
  }
  return unit;
}

TEST(RowAlignedLayout, OwnsEachElementOnceInWholeRowsForAnyUnitAndWorld) {
  std::mt19937 random(1);
  for (int i = 0; i < 6000; ++i) {
    const std::vector<ParameterSpec> unit = any_unit(random);
    const int world = 1 + static_cast<int>(random() % 64);
    const std::int64_t alignment = std::vector{1, 4, 4, 12, 16}[random() % 5];
    std::string shapes;
    for (const ParameterSpec& p : unit) shapes += " " + p.shape.str();
    SCOPED_TRACE(::testing::Message() << "W=" << world << " a=" << alignment << shapes);
    const Layout layout = row_aligned(unit, world, alignment);
    expect_places(layout, alignment);
    expect_whole_rows(layout);
    expect_little_padding(layout, alignment);
    const Layout again = row_aligned(unit, world, alignment);
    ASSERT_EQ(again.shard_numel(), layout.shard_numel());
    for (std::size_t p = 0; p < unit.size(); ++p) ASSERT_EQ(again.in_whole(p), layout.in_whole(p));
    if (HasFatalFailure()) return;
  }
}

// Rows without a common factor, shards that are shorter than a row, and thousands of ranks.
TEST(RowAlignedLayout, IsFoundForUnitsOfBillions) {
  const std::vector<std::vector<ParameterSpec>> units = {
      {{"q", {4096, 4096}}, {"k", {1024, 4096}}, {"up", {14336, 4096}}, {"down", {4096, 14336}}},
      {{"a", {10007, 10009}}, {"b", {10009, 10007}}, {"c", {99991}}},
      {{"one", {1, 1 << 20}}, {"two", {1 << 20, 1}}, {"three", {7, 104729}}},
      {{"embedding", {128256, 65536}}, {"norm", {65536}}}};
  for (const auto& unit : units) {
    for (const int world : {1, 8, 1000, 4096}) {
      const Layout layout = row_aligned(unit, world, 4);
      SCOPED_TRACE(::testing::Message() << unit[0].name << " W=" << world);
      expect_places(layout, 4);
      expect_whole_rows(layout);
      expect_little_padding(layout, 4);
    }
  }
  std::vector<ParameterSpec> experts;
  for (int e = 0; e < 1000; ++e) {
    experts.push_back({"w", {e % 7 + 1, 100 + e % 13}});
    experts.push_back({"b", {e % 11}});
  }
  for (const int world : {3, 64, 4096}) expect_whole_rows(row_aligned(experts, world, 4));
}

}  // namespace
}  // namespace nanofsdp::fsdp
