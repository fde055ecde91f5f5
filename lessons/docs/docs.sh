#!/bin/sh
# docs.sh: the site of lessons and API in build/docs/html, by pandoc and Doxygen.
#
# pandoc reads GitHub's Markdown as it is, and writes formulas as MathML, which a browser draws without
# a script, a font or the network.
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
  [ ! -d "$deps/usr/share/pandoc" ] || export pandoc_datadir="$deps/usr/share/pandoc"
}

have() { command -v doxygen && command -v dot && command -v pandoc && command -v python3; }

find_unpacked
have >/dev/null || {
  sh src/cmake/install_dependencies.sh "$deps" doxygen graphviz pandoc python3 && find_unpacked &&
    have >/dev/null || {
    echo "make docs: needs doxygen, graphviz, pandoc and python3" >&2
    exit 1
  }
}
python3 lessons/docs/site.py build/docs
if [ -f build/play/engine/play.wasm ]; then  # by `make play`
  python3 lessons/play/assemble.py build/play/engine build/docs/html/play.html \
    --source=../../../src/ --lessons=lessons/{}/index.html
  link='<a href="..\/..\/play.html">the page<\/a>'
  sed -i "s/<code>build\/play\/index.html<\/code>/& ($link)/" build/docs/html/lessons/play/index.html
fi
echo "build/docs/html/index.html"
python3 tests/docs/check.py build/docs/html
