#include "comm/operation.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace nanofsdp::comm {
namespace {

// The line with the last calls of a rank.
std::string line_of(int rank, const History& history) {
  std::string text = fmt::format("\n  rank {}:", rank);
  const char* link = history[0].sequence > 1 ? " ... > " : " ";
  for (const Operation& operation : history)
    if (operation.sequence > 0) text += std::exchange(link, " > ") + describe(operation);
  return text;
}

}  // namespace

std::string describe(const Operation& operation) {
  using Kind = Operation::Kind;
  static constexpr const char* kNames[] = {"all_gather", "reduce_scatter", "broadcast", "barrier",
                                           "split"};
  const auto [sequence, count, kind, reduce, dtype, root, unit] = operation;
  std::string text = kNames[static_cast<int>(kind)];
  if (sequence > 0) text += fmt::format(" {}", sequence);
  if (kind == Kind::reduce_scatter) text += reduce == ReduceOp::sum ? " (sum)" : " (average)";
  if (kind == Kind::broadcast) text += fmt::format(" from rank {}", root);
  if (kind < Kind::barrier) text += fmt::format(" of {} {} a rank", count, name_of(dtype));
  if (unit[0] != '\0') text += fmt::format(" for unit {}", unit.data());
  return text;
}

Operation operation_of(Operation::Kind kind, const Tensor& chunk, const Call& call, ReduceOp reduce,
                       int root) {
  Operation operation{
      .count = chunk.numel(), .kind = kind, .reduce = reduce, .dtype = chunk.dtype(), .root = root};
  // The last character stays 0, so the text always ends.
  call.unit.copy(operation.unit.data(), operation.unit.size() - 1);
  return operation;
}

void append(History& history, const Operation& operation) {
  const std::uint64_t sequence = history.back().sequence + 1;
  std::shift_left(history.begin(), history.end(), 1);
  history.back() = operation;
  history.back().sequence = sequence;
}

CommError setup_error(int rank, const std::string& why, CommError::Kind kind) {
  return {kind, fmt::format("rank {} could not join its group: {}", rank, why)};
}

CommError mismatch_error(int rank, const History& mine, int peer, const History& theirs) {
  return {
      CommError::Kind::mismatch,
      fmt::format("ranks disagree: rank {} called {}, rank {} called {}; every rank must make the "
                  "same calls in the same order{}{}",
                  rank, describe(mine.back()), peer, describe(theirs.back()), line_of(rank, mine),
                  line_of(peer, theirs))};
}

CommError operation_error(CommError::Kind kind, int rank, const History& history,
                          const std::string& what) {
  return {kind, fmt::format("rank {} {} in {}{}", rank, what, describe(history.back()),
                            what.find(launch::kInVain) != what.npos ? line_of(rank, history) : "")};
}

}  // namespace nanofsdp::comm
