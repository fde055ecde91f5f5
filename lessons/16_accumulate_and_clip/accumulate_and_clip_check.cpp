#include <cmath>
#include <vector>

#include "accumulate_and_clip_exercise.h"
#include "frame/exercise.h"

using nanofsdp::fsdp::Layout;

// Three parameters, filled with small whole numbers and one 4096. The square of 4096 is so large
// that a sum in float loses what is added to it. Padding holds NaN, or 3; with an alignment there
// is padding between parameters, too.
int main() {
  lesson::Exercise exercise("squares");
  for (int W = 1; W <= 6; ++W) {
    for (int alignment = 1; alignment <= 4; ++alignment) {
      for (std::int64_t n = 0; n <= 25; ++n) {
        const Layout layout({{"a", {n}}, {"b", {3}}, {"c", {n / 3, 2}}}, W, alignment);
        const float padding = n % 2 == 0 ? NAN : 3;
        std::vector<float> row(static_cast<std::size_t>(layout.padded_numel()), padding);
        std::vector<double> right(static_cast<std::size_t>(W));
        for (std::size_t i = 0; i < 3; ++i) {
          const auto [begin, end] = layout.in_whole(i);
          for (std::int64_t e = begin; e < end; ++e) {
            const double value = i == 1 && e == begin ? 4097 : static_cast<double>(1 + e % 7);
            row[static_cast<std::size_t>(e)] = static_cast<float>(value);
            right[static_cast<std::size_t>(e / layout.shard_numel())] += value * value;
          }
        }
        const auto s = static_cast<std::size_t>(layout.shard_numel());
        for (std::size_t rank = 0; rank < right.size(); ++rank) {
          const std::span<const float> shard = std::span<const float>(row).subspan(rank * s, s);
          exercise.expect(squares(layout, static_cast<int>(rank), shard), right[rank],
                          "sizes {}, 3, {}, alignment {}, padding {}, rank {} of {}", n, n / 3 * 2,
                          alignment, padding, rank, W);
        }
      }
    }
  }
  return exercise.end();
}
