#!/bin/sh
# Prints the installed C++ compiler that makes the faster nanofsdp; on stderr, one line that says why.
#
# Measured with Eigen 3.4 on a Zen 5: where the CPU has AVX-512, Clang's matrix products are 4 % ahead
# of those of g++ 12; where it has AVX2 only, g++ is ahead. GCC 14 and later: not measured, so trusted.
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
why="the only one found that is new enough"
if [ -z "$gcc$clang" ]; then
  why="nothing found that is new enough"
elif [ -n "$gcc" ] && [ -n "$clang" ]; then
  why="as fast as any here"
  if grep -qsw avx512f /proc/cpuinfo && [ "$(version "$gcc")" -lt 14 ]; then
    choice=$clang
    why="with AVX-512 its matrix products beat those of $gcc $(version "$gcc")"
  fi
fi
echo "nanofsdp: compiler $choice ($why; make CXX=... chooses another)" >&2
echo "$choice"
