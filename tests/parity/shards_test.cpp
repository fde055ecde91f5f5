#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <numeric>
#include <span>
#include <sstream>
#include <string>
#include <tuple>
#include <vector>

#include "fsdp/layout.h"
#include "parity/golden.h"

// The rows of every parameter that a rank holds under per_parameter_layout, and their places in its
// shard, are those of PyTorch's fully_shard, to the bit.

namespace nanofsdp {
namespace {

Shape shape_of(std::string text) {
  std::vector<std::int64_t> dims;
  std::ranges::replace(text, 'x', ' ');
  std::istringstream words(text);
  for (std::int64_t dim = 0; words >> dim;) dims.push_back(dim);
  return Shape(dims);
}

struct Piece {
  fsdp::ParameterSpec padded, local;
  std::string hash;
};

// The shard of one rank of a unit.
struct Shard {
  std::vector<fsdp::ParameterSpec> parameters;
  std::vector<Piece> pieces;  // one for each parameter
  std::int64_t numel = 0;
  std::string hash;
};

// Shards by {unit, ranks, rank}, from the lines that golden_shards.py describes.
std::map<std::tuple<std::string, int, int>, Shard> shards() {
  std::map<std::tuple<std::string, int, int>, Shard> all;
  std::istringstream lines(testing::golden("fsdp2_shards.txt"));
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string kind, unit, shape, equals, padded, local;
    int ranks = 0, rank = 0;
    if (!(words >> kind >> ranks >> rank >> unit)) continue;
    Shard& shard = all[{unit, ranks, rank}];
    if (kind == "shard") {
      words >> equals >> shard.numel >> shard.hash;
    } else {
      Piece& piece = shard.pieces.emplace_back();
      words >> shape >> equals >> padded >> local >> piece.hash;
      piece.padded.shape = shape_of(padded), piece.local.shape = shape_of(local);
      shard.parameters.push_back({std::to_string(shard.parameters.size()), shape_of(shape)});
    }
  }
  return all;
}

std::string hash_of(std::span<const float> values) { return testing::sha256(values).substr(0, 16); }

// The elements of a parameter as golden_shards.py makes them.
std::vector<float> numbers(std::size_t p, std::int64_t count) {
  std::vector<float> values(static_cast<std::size_t>(count));
  std::iota(values.begin(), values.end(), static_cast<float>(65536 * p + 1));
  return values;
}

// The elements of a range.
template <class Values>
auto part(Values& values, fsdp::Range range) {
  return std::span(values).subspan(static_cast<std::size_t>(range.begin),
                                   static_cast<std::size_t>(range.size()));
}

TEST(ShardsParity, EveryRankHoldsWhatItHoldsUnderFullyShard) {
  const auto all = shards();
  ASSERT_EQ(all.size(), 5u * (1 + 2 + 3 + 4 + 5 + 6));
  for (const auto& [key, want] : all) {
    const auto& [unit, ranks, rank] = key;
    const fsdp::Layout layout(want.parameters, ranks, 1, fsdp::LayoutKind::per_parameter);
    SCOPED_TRACE(fmt::format("{}, rank {} of {}", unit, rank, ranks));
    ASSERT_EQ(layout.shard_numel(), want.numel);
    std::vector<float> shard(static_cast<std::size_t>(want.numel));
    std::int64_t begin = 0;  // begin of the piece, with its padding
    for (std::size_t i = 0; i < want.pieces.size(); ++i) {
      SCOPED_TRACE(
          fmt::format("parameter {}: {}", i, fmt::join(want.parameters[i].shape.dims(), " x ")));
      const fsdp::Piece piece = layout.piece(i, rank);
      ASSERT_EQ(piece.in_parameter.size(), want.pieces[i].local.numel());
      if (!piece.in_shard.empty()) {
        EXPECT_EQ(piece.in_shard.begin, begin);
      }
      begin += want.pieces[i].padded.numel();
      const std::vector<float> whole = numbers(i, want.parameters[i].numel());
      EXPECT_EQ(hash_of(part(whole, piece.in_parameter)), want.pieces[i].hash);
      std::ranges::copy(part(whole, piece.in_parameter), part(shard, piece.in_shard).begin());
    }
    EXPECT_EQ(begin, want.numel);
    EXPECT_EQ(hash_of(shard), want.hash);
  }
}

}  // namespace
}  // namespace nanofsdp
