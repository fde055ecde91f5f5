#!/bin/sh
# lessons.sh lesson N [GUESS...] | exercise N | next | check: what `make lesson`, `make exercise`,
# `make next` and `make lessons` do, once CMake has configured build/release.
set -eu
build=build/release
list=$build/lessons/list.txt  # number, name, hint: a line a lesson

fail() {
  echo "make $1: $2" >&2
  exit 2
}

# "08" of "8" or "08", if there is such a lesson.
number_of() {
  number=$(printf '%s' "$2" | sed 's/^\([0-9]\)$/0\1/')
  [ -n "$number" ] && grep -q "^$number " "$list" ||
    fail "$1" "N is to name a lesson, as in N=01, got '$2'; there are $(cut -d' ' -f1 "$list" | xargs)"
  name=$(sed -n "s/^$number \([^ ]*\) .*/\1/p" "$list")
  folder=lessons/${number}_$name
}

# Builds a target quietly: a percentage on a terminal, the compiler's words only if they are errors.
compile() {
  log=$build/lessons/build.log
  [ -x "$build/lessons/$1" ] ||
    echo "Building $1 and what it stands on: a minute or two the first time, then seconds."
  {
    env -u MAKEFLAGS -u MAKELEVEL cmake --build $build --parallel "${JOBS:-2}" --target "$1" 2>&1 ||
      echo "not built"
  } | tee "$log" | if [ -t 1 ]; then
    sed -u -n 's/^\[ *\([0-9]*%\)\].*/\1/p' | while read -r done; do printf '\r%s ' "$done"; done
    printf '\r\033[K'
  else
    cat >/dev/null
  fi
  ! grep -q '^not built$' "$log" || {
    { grep -E -A6 'error' "$log" || tail -20 "$log"; } | grep -v -E '^(not built|g?make)'
    return 1
  }
}

# Whether the reader has solved it. What the checker says is in $said.
solved() {
  compile "exercise_$1" >$build/lessons/said 2>&1 && "$build/lessons/exercise_$1" >$build/lessons/said
}

case $1 in
  lesson)
    number_of lesson "${2:-}"
    compile "lesson_$number"
    shift 2
    echo "$folder/README.md"
    echo
    exec "$build/lessons/lesson_$number" "$@"
    ;;
  exercise)
    number_of exercise "${2:-}"
    compile "exercise_$number" || exit 1
    "$build/lessons/exercise_$number" || {
      echo "Yours is $folder/${name}_exercise.cpp; a hint is at the end of $folder/README.md."
      exit 1
    }
    ;;
  next)
    all=0 done=0 next=
    while read -r number name hint; do
      all=$((all + 1))
      if solved "$number"; then
        done=$((done + 1))
      elif [ -z "$next" ]; then
        next="Next: lessons/${number}_$name/${name}_exercise.cpp (make exercise N=$number)
Hint: $hint"
      fi
    done <"$list"
    [ -z "$next" ] || echo "$next"
    echo "$done of $all done"
    ;;
  check)  # every exercise that still has its TODO must fail, or its checker sees nothing
    while read -r number name hint; do
      stub=lessons/${number}_$name/${name}_exercise.cpp
      if solved "$number"; then
        ! grep -q "TODO(lesson $number)" "$stub" || fail lessons "$stub: the checker passes a stub"
        echo "exercise $number: solved"
      else
        echo "exercise $number: waits for you"
      fi
    done <"$list"
    ;;
esac
