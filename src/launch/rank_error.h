#pragma once

#include <stdexcept>
#include <string>

namespace nanofsdp::launch {

/// @file
/// @brief The error of a run of several ranks.

/// What every error says of a rank that has waited as long as its timeout.
inline constexpr char kInVain[] = " in vain ";

/// What goes wrong between ranks. Of all the errors that one failure sets off, one is the cause.
class RankError : public std::runtime_error {
 public:
  /// @param consequence whether another rank failed first
  RankError(const std::string& message, bool consequence)
      : std::runtime_error(message), consequence_(consequence) {}

  /// Whether it only says that another rank failed first.
  bool consequence() const { return consequence_; }

 private:
  bool consequence_;
};

}  // namespace nanofsdp::launch
