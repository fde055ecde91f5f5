#!/bin/sh
# deps.sh DIRECTORY: the libraries that a machine with a GPU but without packages needs, unpacked
# from Debian's. 12 MB to take along, for Linux with glibc 2.34 or newer; check.sh finds them
# as .gpu-deps.
set -eu
directory=$1
packages="libeigen3-dev nlohmann-json3-dev libfmt-dev libfmt9 libgtest-dev libgloo-dev libgloo0
  libhiredis0.14 libibverbs1 libnl-3-200 libnl-route-3-200"

rm -rf "$directory"
mkdir -p "$directory/archives"
cd "$directory/archives"
apt-get -qq download $packages
for archive in *.deb; do dpkg-deb --extract "$archive" ..; done
cd ..
rm -rf archives etc usr/share/doc usr/share/lintian usr/include/eigen3/unsupported/Eigen/CXX11
# Gloo's package names its library by an absolute path.
sed -i "s|\"/usr/lib/|\"\${CMAKE_CURRENT_LIST_DIR}/../../../lib/|" usr/share/cmake/Gloo/*.cmake
du -sh "$PWD"
