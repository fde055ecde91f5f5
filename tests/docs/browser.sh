#!/bin/sh
# browser.sh SITE: the site's test in headless Chromium, where tests/play/tools.sh has brought the tools.
set -eu
for tool in chromium chromedriver; do
  command -v $tool >/dev/null || { echo "skipped: no $tool here"; exit 0; }
done
# Debian's selenium belongs to Debian's Python.
for python in python3 /usr/bin/python3; do
  ! "$python" -c 'import selenium' 2>/dev/null || exec "$python" "$(dirname "$0")/browser_test.py" "$1"
done
echo "skipped: no Python here with selenium"
