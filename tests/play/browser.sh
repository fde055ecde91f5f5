#!/bin/sh
# browser.sh PRINT_PLAY NANOFSDP: the page of lessons/play in headless Chromium, built first. 77: tools are missing.
set -eu
cd "$(dirname "$0")/../.."
for tool in emcc chromium chromedriver; do
  command -v $tool >/dev/null || { echo "skipped: no $tool here"; exit 77; }
done
# Debian's selenium belongs to Debian's Python.
python=
for candidate in python3 /usr/bin/python3; do
  "$candidate" -c 'import selenium' 2>/dev/null && python=$candidate && break
done
[ -n "$python" ] || { echo "skipped: no Python here with selenium"; exit 77; }
JOBS=2 sh lessons/play/play.sh
"$python" tests/play/browser_test.py build/play/index.html "$1"
"$python" tests/play/together_test.py build/play/index.html
"$python" tests/play/scale_test.py build/play/index.html "$@"
