#include <iostream>
#include <string>

#include "engine/binding.h"

/// @file
/// @brief The page's engine without a browser: a request a line on stdin, an answer a line on
/// stdout.

int main() {
  nanofsdp::play::Binding binding;
  for (std::string request; std::getline(std::cin, request);) {
    std::cout << binding.answer(request) << std::endl;
  }
}
