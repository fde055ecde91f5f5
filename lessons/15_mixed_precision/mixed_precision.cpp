#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "comm/communicator.h"
#include "frame/recipes.h"
#include "fsdp/collectives.h"
#include "sums.h"

// Lesson 15: bfloat16 is sent, float32 is added up.

namespace {

using namespace nanofsdp;
using lesson::tensor;

//! [rounded]
bfloat16 rounded(float x) {  // to the nearest; in the middle, to the one that ends in 0
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t last = (bits >> 16) & 1;
  return {static_cast<std::uint16_t>((bits + 0x7fff + last) >> 16)};
}
float widened(bfloat16 x) { return std::bit_cast<float>(std::uint32_t{x.bits} << 16); }
//! [rounded]

//! [gather]
std::vector<float> gather(Stream& stream, comm::Communicator& group, std::span<const float> shard) {
  std::vector<bfloat16> sent, received(shard.size() * group.size());
  for (const float x : shard) sent.push_back(rounded(x));
  group.all_gather(stream, tensor(sent), tensor(received));
  std::vector<float> full;
  for (const bfloat16 x : received) full.push_back(widened(x));
  return full;
}
//! [gather]

// Bytes that a rank receives of a block, on 2 ranks: in float32, in bfloat16, and by hand.
std::vector<std::int64_t> bytes_received(lesson::Lesson& lesson) {
  std::vector<std::int64_t> bytes;
  comm::launch_threads(2, 1, [&](Context& context, auto world) {
    comm::Communicator& group = *world;
    const auto count = [&] {
      if (context.rank == 0) bytes.push_back(group.traffic().bytes_received);
      group.reset_traffic();
    };
    const std::int64_t block = 196864;
    std::vector<float> shard(block / 2), full(block);
    std::vector<bfloat16> wire(block);
    Generator(1337 + context.rank).normal(shard, 0, 0.02);
    for (const Tensor& buffer : {Tensor(), tensor(wire)}) {  // none: float32 is sent
      fsdp::all_gather(*context.compute, &group, tensor(shard), tensor(full), {buffer}, {});
      count();
    }
    lesson.claim(gather(*context.compute, group, shard) == full, "gathered as by the library");
    count();
  });
  return bytes;
}

//! [train]
// AdamW updates the masters. Computation sees them rounded.
void step(comm::Communicator& world, lesson::Trainee& rank, bool bfloat16_master) {
  for (std::size_t i = 0; i < rank.masters.size(); ++i) {
    for (std::size_t e = 0; e < rank.masters[i].size(); ++e) {
      rank.weight(i)[e] = widened(rounded(rank.masters[i][e]));
    }
  }
  rank.last_loss = rank.forward_backward();  // arithmetic in float32, on rounded weights
  for (std::size_t i = 0; i < rank.masters.size(); ++i) {
    std::vector<bfloat16> sent;
    for (const float g : rank.gradient(i)) sent.push_back(rounded(g));
    std::vector<float> sum(sent.size());
    world.all_reduce(rank.stream, tensor(sent), tensor(sum), comm::ReduceOp::sum);
    for (std::size_t e = 0; e < sum.size(); ++e) rank.gradient(i)[e] = sum[e] / 2;
  }
  rank.update();  // AdamW, on the masters
  if (!bfloat16_master) return;
  for (std::vector<float>& master : rank.masters) {
    for (float& weight : master) weight = widened(rounded(weight));
  }
}
//! [train]

}  // namespace

int main(int argc, char** argv) {
  lesson::Lesson lesson(argc, argv);
  lesson.claim(lesson::rounds_as_library(rounded), "rounds as the library");
  for (const float update : {0.001f, 0.004f}) {
    const double in_float32 = lesson::updated(update, 1000, false).back();
    const double in_bfloat16 = lesson::updated(update, 1000, true).back();
    lesson.print(fmt::format("1 + 1000 x {}: {:.3f} in float32, {:.3f} in bfloat16", update,
                             in_float32, in_bfloat16));
    if (update == 0.001f) lesson.answer(std::lround(1000 * in_bfloat16));
  }
  const std::vector<std::int64_t> bytes = bytes_received(lesson);
  lesson.print(fmt::format("all-gather of a block on 2 ranks: {} bytes in float32, {} in bfloat16",
                           bytes[0], bytes[1]));
  lesson.print(lesson::words_of_float8(bytes[0]));
  lesson.claim(bytes[1] == bytes[2], "bytes by hand");
  lesson.answer(bytes[1]);
  const float of_rank[] = {256, 1, 2};
  float each = 0, never = 0;
  for (const float g : of_rank) each = widened(rounded(each + g)), never += widened(rounded(g));
  lesson.print(fmt::format("256 + 1 + 2: {} rounded each time, {} in float32", each, never));
  lesson.claim(lesson::library_sum(of_rank) == never, "the library does not round its sum");

  const auto mixed = lesson::run([](auto& world, auto& t) { step(world, t, false); });
  const auto master = lesson::run([](auto& world, auto& t) { step(world, t, true); });
  const lesson::Curve library = lesson::library(DType::bfloat16);
  lesson.claim(mixed.losses == library.losses, "losses by hand are the library's");
  lesson.claim(mixed.norms == library.norms, "norms by hand are the library's");
  const lesson::Curve in_float32 = lesson::library(DType::float32);
  lesson.print("loss of step             1       10       50      100  off from  moved");
  lesson.print("float32          " + lesson::row(in_float32, in_float32));
  lesson.print(
      fmt::format("mixed            {}{:>7}", lesson::row(mixed, in_float32), mixed.moved));
  lesson.print("mixed, float8    " + lesson::row(lesson::library(DType::float8_e4m3), in_float32));
  lesson.print(
      fmt::format("bfloat16 master  {}{:>7}", lesson::row(master, in_float32), master.moved));
  lesson.answer(master.moved);
  for (const lesson::Recipe& r : lesson::kRecipes) {
    lesson.print(
        fmt::format("{:<20} master {} + parameter {} + gradient {} + moments 2 x {} = {:>2}",
                    r.name, r.master, r.parameter, r.gradient, r.moment, r.bytes_a_parameter()));
  }
  using Errors = lesson::SumErrors;
  const std::vector<Errors> errors = lesson::sum_errors();
  lesson.print("sum over W ranks, W =        2        8       32       96      384     1024");
  lesson.print("ring in bfloat16     " + lesson::percents(errors, &Errors::ring));
  lesson.print("tree in bfloat16     " + lesson::percents(errors, &Errors::tree));
  lesson.print("bfloat16, float32 sum" + lesson::percents(errors, &Errors::owner));
  lesson.claim(errors.back().in_float32 < 1e-4, "a ring in float32 has no such error");
  lesson::Svg svg = lesson::drawing();
  draw(svg, errors);
  lesson.picture(svg);
  return lesson.end("100 steps in bfloat16 by hand are full_shard's, to the bit");
}
