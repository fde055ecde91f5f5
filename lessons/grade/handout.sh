#!/bin/sh
# handout.sh FILE: packs what students get: the sources and the lessons, without solutions and tests.
# In it `make exercise N=08`, `make next` and `make grade` work. Refuses if an exercise is solved here.
set -eu
out=$1
for stub in lessons/[0-9]*_*/*_exercise.cpp; do
  number=${stub#lessons/}
  number=${number%%_*}
  grep -q "TODO(lesson $number)" "$stub" || {
    echo "make handout: $stub has no TODO(lesson $number): it would give an answer away" >&2
    exit 1
  }
done
mkdir -p "$(dirname "$out")"
# The golden numbers of PyTorch are what some lessons compare with.
tar -czf "$out" --exclude='*_solution.cpp' --exclude='*_solution.py' --exclude='__pycache__' \
  --exclude='data/shakespeare_char' --transform='s,^,nanofsdp/,' \
  CMakeLists.txt LICENSE Makefile README.md data lessons src tests/parity/golden \
  .clang-format .gitignore
echo "$out"
