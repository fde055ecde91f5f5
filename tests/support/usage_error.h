#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/check.h"

namespace nanofsdp::testing {

/// The text of the UsageError that `action` throws; "no error" if it throws none.
template <class F>
std::string usage_error(F&& action) {
  try {
    action();
  } catch (const UsageError& error) {
    return error.what();
  }
  return "no error";
}

/// Whether `text` is one line with all of `words`.
inline ::testing::AssertionResult one_line_with(const std::string& text,
                                                const std::vector<const char*>& words) {
  if (text.find('\n') != std::string::npos) {
    return ::testing::AssertionFailure() << "several lines: " << text;
  }
  for (const char* word : words) {
    if (text.find(word) == std::string::npos) {
      return ::testing::AssertionFailure() << "no '" << word << "' in: " << text;
    }
  }
  return ::testing::AssertionSuccess();
}

}  // namespace nanofsdp::testing
