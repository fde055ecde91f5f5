#!/bin/sh
# Prints the installed C++ compiler that is to be used; on stderr, one line that says why.
#
# GCC first, as nearly everybody has it. Measured on a Zen 5, where the CPU has AVX-512: a training
# step of g++ 12 takes 0.99 to 1.02 of the time of Clang 14.
set -u

# A compiler counts only if it is new enough and really compiles and links C++20 here: a Clang may
# stand beside a GCC whose headers are not installed.
works() {
  command -v "$1" >/dev/null 2>&1 && [ "$(version "$1")" -ge "$2" ] &&
    printf '#include <span>\nint main() { return std::span<int>().size(); }\n' |
    "$1" -std=c++20 -x c++ -o /dev/null - 2>/dev/null
}
version() { "$1" -dumpversion | sed 's/\..*//'; }

first_of() {  # first_of OLDEST NAME...: the first that works
  oldest=$1; shift
  for name; do works "$name" "$oldest" && { echo "$name"; return; }; done
}
gcc=$(first_of 11 g++ g++-15 g++-14 g++-13 g++-12 g++-11)
clang=$(first_of 14 clang++ clang++-20 clang++-19 clang++-18 clang++-17 clang++-16 clang++-15 clang++-14)

choice=${gcc:-${clang:-g++}}
why="new enough"
[ -n "$gcc$clang" ] || why="nothing found that is new enough"
echo "nanofsdp: compiler $choice ($why; make CXX=... chooses another)" >&2
echo "$choice"
