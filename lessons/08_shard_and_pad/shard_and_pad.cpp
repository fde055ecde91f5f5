#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "frame/lesson.h"
#include "fsdp/layout.h"
#include "picture.h"

// Lesson 08: cut a row of elements into W equal shards, and find which piece of each parameter lies
// in which shard.

namespace {

using lesson::kToy;
using nanofsdp::fsdp::Layout;
using nanofsdp::fsdp::ParameterSpec;

struct Range {
  std::int64_t begin = 0, end = 0;  // [begin, end)
  std::int64_t size() const { return end - begin; }
};

//! [shard]
std::int64_t shard_numel(std::int64_t n, std::int64_t W) { return (n + W - 1) / W; }  // rounds up

Range shard_of(std::int64_t rank, std::int64_t s) { return {rank * s, (rank + 1) * s}; }
//! [shard]

//! [piece]
// The elements of a parameter that lie in the rank's shard, as a range of the row. The slow way: it
// asks of each element in which shard it lies.
Range piece(Range parameter, std::int64_t rank, std::int64_t s) {
  Range found;  // empty
  for (std::int64_t e = parameter.begin; e < parameter.end; ++e) {
    if (e / s != rank) continue;  // the element lies in the shard of another rank
    if (found.size() == 0) found.begin = e;
    found.end = e + 1;
  }
  return found;
}
//! [piece]

// The place of each parameter in the row.
std::vector<Range> laid_out(std::span<const ParameterSpec> parameters) {
  std::vector<Range> ranges;
  std::int64_t end = 0;
  for (const ParameterSpec& parameter : parameters) {
    ranges.push_back({end, end + parameter.numel()});
    end += parameter.numel();
  }
  return ranges;
}

// "rank 1: C[2,14) padding 1". Each piece is counted from the start of its parameter.
std::string describe(std::int64_t rank, std::int64_t W) {
  const std::vector<Range> flat = laid_out(kToy);
  const std::int64_t s = shard_numel(flat.back().end, W);
  std::string line = fmt::format("rank {}:", rank);
  for (std::size_t i = 0; i < flat.size(); ++i) {
    const Range mine = piece(flat[i], rank, s);
    if (mine.size() == 0) continue;
    line += fmt::format(" {}[{},{})", kToy[i].name, mine.begin - flat[i].begin,
                        mine.end - flat[i].begin);
  }
  const Range shard = shard_of(rank, s);
  const std::int64_t padding = shard.end - std::max(flat.back().end, shard.begin);
  return line + (padding > 0 ? fmt::format(" padding {}", padding) : "");
}

// Whether each element of each parameter lies on exactly one rank, and on the same in the library.
bool tiles_and_equals_library(std::int64_t W) {
  const Layout layout({kToy.begin(), kToy.end()}, static_cast<int>(W));
  const std::vector<Range> flat = laid_out(kToy);
  bool right = true;
  for (std::size_t i = 0; i < flat.size(); ++i) {
    std::int64_t next = flat[i].begin;  // the element that no rank has had yet
    for (int rank = 0; rank < W; ++rank) {
      const Range mine = piece(flat[i], rank, layout.shard_numel());
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

}  // namespace

int main(int argc, char** argv) {
  lesson::Lesson lesson(argc, argv);
  const std::int64_t n = laid_out(kToy).back().end, s = shard_numel(n, 2);
  lesson.print(fmt::format("toy, W = 2: {} elements, shard {}, padding {}", n, s, 2 * s - n));
  for (int rank = 0; rank < 2; ++rank) lesson.print(describe(rank, 2));
  lesson.answer(s);
  lesson.answer(2 * s - n);
  lesson.answer(piece(laid_out(kToy)[2], 1, s).size());

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
  lesson.picture(lesson::picture_of_cut(static_cast<int>(s)));
  return lesson.end("the pieces of every parameter tile it once, and equal Layout's, for W = 1..8");
}
