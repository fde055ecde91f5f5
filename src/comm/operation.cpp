#include "comm/operation.h"

#include <fmt/format.h>

#include <bit>

namespace nanofsdp::comm {

std::uint32_t fingerprint(const Operation& operation) {
  std::uint32_t hash = 0x811c9dc5;
  for (const auto byte : std::bit_cast<std::array<unsigned char, sizeof(Operation)>>(operation)) {
    hash = (hash ^ byte) * 0x01000193;
  }
  return hash;
}

std::string describe(const Operation& operation) {
  using Kind = Operation::Kind;
  static constexpr const char* kNames[] = {"all_gather", "reduce_scatter", "broadcast", "barrier",
                                           "split"};
  const auto [sequence, count, kind, reduce, dtype, root, unit] = operation;
  std::string text = fmt::format("{} {}", kNames[static_cast<int>(kind)], sequence);
  if (kind == Kind::reduce_scatter) text += reduce == ReduceOp::sum ? " (sum)" : " (average)";
  if (kind == Kind::broadcast) text += fmt::format(" from rank {}", root);
  if (kind < Kind::barrier) text += fmt::format(" of {} {} a rank", count, name_of(dtype));
  if (unit[0] != '\0') text += fmt::format(" for unit {}", unit.data());
  return text;
}

CommError mismatch_error(int rank, const Operation& mine, int peer, const Operation& theirs) {
  return CommError(CommError::Kind::mismatch,
                   fmt::format("ranks disagree: rank {} called {}, rank {} called {}; every rank "
                               "must make the same calls in the same order",
                               rank, describe(mine), peer, describe(theirs)));
}

CommError operation_error(CommError::Kind kind, int rank, const Operation& operation,
                          const std::string& what) {
  return CommError(kind, fmt::format("rank {} {} in {}", rank, what, describe(operation)));
}

}  // namespace nanofsdp::comm
