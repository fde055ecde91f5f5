#pragma once

#include <gtest/gtest.h>

#include <string>

namespace nanofsdp::testing {

/// Expects `action` to throw an Exception with a message that holds `words`.
template <class Exception, class Action>
void expect_error(const Action& action, const std::string& words) {
  try {
    action();
    ADD_FAILURE() << "expected an error with: " << words;
  } catch (const Exception& error) {
    EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
  }
}

}  // namespace nanofsdp::testing
