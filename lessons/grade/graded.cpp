#include <unistd.h>

#include <array>
#include <cstdio>
#include <string>

// The main program of a graded exercise. grade.py sends a secret on stdin. When the checker has
// found that all is right, this program sends the secret back, a "y", and the checker's number for
// the leaderboard, if there is one. If not, it sends an "n" alone, so that the secret stays here.
// Other output does not count, and the exit code does not count either.
//
// CMake gives the checker's main, its number and its class Exercise names that are drawn at random
// for each folder of grades. So a student cannot use these names.

// A checker's main has arguments, or none.
[[gnu::weak]] int NANOFSDP_CHECKER();
[[gnu::weak]] int NANOFSDP_CHECKER(int, char**);
// A checker may have a number for the leaderboard.
[[gnu::weak]] int exposed_in_all();

namespace {

constexpr int kVerdict = 3;  // the descriptor on which grade.py reads the verdict
std::array<char, 64> secret;

// This runs before any constructor of a file that a student has handed in.
void hear_secret(int, char**, char**) {
  std::size_t got = 0;
  while (got < secret.size()) {
    const ssize_t n = read(STDIN_FILENO, secret.data() + got, secret.size() - got);
    if (n <= 0) _exit(2);
    got += static_cast<std::size_t>(n);
  }
}
[[gnu::used, gnu::section(".preinit_array")]] void (*first)(int, char**, char**) = hear_secret;

}  // namespace

int main(int argc, char** argv) {
  const auto given = static_cast<int (*)(int, char**)>(&NANOFSDP_CHECKER);
  const int failed = given != nullptr ? given(argc, argv) : NANOFSDP_CHECKER();
  const bool has_number = failed == 0 && exposed_in_all != nullptr;
  const int number = has_number ? exposed_in_all() : 0;
  if (number < 0) std::puts("What was right breaks a rule when it is asked for again.");
  std::fflush(stdout);
  std::string verdict = "n";
  if (failed == 0 && number >= 0) {
    verdict = std::string(secret.data(), secret.size()) + 'y';
    if (has_number) verdict += std::to_string(number);
  }
  return write(kVerdict, verdict.data(), verdict.size()) == std::ssize(verdict) ? 0 : 2;
}
