#pragma once

#include <cstdint>
#include <string>

namespace lesson {

/// Writes 804096 as "804,096", as prose and pictures show numbers.
inline std::string separated(std::int64_t n) {
  std::string digits = std::to_string(n);
  for (auto at = static_cast<std::int64_t>(digits.size()) - 3; at > 0; at -= 3) {
    digits.insert(static_cast<std::size_t>(at), ",");
  }
  return digits;
}

}  // namespace lesson
