#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "23_per_parameter/picture.h"
#include "23_per_parameter/three_layouts.h"
#include "frame/lesson.h"
#include "fsdp/collectives.h"
#include "fsdp/layout.h"

// Lesson 23: cuts each parameter along its rows, and copies between the parameters and the buffer
// of a collective.

namespace {

using namespace nanofsdp;
using fsdp::LayoutKind;
using lesson::Parameters, lesson::Piece;
using Floats = std::vector<float>;
constexpr std::int64_t kRanks = 3;

const Parameters kToy = {{"A", {2, 3}}, {"B", {1, 5}}, {"C", {7, 2}}};

//! [chunk]
struct Rows {
  std::int64_t begin = 0, end = 0;  // [begin, end)
  std::int64_t count() const { return end - begin; }
};

// The rows that a rank owns, cut as by torch.chunk: a share of ceil(rows / W) for each rank, until
// no row is left.
Rows chunk(std::int64_t rows, std::int64_t W, std::int64_t rank) {
  const std::int64_t share = (rows + W - 1) / W;
  return {std::min(rank * share, rows), std::min((rank + 1) * share, rows)};
}
//! [chunk]

//! [pieces]
// The room for p in every shard: the elements of the largest chunk, which is rank 0's.
std::int64_t room(const fsdp::ParameterSpec& p, std::int64_t W) {
  return chunk(p.shape[0], W, 0).count() * (p.numel() / p.shape[0]);
}

std::int64_t shard_numel(const Parameters& unit, std::int64_t W) {
  std::int64_t s = 0;
  for (const fsdp::ParameterSpec& p : unit) s += room(p, W);
  return s;
}

// The chunks of all parameters and ranks, each with its place in the buffer, which has the shards
// of all ranks end to end, and its place among the unsharded parameters.
std::vector<Piece> pieces(const Parameters& unit, std::int64_t W) {
  std::vector<Piece> all;
  std::int64_t in_shard = 0, in_whole = 0;
  for (std::size_t i = 0; i < unit.size(); ++i) {
    const std::int64_t rows = unit[i].shape[0], columns = unit[i].numel() / rows;
    for (std::int64_t rank = 0; rank < W; ++rank) {
      const Rows own = chunk(rows, W, rank);
      all.push_back({.parameter = i,
                     .rank = rank,
                     .in_buffer = rank * shard_numel(unit, W) + in_shard,
                     .in_whole = in_whole + own.begin * columns,
                     .numel = own.count() * columns});
    }
    in_shard += room(unit[i], W), in_whole += unit[i].numel();
  }
  return all;
}
//! [pieces]

//! [copies]
void copy_out(const std::vector<Piece>& pieces, const Floats& buffer, Floats& whole) {
  for (const Piece& p : pieces)
    std::copy_n(buffer.begin() + p.in_buffer, p.numel, whole.begin() + p.in_whole);
}

void copy_in(const std::vector<Piece>& pieces, const Floats& whole, Floats& buffer) {
  for (const Piece& p : pieces)
    std::copy_n(whole.begin() + p.in_whole, p.numel, buffer.begin() + p.in_buffer);
}
//! [copies]

Tensor tensor(Floats& x) { return {x.data(), {std::ssize(x)}}; }

// Gathers and reduces the toy by hand and by the library. Its elements are 1, 2, ..., and each rank
// has random gradients.
void move_toy(lesson::Lesson& lesson) {
  comm::launch_threads(kRanks, 1, [&](Context& context, auto group) {
    const fsdp::Layout layout(kToy, kRanks, /*alignment=*/1, fsdp::LayoutKind::per_parameter);
    const std::vector<Piece> toy = pieces(kToy, kRanks);
    const std::int64_t s = shard_numel(kToy, kRanks), own = context.rank * s;
    Stream& stream = *context.compute;
    Floats first(layout.whole_numel()), whole = first, theirs = first, gradient = first;
    Floats buffer(kRanks * s), wire = buffer;
    std::iota(first.begin(), first.begin() + layout.total_numel(), 1.0f);
    Generator(1 + context.rank).normal(gradient, 0, 1);
    copy_in(toy, first, buffer);
    Floats shard(buffer.begin() + own, buffer.begin() + own + s);
    std::ranges::fill(buffer, 0.0f);
    const fsdp::Wire row{.memory = tensor(wire), .layout = &layout};
    fsdp::all_gather(stream, group.get(), tensor(shard), tensor(theirs), row, {});
    //! [gather]
    group->all_gather(stream, tensor(shard), tensor(buffer));
    copy_out(toy, buffer, whole);
    //! [gather]
    lesson.claim(whole == first && whole == theirs && buffer == wire, "gathered and copied out");
    if (context.rank == 0) lesson::print_buffers(lesson, kToy, buffer, s);
    //! [reduce]
    copy_in(toy, gradient, buffer);
    group->reduce_scatter(stream, tensor(buffer), tensor(shard), comm::ReduceOp::sum);
    //! [reduce]
    const auto sum = comm::ReduceOp::sum;
    const Tensor landed = fsdp::reduce_scatter(stream, *group, tensor(gradient), row, sum, {});
    lesson.claim(std::ranges::equal(shard, landed.span<float>()), "copied in and reduced");
  });
}

}  // namespace

int main(int argc, char** argv) {
  lesson::Lesson lesson(argc, argv);
  std::vector<std::int64_t> counts;
  for (int rank = 0; rank < 6; ++rank) counts.push_back(chunk(7, 6, rank).count());
  lesson.print(fmt::format("rows of 7, on 6 ranks: {}", fmt::join(counts, " ")));
  lesson.answer(std::ranges::count(counts, 0));
  const std::int64_t s = shard_numel(kToy, kRanks), n = 25;
  lesson.print(
      fmt::format("the toy on 3 ranks: {} elements, shard {}, padding {}", n, s, 3 * s - n));
  move_toy(lesson);
  lesson.answer(3 * s - n);

  const std::vector<Parameters> units = lesson::units_of_nanogpt();
  lesson::print_cuts(lesson, units);
  lesson::print_units(lesson);
  const auto ran = lesson::train_in_each_layout(3);
  const std::int64_t all = 804096, root = 16640;
  lesson.claim(ran[1].step.all_gathers == 9 && ran[1].step.reduce_scatters == 5, "9 and 5 calls");
  const std::int64_t gathered = 2 * all - root, reduced = all;  // elements of a step
  lesson::print_bytes(lesson, ran, 4 * (gathered + reduced));
  lesson.answer(gathered + reduced);
  const bool same = lesson::are_equal(ran);
  lesson.print(fmt::format("losses and weights of 3 steps: {}", same ? "equal" : "differs"));
  lesson.claim(same, "all layouts have the same bits");

  for (int W = 1; W <= 8; ++W) {
    for (const Parameters& unit : {kToy, units.front(), units.back()}) {
      lesson.claim(lesson::are_librarys(pieces(unit, W), unit, W), fmt::format("W = {}", W));
    }
  }
  lesson.picture(lesson::drawing(kToy, pieces(kToy, kRanks), s));
  return lesson.end("pieces and copies are the library's; a layout changes no bit of a weight");
}
