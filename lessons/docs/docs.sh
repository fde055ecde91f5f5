#!/bin/sh
# docs.sh: the site of lessons and API in build/docs/html, by Doxygen.
set -eu
deps=$PWD/build/deps
export PATH="$PATH:$deps/usr/bin"

# Where the libraries and dot's plugins lie that install_dependencies.sh has unpacked, if it has.
find_unpacked() {
  for libraries in "$deps"/usr/lib/*-linux-gnu; do
    [ -d "$libraries" ] || continue
    export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$libraries"
    [ ! -d "$libraries/graphviz" ] || export GVBINDIR="$libraries/graphviz"
  done
}

mathjax() {
  for place in /usr/share/javascript/mathjax "$deps/usr/share/javascript/mathjax"; do
    [ ! -d "$place" ] || echo "$place"
  done | head -1
}

find_unpacked
if ! command -v doxygen >/dev/null || ! command -v dot >/dev/null || [ -z "$(mathjax)" ]; then
  sh src/cmake/install_dependencies.sh "$deps" doxygen graphviz libjs-mathjax || {
    echo "make docs: needs doxygen, graphviz and libjs-mathjax" >&2
    exit 1
  }
  find_unpacked
fi
mkdir -p build/docs
{ cat lessons/docs/Doxyfile; echo "MATHJAX_RELPATH = $(mathjax)"; } | doxygen -
if [ -f build/play/engine/play.wasm ]; then  # by `make play`
  python3 lessons/play/assemble.py build/play/engine build/docs/html/play.html \
    --source=../../../src/ --lessons=md_lessons_{}_README.html
  link='<a href="play.html">the page<\/a>'
  sed -i "s/<code>build\/play\/index.html<\/code>/& ($link)/" build/docs/html/md_lessons_play_README.html
fi
echo "build/docs/html/index.html"
