#!/bin/sh
# lessons.sh lesson N [GUESS...] | exercise N | next | mine | mystery N [ANSWER] | check: what
# `make lesson`, `make exercise`, `make next`, `make mine`, `make mystery` and `make lessons` do,
# once CMake has configured build/release.
set -eu
build=build/release
list=$build/lessons/list.txt  # number, name, hint: a line a lesson

fail() {
  echo "make $1: $2" >&2
  exit 2
}

# "08" of "8" or "08", if there is such a lesson.
number_of() {
  case $2 in
    [0-9]) number=0$2 ;;
    [0-9][0-9]) number=$2 ;;
    *) number=none ;;
  esac
  grep -q "^$number " "$list" ||
    fail "$1" "N is to name a lesson, as in N=01, got '$2'; there are $(cut -d' ' -f1 "$list" | xargs)"
  name=$(sed -n "s/^$number \([^ ]*\) .*/\1/p" "$list")
  folder=lessons/${number}_$name
}

# Builds a target quietly: a percentage on a terminal, the compiler's words only if they are errors.
compile() {
  log=$build/lessons/build.log
  [ -x "$build/lessons/$1" ] ||
    echo "Building $1 and what it stands on: seconds or a few minutes the first time, then seconds."
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
    { grep -E -A6 'error|undefined (reference|symbol)|multiple definition|duplicate symbol' "$log" || tail -20 "$log"; } | grep -v -E '^(not built|g?make)'
    return 1
  }
}

# Runs a program, which may have a loop that never ends.
limited() {
  if command -v timeout >/dev/null; then timeout 60 "$@"; else "$@"; fi
}

# Says that the reader's file of a lesson is missing, if it is.
missing() {
  file=lessons/$1_$2/$2_exercise.cpp
  [ ! -f "$file" ] || return 1
  echo "lesson $1: $file is missing. git checkout $file, or the handout, brings it back."
}

# Whether the comment with which an exercise begins is still there.
has_todo() { grep -q "TODO(lesson $1)" "lessons/$1_$2/$2_exercise.cpp"; }

# Whether the reader has begun an exercise: built it, or removed its TODO. `next` and `mine` build no
# others, because to build all of them takes minutes.
begun() { [ -x "$build/lessons/exercise_$1" ] || ! has_todo "$1" "$2"; }

# Whether the reader has solved it: for every command the checker decides, and not the TODO. What the
# checker says is in the file `said`, of some megabytes at most: a loop that prints may never end.
solved() {
  compile "exercise_$1" >$build/lessons/said 2>&1 &&
    (ulimit -f 8192 && limited "$build/lessons/exercise_$1") >$build/lessons/said 2>&1 &&
    grep -q 'right in all' $build/lessons/said
}

# What the exit code of a checker means, if the checker could not say it.
explain() {
  if [ "$2" -eq 124 ]; then
    echo "Exercise $1 did not end within a minute. Which loop, or which wait, never ends?"
  elif [ "$2" -eq 134 ]; then
    echo "Exercise $1 was aborted, and the lines above say why. \"terminate called\": your code has thrown an"
    echo "exception. \"Assertion ... failed\": an index outside an array, or a value that is not there."
  elif [ "$2" -gt 128 ]; then
    echo "Exercise $1 crashed: the system stopped your code. The likeliest reason is an index outside an"
    echo "array: a negative one (in C++, -1 % 4 is -1), or one that is not below the size. It can also"
    echo "be a division of integers by 0, or a function that calls itself without end."
  fi
}

pieces=lessons/mine/pieces.txt  # of the machine: number, lesson, function, place
made=$build/lessons/mine

# Whether the reader's file of lesson $1 is compiled into the machine: with or without.
put_in() {
  cmp -s "$made/yours_$1.$2" "$made/yours_$1.cpp" || cp "$made/yours_$1.$2" "$made/yours_$1.cpp"
}

# What a function that is not right yet does to the machine.
try_alone() {
  said=$({
    code=0
    limited "$build/lessons/your_fsdp" "--ranks=$RANKS" --alone "$1" 2>&1 || code=$?
    echo $code >$made/code
  } | head -c 8192)
  case $(cat $made/code) in
    0) echo "no number of this training shows its mistake; make exercise N=$1 does" ;;
    1) echo "$said" ;;
    124) echo "the machine does not end" ;;
    141) echo "the machine prints too much: remove the prints" ;;
    *) echo "the machine crashes" ;;
  esac
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
    ! missing "$number" "$name" || exit 1
    compile "exercise_$number" || exit 1
    code=0
    limited "$build/lessons/exercise_$number" || code=$?
    if [ $code -eq 0 ]; then
      ! has_todo "$number" "$name" ||
        echo "It counts as yours. You may remove the comment TODO(lesson $number) from your file."
      exit 0
    fi
    explain "$number" $code
    echo "Yours is $folder/${name}_exercise.cpp; a hint is under \"Your turn\" in $folder/README.md."
    exit 1
    ;;
  next)
    all=0 done=0 next= yours=
    while read -r number name hint; do
      all=$((all + 1))
      if missing "$number" "$name"; then
        :
      elif begun "$number" "$name" && solved "$number"; then
        done=$((done + 1))
        yours="$yours $number"
      elif [ -z "$next" ]; then
        next="Next: lessons/${number}_$name/${name}_exercise.cpp (make exercise N=$number)
Hint: $hint"
      fi
    done <"$list"
    [ -z "$next" ] || echo "$next"
    echo "$done of $all done"
    echo
    echo "The machine (make mine), a sharded training made of these pieces; [x] is yours:"
    while read -r number name function place; do
      case "$yours " in *" $number "*) mark=x ;; *) mark=' ' ;; esac
      echo "  [$mark] $number $place"
    done <$pieces
    ;;
  mine)
    [ -f "$made/pieces.inc" ] || fail mine "needs the solutions, which are not in this tree"
    RANKS=${RANKS:-2} yours= wrong=
    case $RANKS in [2-6]) ;; *) fail mine "RANKS is to be 2 to 6, got '$RANKS'" ;; esac
    for number in $(cut -d' ' -f1 $pieces | uniq); do
      name=$(sed -n "s/^$number \([^ ]*\) .*/\1/p" "$list")
      in=without
      if missing "$number" "$name" || ! begun "$number" "$name"; then
        :
      elif solved "$number"; then
        in=with yours="$yours $number"
      elif grep -q '^not built$' $build/lessons/build.log; then
        echo "lesson $number: your function does not compile (make exercise N=$number)"
      elif ! has_todo "$number" "$name"; then
        in=with wrong="$wrong $number"
      fi
      put_in "$number" $in
    done
    compile your_fsdp || exit 1
    for number in $wrong; do
      echo "lesson $number: yours is not right yet. With it, $(try_alone "$number")"
    done
    # shellcheck disable=SC2086  # a word a number
    exec "$build/lessons/your_fsdp" "--ranks=$RANKS" $yours
    ;;
  mystery)
    compile mystery || exit 1
    exec "$build/lessons/mystery" "${2:-}" "${3:-}"
    ;;
  check)  # every exercise that still has its TODO must fail, or its checker sees nothing
    while read -r number name hint; do
      stub=lessons/${number}_$name/${name}_exercise.cpp
      if missing "$number" "$name"; then
        exit 1
      elif solved "$number"; then
        ! has_todo "$number" "$name" ||
          fail lessons "$stub passes with its TODO: if you wrote it, remove the comment; if not, its checker sees nothing"
        echo "exercise $number: solved"
      else
        echo "exercise $number: waits for you"
      fi
    done <"$list"
    ;;
esac
