#include "frame/exercise.h"
#include "fsdp/layout.h"
#include "per_parameter_exercise.h"

using nanofsdp::fsdp::Layout;
using nanofsdp::fsdp::LayoutKind;
using nanofsdp::fsdp::Piece;

// Two matrices of a unit, with 1 to 3W + 1 rows, on W ranks from 1 to 8: every row of both.
int main() {
  lesson::Exercise exercise("place_of_row");
  for (int W = 1; W <= 8; ++W) {
    for (std::int64_t d = 1; d <= 3 * W + 1; ++d) {
      const Layout layout({{"first", {d, 3}}, {"second", {d / 2 + 1, 2}}}, W, 1,
                          LayoutKind::per_parameter);
      for (std::size_t i = 0; i < 2; ++i) {
        const auto& shape = layout.parameters()[i].shape;
        const InBuffer matrix = {.rows = shape[0],
                                 .columns = shape[1],
                                 .begin = layout.piece(i, 0).in_shard.begin,
                                 .shard_numel = layout.shard_numel()};
        for (int rank = 0; rank < W; ++rank) {
          const Piece piece = layout.piece(i, rank);
          for (std::int64_t e = 0; e < piece.in_parameter.size(); e += shape[1]) {
            const std::int64_t row = (piece.in_parameter.begin + e) / shape[1];
            exercise.expect(place_of_row(row, matrix, W),
                            rank * layout.shard_numel() + piece.in_shard.begin + e,
                            "i = {}, rows = {}, columns = {}, begin = {}, shard_numel = {}, W = {}",
                            row, shape[0], shape[1], matrix.begin, matrix.shard_numel, W);
          }
        }
      }
    }
  }
  return exercise.end();
}
