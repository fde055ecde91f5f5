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
  const auto elements = fmt::format("of {} {} a rank", operation.count, name_of(operation.dtype));
  const auto text = [&]() -> std::string {
    switch (operation.kind) {
      case Kind::all_gather:
        return fmt::format("all_gather {} {}", operation.sequence, elements);
      case Kind::reduce_scatter:
        return fmt::format("reduce_scatter {} ({}) {}", operation.sequence,
                           operation.reduce == ReduceOp::sum ? "sum" : "average", elements);
      case Kind::broadcast:
        return fmt::format("broadcast {} from rank {} {}", operation.sequence, operation.root,
                           elements);
      case Kind::barrier:
        return fmt::format("barrier {}", operation.sequence);
      case Kind::split:
        break;
    }
    return fmt::format("split {}", operation.sequence);
  }();
  if (operation.unit[0] == '\0') return text;
  return fmt::format("{} for unit {}", text, operation.unit.data());
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
