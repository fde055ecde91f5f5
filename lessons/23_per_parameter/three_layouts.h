#pragma once

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "23_per_parameter/picture.h"
#include "comm/local.h"
#include "frame/lesson.h"
#include "frame/sharded_rank.h"
#include "fsdp/layout.h"
#include "fsdp/sharded_parameters.h"
#include "fsdp/wrap.h"

/// @file
/// @brief The library in its three layouts, for lesson 23: the units, and the bytes that a rank
/// keeps and sends.

namespace lesson {

using namespace nanofsdp;

/// The GPT of 804096 parameters, unit by unit.
inline std::vector<Parameters> units_of_nanogpt() {
  gpt::GPT model(nanogpt(65));
  std::vector<Parameters> units;
  for (const auto& unit : fsdp::wrap(model, is_block)) {
    units.push_back(fsdp::specs_of(unit.parameters));
  }
  return units;
}

/// Elements of padding of all units.
inline std::int64_t padding(const std::vector<Parameters>& units, fsdp::LayoutKind kind, int W) {
  std::int64_t sum = 0;
  for (const Parameters& unit : units) {
    sum += fsdp::Layout(unit, W, /*alignment=*/1, kind).padding_numel();
  }
  return sum;
}

/// Whether the pieces are those of the library's layout.
inline bool are_librarys(const std::vector<Piece>& pieces, const Parameters& unit, int W) {
  const fsdp::Layout layout(unit, W, /*alignment=*/1, fsdp::LayoutKind::per_parameter);
  bool same = true;
  for (const Piece& p : pieces) {
    const fsdp::Piece their = layout.piece(p.parameter, static_cast<int>(p.rank));
    same = same && their.in_parameter.size() == p.numel;
    if (p.numel == 0) continue;
    same = same && p.rank * layout.shard_numel() + their.in_shard.begin == p.in_buffer &&
           layout.in_whole(p.parameter).begin + their.in_parameter.begin == p.in_whole;
  }
  return same;
}

/// How often a cut between two ranks falls inside a row of a matrix.
inline int cuts_inside_rows(const std::vector<Parameters>& units, fsdp::LayoutKind kind, int W) {
  int cuts = 0;
  for (const Parameters& unit : units) {
    const fsdp::Layout layout(unit, W, /*alignment=*/1, kind);
    for (std::size_t i = 0; i < unit.size(); ++i) {
      const std::int64_t columns = unit[i].shape.rank() < 2 ? 1 : unit[i].shape[1];
      for (int rank = 0; rank < W; ++rank) {
        cuts += layout.piece(i, rank).in_parameter.end % columns != 0;
      }
    }
  }
  return cuts;
}

/// The results of rank 0 after three steps; numbers are bytes.
struct Ran {
  std::int64_t shards = 0;   ///< bytes of parameters, gradients and moments
  std::int64_t slots = 0;    ///< for unsharded parameters and gradients
  std::int64_t buffers = 0;  ///< bytes of collectives that do not use the slots, and of the norm
  comm::Traffic step;        ///< the last
  std::vector<double> losses{};
  std::vector<float> weights{};  ///< weights of all ranks
};

/// Three steps of full_shard, without clipping: in each layout the norm adds up other shards, so
/// its last bit may differ.
inline Ran train(int W, fsdp::LayoutKind kind) {
  std::vector<Ran> ranks(static_cast<std::size_t>(W));
  comm::launch_threads(W, 1, [&](Context& context, std::unique_ptr<comm::Communicator> world) {
    ShardedRank rank(context, std::move(world), nanogpt(65), {.layout = kind, .alignment = 1});
    Ran& here = ranks[static_cast<std::size_t>(context.rank)];
    for (int step = 0; step < 3; ++step) {
      rank.mesh.reset_traffic();
      rank.sharded.zero_grad();
      const Rows rows(nanogpt(65), 2 * (W * step + context.rank), 2);
      here.losses.push_back(rank.forward_backward(rows, 1.0f / (2 * 64)));
      here.step = rank.mesh.traffic();
      rank.update(/*max_norm=*/1e9);
    }
    const auto reserved = [&](MemoryClass kind) { return context.ledger.count(kind).reserved; };
    here.shards = reserved(MemoryClass::parameter_shards) + reserved(MemoryClass::gradient_shards) +
                  reserved(MemoryClass::optimizer);
    here.slots =
        reserved(MemoryClass::unsharded_parameters) + reserved(MemoryClass::unsharded_gradients);
    here.buffers = reserved(MemoryClass::communication);
    here.weights = rank.weights();
  });
  return ranks[0];
}

/// The kinds of layout, in the order of the table's columns.
inline constexpr std::array kLayouts = {fsdp::LayoutKind::flat, fsdp::LayoutKind::per_parameter,
                                        fsdp::LayoutKind::row_aligned};

/// Rank 0 of W ranks in each layout.
inline std::array<Ran, 3> train_in_each_layout(int W) {
  return {train(W, kLayouts[0]), train(W, kLayouts[1]), train(W, kLayouts[2])};
}

/// Whether losses and weights are the same in all layouts.
inline bool are_equal(const std::array<Ran, 3>& ran) {
  bool same = true;
  for (const Ran& r : ran) {
    same = same && r.losses == ran[0].losses && r.weights == ran[0].weights;
  }
  return same;
}

/// A line of a table with a column for each layout.
inline void print_row(const Lesson& lesson, const std::string& name,
                      const std::array<std::int64_t, 3>& of) {
  lesson.print(fmt::format("{:<32}{:>10}{:>15}{:>13}", name, of[0], of[1], of[2]));
}

/// Calls number(kind) for each layout, and prints what it returns.
template <class Number>
void print_each(const Lesson& lesson, const std::string& name, const Number& number) {
  print_row(lesson, name, {number(kLayouts[0]), number(kLayouts[1]), number(kLayouts[2])});
}

/// Elements of padding, and the number of cuts inside rows.
inline void print_cuts(const Lesson& lesson, const std::vector<Parameters>& units) {
  lesson.print("nanoGPT, 804096 parameters            flat  per_parameter  row_aligned");
  for (const int W : {2, 3, 6}) {
    print_each(lesson, fmt::format("padding, W = {}", W),
               [&](auto kind) { return padding(units, kind, W); });
  }
  print_each(lesson, "cuts inside a row, W = 3",
             [&](auto kind) { return cuts_inside_rows(units, kind, 3); });
}

/// The matrices of a block of a Llama, by its width, that of its keys, and that of its MLP.
inline Parameters llama(std::int64_t width, std::int64_t keys, std::int64_t mlp) {
  return {{"q", {width, width}},  {"k", {keys, width}},   {"v", {keys, width}},
          {"o", {width, width}},  {"gate", {mlp, width}}, {"up", {mlp, width}},
          {"down", {width, mlp}}, {"norm_1", {width}},    {"norm_2", {width}}};
}

/// The padding of other models' units.
inline void print_units(const Lesson& lesson) {
  gpt::GPT gpt2({.block_size = 1024,
                 .vocab_size = 50257,
                 .n_layer = 1,
                 .n_head = 12,
                 .n_embd = 768,
                 .bias = true});
  const auto units = fsdp::wrap(gpt2, is_block);
  const auto print = [&](const std::string& name, int W, const Parameters& unit) {
    print_each(lesson, fmt::format("{}, W = {}", name, W),
               [&](auto kind) { return padding({unit}, kind, W); });
  };
  lesson.print("padding of a unit");
  print("  GPT-2, a block", 8, fsdp::specs_of(units[0].parameters));
  print("  GPT-2, the root", 8, fsdp::specs_of(units[1].parameters));
  print("  Llama 3 8B, a block", 64, llama(4096, 1024, 14336));
  print("  Llama 2 7B, a block", 64, llama(4096, 4096, 11008));
  print("  Llama 2 7B, a block", 512, llama(4096, 4096, 11008));
}

/// Bytes of rank 0.
inline void print_bytes(const Lesson& lesson, const std::array<Ran, 3>& ran, std::int64_t copied) {
  const auto row = [&](const char* name, auto bytes) {
    print_row(lesson, name, {bytes(ran[0]), bytes(ran[1]), bytes(ran[2])});
  };
  lesson.print("bytes of one of 3 ranks, full_shard");
  row("  shards", [](const Ran& r) { return r.shards; });
  row("  slots for whole units", [](const Ran& r) { return r.slots; });
  row("  buffers for copies", [](const Ran& r) { return r.buffers; });
  row("  a step sends", [](const Ran& r) { return r.step.bytes_sent; });
  print_row(lesson, "  a step copies", {0, copied, 0});
}

/// "AAAB.|A...": which parameter each element of the buffer belongs to, a dot for padding.
/// @param buffer of the elements' numbers in the whole, from 1 on  @param s of a shard
inline std::string letters(const Parameters& toy, const std::vector<float>& buffer,
                           std::int64_t s) {
  std::string line;
  for (std::size_t e = 0; e < buffer.size(); ++e) {
    if (e > 0 && static_cast<std::int64_t>(e) % s == 0) line += " | ";
    std::int64_t number = static_cast<std::int64_t>(buffer[e]);
    std::size_t i = 0;
    while (number > toy[i].numel()) number -= toy[i++].numel();
    line += number == 0 ? "." : toy[i].name;
  }
  return line;
}

/// The buffers of the toy on 3 ranks in each layout. @param buffer, s of the second one
inline void print_buffers(const Lesson& lesson, const Parameters& toy,
                          const std::vector<float>& buffer, std::int64_t s) {
  const auto in_place = [&](fsdp::LayoutKind kind) {
    const fsdp::Layout layout(toy, 3, /*alignment=*/1, kind);
    std::vector<float> whole(static_cast<std::size_t>(layout.padded_numel()));
    for (const Piece& p : pieces_in_place(layout)) {
      const auto begin = whole.begin() + p.in_buffer;
      std::iota(begin, begin + p.numel, static_cast<float>(p.in_whole + 1));
    }
    return letters(toy, whole, layout.shard_numel());
  };
  lesson.print("flat:          " + in_place(kLayouts[0]));
  lesson.print("per_parameter: " + letters(toy, buffer, s));
  lesson.print("row_aligned:   " + in_place(kLayouts[2]));
}

}  // namespace lesson
