#!/bin/sh
# handout.sh FILE: packs what students get: the sources and the lessons, without solutions and tests.
# In it `make exercise N=08`, `make next` and `make grade` work. It packs the files that git tracks, so
# an editor's copy of a solution stays here. Refuses if an exercise is solved here.
set -eu
out=$1
fail() {
  echo "make handout: $1" >&2
  exit 1
}
git ls-files --error-unmatch Makefile >/dev/null 2>&1 ||
  fail "packs the files that git tracks, and this folder is no clone"
changed=$(git diff --name-only HEAD -- 'lessons/*_exercise.*')
[ -z "$changed" ] ||
  fail "$(echo $changed) is not as git has it (git diff HEAD): it could give an answer away"
for stub in lessons/[0-9]*_*/*_exercise.cpp; do
  number=${stub#lessons/}
  number=${number%%_*}
  grep -q "TODO(lesson $number)" "$stub" ||
    fail "$stub has no TODO(lesson $number): it would give an answer away"
done
mkdir -p "$(dirname "$out")"
# The golden numbers of PyTorch are what some lessons compare with.
git ls-files -z -- CMakeLists.txt LICENSE Makefile README.md data lessons src tests/parity/golden \
  .clang-format .gitignore ':!*_solution.*' |
  tar -czf "$out" --transform='s,^,nanofsdp/,' --null --files-from=-
echo "$out"
