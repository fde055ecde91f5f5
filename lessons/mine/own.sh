#!/bin/sh
# own.sh COMPILER ARGUMENT...: compiles a file. In the object of a reader's file (yours_NN) only the
# pieces keep their names for others, so that two readers' files may each have a helper `square`.
set -eu
"$@"
object=
while [ $# -gt 1 ]; do
  [ "$1" != -o ] || object=$2
  shift
done
case $object in *yours_*) ;; *) exit 0 ;; esac
command -v objcopy >/dev/null && command -v nm >/dev/null || exit 0
# Inline functions (W) are the same in all files.
nm -g --defined-only "$object" | sed -n 's/^[^ ]* [BDGRST] //p' | grep -v '^yours_' >"$object.helpers" ||
  exit 0
objcopy --localize-symbols="$object.helpers" "$object"
