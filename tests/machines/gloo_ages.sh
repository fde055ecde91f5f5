#!/bin/sh
# gloo_ages.sh BUILD: compiles src/comm/gloo_wire.cpp against the Gloo of four ages. This system has
# one of them, and our users have them all:
#
#   Debian 12       2022-05  connectFullMesh() takes a Store&
#   Horovod 0.28.1  2023-05  as before, but GLOO_STORE_HAS_STORE_V2 is new; so in Ubuntu 24.04
#   Debian 13       2023-12  as before; our pinned source is of this age
#   Debian sid      2025-09  connectFullMesh() takes a std::shared_ptr<Store>
#
# BUILD is a configured build directory; the compiler and the flags are its own. The headers come
# from where apt-get and pip find packages. Without these or a network: exit code 77, skipped.
set -eu
source=$(dirname "$(readlink -f "$0")")/../../src
build=$(readlink -f "$1")
ages=$build/gloo_ages
rm -rf "$ages"
mkdir -p "$ages"

skip() {
  echo "skipped: $*"
  exit 77
}

# from_debian SUITE: that suite's package, wherever this system gets Debian's packages.
from_debian() {
  place=$ages/$1
  mkdir -p "$place/lists/partial" "$place/cache"
  echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $debian $1 main" >"$place/list"
  (
    cd "$place"
    apt() {
      apt-get -qq -o Dir::Etc::SourceList="$PWD/list" -o Dir::Etc::SourceParts=- \
        -o Dir::State::Lists="$PWD/lists" -o Dir::State::status=/dev/null -o Dir::Cache="$PWD/cache" \
        -o Acquire::Languages=none -o Acquire::Retries=3 -o Acquire::Check-Valid-Until=false \
        -o APT::Sandbox::User=root "$@"  # a mirror may be late: what is signed will do
    }
    apt update && apt download libgloo-dev && dpkg-deb --extract libgloo-dev_*.deb .
  ) >"$place/log" 2>&1 || skip "no libgloo-dev of Debian $1 ($(tail -n 1 "$place/log"))"
  compile "Debian $1" "$place/usr/include"
}

# Horovod brings a Gloo along, whose config.h CMake would write.
from_horovod() {
  place=$ages/horovod
  python3 -m pip download --quiet --no-deps --no-binary horovod --dest "$place" "horovod==$1" \
    >"$ages/log" 2>&1 || skip "no Horovod $1 ($(tail -n 1 "$ages/log"))"
  tar -C "$place" --strip-components=3 -xf "$place/horovod-$1.tar.gz" "horovod-$1/third_party/gloo"
  for transport in TCP UV; do  # UV, libuv: what macOS has
    sed -E "s/@GLOO_VERSION_[A-Z]+@/0/; s/#cmakedefine01 (.*_$transport)\$/#define \1 1/
      s/#cmakedefine01 (.*)/#define \1 0/" "$place/gloo/config.h.in" >"$place/gloo/config.h"
    compile "Horovod $1, $transport" "$place"
  done
}

compile() {  # compile NAME DIRECTORY
  compiler=$(sed -n 's/^CMAKE_CXX_COMPILER:.*=//p' "$build/CMakeCache.txt")
  # Written for a shell, which takes away their backslashes: hence eval below.
  flags=$(sed -nE 's/^CXX_(FLAGS|DEFINES|INCLUDES) = //p' \
    "$build/CMakeFiles/nanofsdp_comm.dir/flags.make" | tr '\n' ' ')
  # Before the system's, so that these headers are found; to the compiler both are others' code.
  eval '"$compiler" -isystem "$2"' "$flags" '-Werror -fsyntax-only "$source/comm/gloo_wire.cpp"' ||
    { echo "FAILED: Gloo of $1"; exit 1; }
  grep -q "shared_ptr<Store>" "$2/gloo/rendezvous/context.h" && store=shared_ptr || store=reference
  grep -q "define GLOO_STORE_HAS_STORE_V2" "$2/gloo/rendezvous/store.h" && v2="" || v2="no "
  echo "Gloo of $1: compiles ($store, ${v2}macro)"
}

command -v apt-get >/dev/null || skip "no apt-get here"
python3 -m pip --version >/dev/null 2>&1 || skip "no pip here"
debian=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Label: Debian' | head -n 1)
[ -n "$debian" ] || skip "this system does not know Debian's packages"
from_debian bookworm
from_horovod 0.28.1
from_debian trixie
from_debian sid
