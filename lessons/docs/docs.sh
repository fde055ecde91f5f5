#!/bin/sh
# docs.sh: the site of lessons and API in build/docs/html, by Doxygen.
set -eu
deps=$PWD/build/deps
export PATH="$PATH:$deps/usr/bin"
export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:-}:$(echo "$deps"/usr/lib/*-linux-gnu)"

mathjax() {
  for place in /usr/share/javascript/mathjax "$deps/usr/share/javascript/mathjax"; do
    [ ! -d "$place" ] || echo "$place"
  done | head -1
}

if ! command -v doxygen >/dev/null || ! command -v dot >/dev/null || [ -z "$(mathjax)" ]; then
  sh src/cmake/install_dependencies.sh "$deps" doxygen graphviz libjs-mathjax || {
    echo "make docs: needs doxygen, graphviz and libjs-mathjax" >&2
    exit 1
  }
fi
mkdir -p build/docs
{ cat lessons/docs/Doxyfile; echo "MATHJAX_RELPATH = $(mathjax)"; } | doxygen -
echo "build/docs/html/index.html"
