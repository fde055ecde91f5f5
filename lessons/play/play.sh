#!/bin/sh
# play.sh: the page of lessons/play, into build/play/index.html. An emcc on the PATH is taken.
set -eu

find_emcc() {
  # Debian's compiler leaves it to us to say where its JavaScript is.
  [ ! -d /usr/share/nodejs ] || export NODE_PATH="${NODE_PATH:-/usr/share/nodejs}"
  command -v emcc >/dev/null
}

# Debian's compiler runs only where it belongs: without root it is not unpacked.
find_emcc || sh src/cmake/install_dependencies.sh - emscripten || true
find_emcc || {
  echo "make play: needs emscripten. On Debian/Ubuntu: sudo apt-get install emscripten;" \
    "elsewhere: https://emscripten.org" >&2
  exit 1
}
# Libraries of headers come as in the other builds: configuring one of them finds or fetches them.
# A build that is configured already is left alone: another program may be at work in it.
[ -e build/release/CMakeCache.txt ] || sh src/cmake/configure.sh build/release >/dev/null
python3 lessons/play/browser/broken.py build/play/source
emcmake cmake -S lessons/play/browser -B build/play/engine \
  -DBROKEN_SOURCE="$PWD/build/play/source" >build/play.log 2>&1 || {
  cat build/play.log >&2
  exit 1
}
[ -e build/play/index.html ] ||
  echo "Compiling the engine for the browser: some minutes the first time, then seconds."
cmake --build build/play/engine --parallel "${JOBS:-1}"
python3 lessons/play/assemble.py build/play/engine build/play/index.html
echo "Open build/play/index.html in a browser."
