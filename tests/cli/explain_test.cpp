#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <regex>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "support/process.h"
#include "support/temporary_directory.h"

// Tests what --explain prints before training: the pieces of the parameters that each rank keeps.

namespace nanofsdp::explain_test {
namespace {

using namespace std::chrono_literals;

struct Piece {
  std::string parameter;
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

// The text about one unit.
struct Unit {
  std::int64_t elements = 0;
  std::int64_t shard = 0;
  std::vector<Piece> pieces;           // pieces of parameters that ranks share, rank by rank
  std::vector<std::int64_t> paddings;  // padding of each rank; 0: none
  std::vector<int> ranks;              // the ranks, in the order of their pieces
};

std::int64_t number(std::string text) {
  std::erase(text, ',');
  return std::stoll(text);
}

std::vector<Unit> told(int ranks, const std::string& layout, int shard_size = 0) {
  const testing::TemporaryDirectory directory;
  const std::string split = "hybrid_shard_optimizer", size = std::to_string(shard_size);
  testing::Process process(
      directory.file(""),
      {"train", "--strategy=" + (shard_size > 0 ? split : "full_shard"), "--shard_size=" + size,
       "--explain=True", "--layout=" + layout, "--ranks=" + std::to_string(ranks),
       "--backend=local", "--threads=1", "--max_iters=1", "--eval_iters=1", "--sample=0",
       "--n_layer=2", "--n_embd=6", "--n_head=2", "--block_size=8", "--batch_size=5"});
  EXPECT_EQ(process.wait(60s), 0) << process.err();
  const std::regex heading("  .*: ([0-9,]+) elements in shards of ([0-9,]+)");
  const std::regex piece(R"(([a-z0-9_.]+)\[([0-9]+):([0-9]+)\])"), padding("padding ([0-9,]+)");
  std::vector<Unit> units;
  std::istringstream text(process.out());
  std::smatch m;
  for (std::string line; std::getline(text, line);) {
    if (std::regex_match(line, m, heading))
      units.push_back({number(m[1]), number(m[2]), {}, {}, {}});
    if (!line.starts_with("    rank ")) continue;
    units.back().ranks.push_back(line[9] - '0');
    units.back().paddings.push_back(std::regex_search(line, m, padding) ? number(m[1]) : 0);
    for (std::sregex_iterator i(line.begin(), line.end(), piece), none; i != none; ++i) {
      units.back().pieces.push_back({(*i)[1], number((*i)[2]), number((*i)[3])});
    }
  }
  EXPECT_EQ(units.size(), 2u) << "two blocks that are alike, and the root: " << process.out();
  return units;
}

constexpr const char* kLayouts[] = {"flat", "per_parameter", "row_aligned"};

// The text lists the pieces of a shared parameter from its first element on, and each begins where
// the last one ends.
TEST(Explain, PiecesOfAParameterFollowOneAnother) {
  for (const char* layout : kLayouts) {
    for (const int ranks : {2, 3, 5}) {
      std::size_t pieces = 0;
      for (const Unit& unit : told(ranks, layout)) {
        std::map<std::string, std::int64_t> ends;
        for (const Piece& piece : unit.pieces) {
          EXPECT_EQ(piece.begin, ends[piece.parameter]) << piece.parameter;
          EXPECT_LT(piece.begin, piece.end) << piece.parameter;
          ends[piece.parameter] = piece.end;
        }
        pieces += unit.pieces.size();
      }
      EXPECT_GE(pieces, 2u) << ranks << ", " << layout;
    }
  }
}

TEST(Explain, PaddingIsWhatShardsHaveMoreThanTheUnit) {
  for (const char* layout : kLayouts) {
    for (const int ranks : {2, 3, 5}) {
      for (const Unit& unit : told(ranks, layout)) {
        ASSERT_EQ(unit.paddings.size(), static_cast<std::size_t>(ranks));
        std::int64_t padding = 0;
        for (const std::int64_t n : unit.paddings) padding += n;
        EXPECT_EQ(unit.elements + padding, ranks * unit.shard);
      }
    }
  }
}

// Two replicas split the update of two shards. Ranks 0 and 2 store the first shard.
TEST(Explain, NamesTheRankThatUpdatesAPiece) {
  for (const char* layout : kLayouts) {
    for (const Unit& unit : told(4, layout, /*shard_size=*/2)) {
      EXPECT_EQ(unit.ranks, (std::vector{0, 2, 1, 3}));
    }
  }
}

// The second layout cuts between rows. wpe has 8 rows of 6 elements, and 3 ranks keep 3, 3 and 2 of
// them.
TEST(Explain, PerParameterPiecesAreRows) {
  std::vector<std::pair<std::int64_t, std::int64_t>> wpe;
  for (const Unit& unit : told(3, "per_parameter")) {
    for (const Piece& piece : unit.pieces) {
      if (piece.parameter.ends_with("wpe.weight")) wpe.emplace_back(piece.begin, piece.end);
    }
  }
  EXPECT_EQ(wpe, (std::vector<std::pair<std::int64_t, std::int64_t>>{{0, 18}, {18, 36}, {36, 48}}));
}

}  // namespace
}  // namespace nanofsdp::explain_test
