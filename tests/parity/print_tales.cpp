#include <cstdio>
#include <string>

#include "data/embedded.h"
#include "data/tales.h"

// The built-in corpus on stdout.
int main() {
  const std::string text = nanofsdp::expand_tales(nanofsdp::kTalesGrammar, nanofsdp::kTalesBytes);
  return std::fwrite(text.data(), 1, text.size(), stdout) == text.size() ? 0 : 1;
}
