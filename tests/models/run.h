#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "models/rank.h"
#include "models/reference.h"
#include "support/late_wire.h"
#include "support/ranks.h"
#include "support/temporary_directory.h"

namespace models {

/// @file
/// @brief Runs a program under FSDP, and compares it with its reference.

/// How long a rank waits for another.
using Patience = std::chrono::milliseconds;

using nanofsdp::testing::Backend;

/// Calls `keep` with the record of each rank, in that rank. `first`: whether it is the first one of
/// its tensor group.
/// @throws RankError, also if a rank waits until its timeout
inline void run_part(const Program& program, std::size_t part, const std::string& directory,
                     Patience patience, Backend backend,
                     const std::function<void(std::size_t rank, bool first, Record)>& keep) {
  const World& world = program.parts[part].world;
  const int tensor = world.tensor;
  const auto body = [&](Context& context, std::unique_ptr<comm::Communicator> all) {
    using nanofsdp::testing::LateWire;
    const std::chrono::microseconds delay(300 * (1 + context.rank));
    if (world.late) all = std::make_unique<LateWire>(std::move(all), delay);
    const auto rank = static_cast<std::size_t>(context.rank / tensor);
    keep(rank, context.rank % tensor == 0,
         Rank(context, std::move(all), program, part, directory).run());
  };
  nanofsdp::testing::run_ranks(backend, tensor * world.ranks, body, {.timeout = patience});
}

/// Does the same, and returns the first difference in words. Ranks that are processes compare by
/// themselves. Whether they own all elements together is not compared.
inline std::string compare_part(const Program& program, std::size_t part,
                                const std::string& directory, const Records& expected,
                                Patience patience, Backend backend) {
  Records records(expected.size());
  run_part(program, part, directory, patience, backend,
           [&](std::size_t rank, bool first, Record record) {
             if (backend == Backend::local && first) return void(records[rank] = std::move(record));
             std::string words = difference(expected[rank], record);
             if (words.empty()) words = difference_of_slices(expected[rank], record);
             if (!words.empty()) throw std::runtime_error(words);
           });
  return backend == Backend::local ? difference(expected, records) : "";
}

/// A directory in memory, so that no program waits for a disk.
inline std::filesystem::path quick_directory() {
  const std::filesystem::path memory = "/dev/shm";
  std::error_code none;
  return std::filesystem::exists(memory, none) ? memory : std::filesystem::temp_directory_path();
}

/// Runs a program and returns the first difference from its reference in words. Empty: there is
/// none.
inline std::string run(const Program& program, Patience patience = std::chrono::seconds(5),
                       Backend backend = Backend::local) {
  const nanofsdp::testing::TemporaryDirectory directory(quick_directory());
  std::size_t part = 0;
  const auto place = [&] {
    return program.parts.size() > 1 ? fmt::format("part {}, ", part) : std::string();
  };
  std::string refusal;
  try {
    const Outcome expected = Reference(program).run();
    for (; part < expected.parts.size(); ++part) {
      const bool ends_here = expected.refusal && part + 1 == expected.parts.size();
      if (ends_here) refusal = *expected.refusal;
      const std::string words =
          compare_part(program, part, directory.file(""), expected.parts[part], patience, backend);
      if (ends_here) return place() + "expected an error with '" + refusal + "', got none";
      if (!words.empty()) return place() + words;
    }
    return "";
  } catch (const std::exception& error) {
    const std::string words = error.what();
    const bool is_stated = !refusal.empty() && words.find(refusal) != words.npos;
    return is_stated ? "" : place() + words;
  }
}

}  // namespace models
