#include "frame/exercise.h"
#include "fsdp/layout.h"
#include "per_parameter_exercise.h"

using nanofsdp::fsdp::Layout;
using nanofsdp::fsdp::LayoutKind;

namespace {

// The five matrices of the page: for each the place at which it begins.
void check_page(lesson::Exercise& exercise) {
  const struct {
    Matrix matrix;
    std::int64_t end, begin;
  } page[] = {{{2, 3}, 0, 0}, {{1, 5}, 6, 10}, {{7, 2}, 15, 16}, {{4, 3}, 2, 4}, {{9, 1}, 5, 5}};
  for (const auto& [matrix, end, begin] : page) {
    exercise.expect(begin_of(matrix, end, 10), begin, "rows = {}, columns = {}, end = {}, s = 10",
                    matrix.rows, matrix.columns, end);
  }
}

}  // namespace

// The page's table. Then units of two matrices on 1 to 8 ranks: the second one begins where the
// library has it.
int main() {
  lesson::Exercise exercise("begin_of");
  check_page(exercise);
  for (int W = 1; W <= 8; ++W) {
    for (std::int64_t d = 1; d <= 3 * W + 1; ++d) {
      for (const std::int64_t columns : {1, 2, 5, 8}) {
        const Layout layout({{"first", {d, 3}}, {"second", {d / 2 + 1, columns}}}, W, 1,
                            LayoutKind::row_aligned);
        const Matrix second = {.rows = d / 2 + 1, .columns = columns};
        const std::int64_t end = layout.in_whole(0).end, s = layout.shard_numel();
        const std::int64_t gap = layout.in_whole(0).begin;  // the library fills gaps first
        if (gap > 0 && layout.in_whole(1).begin < gap) continue;
        exercise.expect(begin_of(second, end, s), layout.in_whole(1).begin,
                        "rows = {}, columns = {}, end = {}, s = {}, W = {}", second.rows,
                        second.columns, end, s, W);
      }
    }
  }
  return exercise.end();
}
