#include <iostream>
#include <string>

#include "engine/binding.h"

/// @file
/// @brief The page's engine without a browser. It reads requests from stdin and writes answers to
/// stdout, one in each line.

int main() {
  nanofsdp::play::Binding binding;
  for (std::string request; std::getline(std::cin, request);) {
    std::cout << binding.answer(request) << std::endl;
  }
}
