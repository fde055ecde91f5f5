#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "frame/lesson.h"
#include "fsdp/layout.h"

// Lesson 08: cut a row of elements into W equal shards, and find which piece of which parameter
// lies in each.

namespace {

using nanofsdp::fsdp::Layout;
using nanofsdp::fsdp::ParameterSpec;

//! [range]
struct Range {
  std::int64_t begin = 0, end = 0;  // [begin, end)
  std::int64_t size() const { return end - begin; }
};
//! [range]

//! [shard]
std::int64_t shard_numel(std::int64_t n, std::int64_t W) { return (n + W - 1) / W; }

Range shard_of(std::int64_t rank, std::int64_t s) { return {rank * s, (rank + 1) * s}; }
//! [shard]

//! [piece]
Range piece(Range parameter, Range shard) {
  const auto begin = std::max(parameter.begin, shard.begin);
  const auto end = std::min(parameter.end, shard.end);
  return begin < end ? Range{begin, end} : Range{};
}
//! [piece]

// Where parameters lie that are laid end to end.
std::vector<Range> laid_out(const std::vector<ParameterSpec>& parameters) {
  std::vector<Range> ranges;
  std::int64_t end = 0;
  for (const ParameterSpec& parameter : parameters) {
    ranges.push_back({end, end + parameter.numel()});
    end += parameter.numel();
  }
  return ranges;
}

const std::vector<ParameterSpec> kToy = {{"A", {2, 3}}, {"B", {1, 5}}, {"C", {7, 2}}};

// "rank 1: C[2,14) padding 1": the pieces from the start of their parameters.
std::string describe(std::int64_t rank, std::int64_t W) {
  const std::vector<Range> flat = laid_out(kToy);
  const Range shard = shard_of(rank, shard_numel(flat.back().end, W));
  std::string line = fmt::format("rank {}:", rank);
  for (std::size_t i = 0; i < flat.size(); ++i) {
    const Range mine = piece(flat[i], shard);
    if (mine.size() == 0) continue;
    line += fmt::format(" {}[{},{})", kToy[i].name, mine.begin - flat[i].begin,
                        mine.end - flat[i].begin);
  }
  const std::int64_t padding = shard.end - std::max(flat.back().end, shard.begin);
  return line + (padding > 0 ? fmt::format(" padding {}", padding) : "");
}

// Every element of every parameter lies on exactly one rank, and there the library has it too.
bool tiles_and_equals_library(std::int64_t W) {
  const Layout layout(kToy, static_cast<int>(W));
  const std::vector<Range> flat = laid_out(kToy);
  bool right = true;
  for (std::size_t i = 0; i < flat.size(); ++i) {
    std::int64_t next = flat[i].begin;  // the element that no rank has had yet
    for (int rank = 0; rank < W; ++rank) {
      const Range mine = piece(flat[i], shard_of(rank, layout.shard_numel()));
      const auto theirs = layout.piece(i, rank).in_parameter;
      right = right && theirs.size() == mine.size();
      if (mine.size() == 0) continue;
      right = right && mine.begin == next && theirs.begin == mine.begin - flat[i].begin;
      next = mine.end;
    }
    right = right && next == flat[i].end;
  }
  return right;
}

lesson::Svg drawing() {
  const char* const labels = "ABC";
  const std::string_view fills[] = {lesson::colour::blue, lesson::colour::orange,
                                    lesson::colour::green};
  const std::vector<Range> flat = laid_out(kToy);
  lesson::Svg svg(700, 130);
  for (std::int64_t e = 0; e < 26; ++e) {
    std::size_t owner = 0;
    while (owner < 3 && e >= flat[owner].end) ++owner;
    const int x = 20 + 25 * static_cast<int>(e) + (e >= 13 ? 10 : 0);
    svg.rect(x, 40, 25, 25, owner < 3 ? fills[owner] : lesson::colour::grey);
    const std::string label(1, owner < 3 ? labels[owner] : '.');
    svg.text(x + 12, 57, label, lesson::Svg::At::middle);
  }
  svg.text(20, 25, "rank 0: [0, 13)");
  svg.text(355, 25, "rank 1: [13, 26), the last one padding");
  svg.line(350, 30, 350, 80);
  svg.text(20, 105, "A(2,3), B(1,5) and C(7,2) laid end to end: the cut falls inside C.");
  return svg;
}

}  // namespace

int main(int argc, char** argv) {
  lesson::Lesson lesson(argc, argv);
  const std::int64_t n = laid_out(kToy).back().end, s = shard_numel(n, 2);
  lesson.print(fmt::format("toy, W = 2: {} elements, shard {}, padding {}", n, s, 2 * s - n));
  for (int rank = 0; rank < 2; ++rank) lesson.print(describe(rank, 2));
  lesson.answer(s);
  lesson.answer(2 * s - n);
  lesson.answer(piece(laid_out(kToy)[2], shard_of(1, s)).size());

  // nanoGPT: four blocks of 196,864 elements and the root with the rest.
  const std::int64_t block = 196864, root = 804096 - 4 * block;
  lesson.print("nanoGPT, 804096 parameters in 5 units");
  for (const std::int64_t W : {3, 4}) {
    const std::int64_t in_block = W * shard_numel(block, W) - block;
    const std::int64_t in_root = W * shard_numel(root, W) - root;
    lesson.print(fmt::format("W = {}: padding {} elements ({} in each block, {} in the root unit)",
                             W, 4 * in_block + in_root, in_block, in_root));
  }

  for (std::int64_t W = 1; W <= 8; ++W) {
    lesson.claim(tiles_and_equals_library(W), fmt::format("pieces tile, W = {}", W));
  }
  lesson.picture(drawing());
  return lesson.end("the pieces of every parameter tile it once, and equal Layout's, for W = 1..8");
}
