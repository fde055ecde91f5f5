#include <cstdio>
#include <string>

#include "data/tales.h"

// Prints the built-in corpus.
int main() {
  using namespace nanofsdp;
  const std::string text = data::expand_tales(kTalesGrammar, data::kTalesBytes);
  return std::fwrite(text.data(), 1, text.size(), stdout) == text.size() ? 0 : 1;
}
