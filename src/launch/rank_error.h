#pragma once

#include <stdexcept>
#include <string>

namespace nanofsdp::launch {

/// @file
/// @brief The error of a run of several ranks.

/// The words that every error has in which a rank has waited for its whole timeout.
inline constexpr char kInVain[] = " in vain ";

/// An error between ranks. One failure often causes errors on many ranks, and one of them is first.
struct RankError : std::runtime_error {
  /// @param message names the rank  @param follows the value of `consequence`
  explicit RankError(const std::string& message, bool follows = false)
      : std::runtime_error(message), consequence(follows) {}

  bool consequence;  ///< whether another rank failed first
};

}  // namespace nanofsdp::launch
