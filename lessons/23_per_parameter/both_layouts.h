#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <memory>
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
/// @brief The library in both layouts, for lesson 23: the units, and the bytes that a rank keeps
/// and sends.

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

/// A line of a table with a column for each layout.
inline void print_row(const Lesson& lesson, const std::string& name, std::int64_t flat,
                      std::int64_t per_parameter) {
  lesson.print(fmt::format("{:<30}{:>10}{:>15}", name, flat, per_parameter));
}

/// Elements of padding, and the number of cuts inside rows.
inline void print_cuts(const Lesson& lesson, const std::vector<Parameters>& units) {
  using enum fsdp::LayoutKind;
  lesson.print("nanoGPT, 804096 parameters          flat  per_parameter");
  for (const int W : {2, 3, 6}) {
    print_row(lesson, fmt::format("padding, W = {}", W), padding(units, flat, W),
              padding(units, per_parameter, W));
  }
  print_row(lesson, "cuts inside a row, W = 3", cuts_inside_rows(units, flat, 3),
            cuts_inside_rows(units, per_parameter, 3));
}

/// Bytes of rank 0.
inline void print_bytes(const Lesson& lesson, const Ran& flat, const Ran& per_parameter,
                        std::int64_t copied) {
  const auto row = [&](const char* name, std::int64_t Ran::*bytes) {
    print_row(lesson, name, flat.*bytes, per_parameter.*bytes);
  };
  lesson.print("bytes of one of 3 ranks, full_shard");
  row("  shards", &Ran::shards);
  row("  slots for whole units", &Ran::slots);
  row("  buffers for copies", &Ran::buffers);
  print_row(lesson, "  a step sends", flat.step.bytes_sent, per_parameter.step.bytes_sent);
  print_row(lesson, "  a step copies", 0, copied);
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

}  // namespace lesson
