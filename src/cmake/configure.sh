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
export CXX
cmake --log-level=NOTICE -S "$here/../.." -B "$build" -DNANOFSDP_INSTALL=ON "$@"
echo "$CXX" > "$build/compiler"
