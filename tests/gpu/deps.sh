#!/bin/sh
# deps.sh DIRECTORY: the libraries that a machine with a GPU but without packages needs, unpacked
# from Debian's. A folder of under 16 MiB to take along; check.sh finds it as .gpu-deps.
set -eu
directory=$1
packages="libeigen3-dev nlohmann-json3-dev libfmt-dev libgtest-dev libgloo-dev libgloo0
  libhiredis0.14 libibverbs1 libnl-3-200 libnl-route-3-200"

mkdir -p "$directory/archives"
cd "$directory/archives"
apt-get -qq download $packages
for archive in *.deb; do dpkg-deb --extract "$archive" ..; done
cd ..
rm -rf archives usr/share/doc usr/share/lintian
sed -i "s|\"/usr/lib/|\"\${CMAKE_CURRENT_LIST_DIR}/../../../lib/|" usr/share/cmake/Gloo/*.cmake
du -sh "$PWD"
