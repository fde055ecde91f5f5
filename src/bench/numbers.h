#pragma once

#include <cstdint>
#include <string>

namespace nanofsdp {

/// @file
/// @brief Formats numbers for people.

/// Formats 1234567 as "1,234,567".
std::string grouped(std::int64_t n);

/// Formats 1234567 as "1.23 MB".
std::string megabytes(std::int64_t bytes);

/// Formats a count with a noun: "1 rank", "2 ranks".
std::string plural(std::int64_t n, const char* noun);

}  // namespace nanofsdp
