#include <string>

#include "frame/exercise.h"
#include "shard_and_pad_exercise.h"

using nanofsdp::fsdp::Layout;
using nanofsdp::fsdp::Piece;
using nanofsdp::fsdp::Range;

namespace nanofsdp::fsdp {
static bool operator==(const Piece& a, const Piece& b) {
  return a.in_shard == b.in_shard && a.in_parameter == b.in_parameter;
}
static std::string to_string(const Piece& p) {
  return fmt::format("in shard [{}, {}), in parameter [{}, {})", p.in_shard.begin, p.in_shard.end,
                     p.in_parameter.begin, p.in_parameter.end);
}
}  // namespace nanofsdp::fsdp

// Tries two parameters of n and n / 2 elements, for each W from 1 to 8 and each n from 0 to 3W + 1.
static int check_piece() {
  lesson::Exercise exercise("piece");
  for (int W = 1; W <= 8; ++W) {
    for (std::int64_t n = 0; n <= 3 * W + 1; ++n) {
      const Layout layout({{"first", {n}}, {"second", {n / 2}}}, W);
      for (std::size_t i = 0; i < 2; ++i) {
        for (int rank = 0; rank < W; ++rank) {
          const Range parameter = layout.in_whole(i), shard = layout.shard_of(rank);
          exercise.expect(piece(parameter, shard), layout.piece(i, rank),
                          "parameter [{}, {}) and shard [{}, {})", parameter.begin, parameter.end,
                          shard.begin, shard.end);
        }
      }
    }
  }
  return exercise.end();
}

// The specification asks of each element which rank had it, and which rank has it now.
static int check_to_fetch() {
  lesson::Exercise exercise("to_fetch");
  for (std::int64_t n = 0; n <= 30; ++n) {
    for (std::int64_t old_W = 1; old_W <= 6; ++old_W) {
      for (std::int64_t W = 1; W <= 6; ++W) {
        for (std::int64_t rank = 0; rank < W; ++rank) {
          std::int64_t missing = 0;
          for (std::int64_t e = 0; e < n; ++e) {
            const bool had = e / ((n + old_W - 1) / old_W) == rank;
            const bool has = e / ((n + W - 1) / W) == rank;
            missing += has && !had;
          }
          exercise.expect(to_fetch(n, old_W, W, rank), missing,
                          "{} elements, {} ranks before, {} now, rank {}", n, old_W, W, rank);
        }
      }
    }
  }
  return exercise.end();
}

int main() { return check_piece() + check_to_fetch() == 0 ? 0 : 1; }
