#pragma once

#include <stdexcept>
#include <string>

namespace nanofsdp::launch {

/// @file
/// @brief The error of a run of several ranks.

/// The words that every error has in which a rank has waited for its whole timeout.
inline constexpr char kInVain[] = " in vain ";

/// An error between ranks. One failure often causes errors on many ranks, and one of them is first.
class RankError : public std::runtime_error {
 public:
  /// @param message names the rank  @param consequence whether another rank failed first
  RankError(const std::string& message, bool consequence)
      : std::runtime_error(message), consequence_(consequence) {}

  /// Whether another rank failed first.
  bool consequence() const { return consequence_; }

 private:
  bool consequence_;
};

}  // namespace nanofsdp::launch
