#!/bin/sh
# root.sh DIRECTORY: the libraries and headers of this Debian's arm64, unpacked into DIRECTORY, for a
# cross compiler and an emulator. Nothing is installed, so root is not needed: Gloo's package cannot
# be installed beside that of another processor.
set -eu
root=$1
packages="libgloo-dev libfmt-dev libgtest-dev libeigen3-dev nlohmann-json3-dev libc6-dev libstdc++6"
[ ! -e "$root/complete" ] || exit 0
rm -rf "$root"
mkdir -p "$root/apt/lists/partial" "$root/apt/cache/archives/partial" "$root/usr/lib"
root=$(readlink -f "$root")
ln -s usr/lib "$root/lib"  # packages have files under both names

apt() {
  apt-get -qq -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o APT::Sandbox::User=root \
    -o Dir::State::Lists="$root/apt/lists" -o Dir::State::status=/dev/null \
    -o Dir::Cache="$root/apt/cache" -o Debug::NoLocking=1 -o Acquire::Languages=none \
    -o Acquire::Retries=3 "$@"
}

echo "nanofsdp: unpacking $packages of arm64, and what they need, under $root (30 MB to download)"
apt update
apt install --yes --download-only --no-install-recommends $packages >/dev/null
for archive in "$root"/apt/cache/archives/*.deb; do
  dpkg-deb --fsys-tarfile "$archive" | tar -C "$root" -x --keep-directory-symlink
done
# Gloo's package names its library by absolute path.
sed -i "s|\"/usr/lib/|\"$root/usr/lib/|" "$root"/usr/share/cmake/Gloo/*.cmake
rm -rf "$root/apt"
touch "$root/complete"
