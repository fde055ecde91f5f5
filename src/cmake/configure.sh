#!/bin/sh
# configure.sh BUILD_DIRECTORY [CMAKE OPTIONS]: everything between a fresh clone and `cmake --build`.
# $CXX is respected; without it a new build directory gets what choose_compiler.sh finds.
set -eu
build=$1
shift
here=$(dirname "$0")

if ! command -v cmake >/dev/null; then
  echo "nanofsdp: cmake is missing. On Debian/Ubuntu: sudo apt-get install cmake" >&2
  exit 1
fi
mkdir -p "$build"
before=$(cat "$build/compiler" 2>/dev/null || true)
CXX=${CXX:-${before:-$(sh "$here/choose_compiler.sh")}}
if [ "$CXX" != "$before" ]; then  # CMake cannot change the compiler of a configured directory
  rm -rf "$build/CMakeCache.txt" "$build/CMakeFiles"
fi
chosen=$CXX
case ${CXX#* } in
"$CXX" | -*) ;;
*) # CXX="ccache g++": what CMake calls a launcher, and the compiler
  [ -x "$CXX" ] || { set -- "-DCMAKE_CXX_COMPILER_LAUNCHER=${CXX%% *}" "$@"; CXX=${CXX#* }; } ;;
esac
[ -x "$CXX" ] || command -v "${CXX%% *}" >/dev/null || {
  echo "nanofsdp: there is no C++ compiler ${CXX%% *}. On Debian/Ubuntu: sudo apt-get install g++" >&2
  exit 1
}
export CXX
rm -f "$build/complaint"
cmake --log-level=NOTICE -S "$here/../.." -B "$build" -DNANOFSDP_INSTALL=ON "$@" || {
  [ ! -f "$build/complaint" ] || cat "$build/complaint" >&2  # the one line of it that helps
  exit 1
}
echo "$chosen" > "$build/compiler"
