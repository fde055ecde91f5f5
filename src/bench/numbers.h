#pragma once

#include <cstdint>
#include <string>

namespace nanofsdp {

/// @file
/// @brief Numbers as people read them.

/// 1234567 as "1,234,567".
std::string grouped(std::int64_t n);

/// 1234567 as "1.23 MB".
std::string megabytes(std::int64_t bytes);

/// 125 as "2:05".
std::string minutes(double seconds);

/// "1 rank", "2 ranks".
std::string plural(std::int64_t n, const char* noun);

}  // namespace nanofsdp
