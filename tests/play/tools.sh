#!/bin/sh
# tools.sh: what the page's tests need beside a compiler, if it is missing: emscripten and a browser. Root
# installs them, announced; with sudo a terminal is asked. Without either the tests are skipped.
set -eu
missing=
command -v emcc >/dev/null || missing="$missing emscripten"
command -v chromium >/dev/null || missing="$missing chromium"
command -v chromedriver >/dev/null || missing="$missing chromium-driver"
for python in python3 /usr/bin/python3 none; do
  ! "$python" -c 'import selenium' 2>/dev/null || break
done
[ "$python" != none ] || missing="$missing python3-selenium"
[ -n "$missing" ] || exit 0
echo "nanofsdp: the tests of the page in a browser need$missing (some 200 MB to download)"
sh src/cmake/install_dependencies.sh - $missing || echo "nanofsdp: they are skipped"
