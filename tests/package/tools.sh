#!/bin/sh
# tools.sh BUILD: what a first `make` says where something is missing or busy. Programs of BUILD/tools stand
# in for apt-get, cmake and ccache.
set -eu
scripts=$(dirname "$(readlink -f "$0")")/../../src/cmake
out=$(readlink -f "$1")/tools
rm -rf "$out"
mkdir -p "$out/bin"
PATH=$out/bin:$PATH
stand_in() {  # stand_in NAME TEXT: a program that is this text
  printf '#!/bin/sh\n%s\n' "$2" >"$out/bin/$1"
  chmod +x "$out/bin/$1"
}
says() {  # says TEXT COMMAND...: with this text as its last line
  text=$1
  shift
  "$@" >"$out/said" 2>&1 </dev/null || true
  tail -n 1 "$out/said" | grep -qF -e "$text" || { echo "FAILED: no '$text':"; cat "$out/said"; exit 1; }
  echo "$(tail -n 1 "$out/said")"
}

# dpkg is locked: apt-get says so if it may not wait.
stand_in id 'echo 0'
stand_in apt-get 'case $* in *Timeout=0*)
  echo "E: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 7 (unattended-upgr)" >&2
  exit 100 ;; esac'
says "nanofsdp: waiting for up to 300 s: Could not get lock /var/lib/dpkg/lock-frontend. It is held by \
process 7 (unattended-upgr)" sh "$scripts/install_dependencies.sh" "$out" libtea-dev
stand_in apt-get 'case $* in *install*) echo "E: Unable to locate package libtea-dev" >&2; exit 100 ;; esac'
says "Unable to locate package" sh "$scripts/install_dependencies.sh" "$out" libtea-dev

# No compiler, one that was not found, and one behind a launcher.
stand_in cmake 'echo "CXX=$CXX $*"'
configure() { CXX=$1 sh "$scripts/configure.sh" "$out/build"; }
says "there is no C++ compiler no-such-compiler. On Debian/Ubuntu: sudo apt-get install g++" \
  configure no-such-compiler
stand_in ccache 'exec "$@"'
stand_in c++-here true
says "CXX=c++-here -m64 " configure "c++-here -m64"
says "-DCMAKE_CXX_COMPILER_LAUNCHER=ccache" configure "ccache c++-here"
says "CXX=c++-here " configure "ccache c++-here"

# A library that cannot be had: cmake says much, and what helps comes last.
stand_in cmake 'echo "nanofsdp: fmt is missing" >"$5/complaint"; echo "Call Stack" >&2; exit 1'
says "nanofsdp: fmt is missing" configure c++-here
