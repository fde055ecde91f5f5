#!/bin/sh
# install_dependencies.sh DIRECTORY PACKAGE...: Debian packages, by whichever way is open.
#
#   root                          apt-get, announced
#   sudo, a terminal and a "y"    the same through sudo, shown first (CI=true: announced, not asked)
#   anybody else                  the same packages, unpacked into DIRECTORY without any privilege,
#                                 unless it is -: there are programs that run only where they belong
#
# Fails where no way is; then CMake builds pinned sources instead (dependencies.cmake).
set -eu
directory=$1
shift
packages=$*

say() { printf 'nanofsdp: %s\n' "$*"; }

command -v apt-get >/dev/null || { say "no apt-get here to install $packages"; exit 1; }

install() {  # install [sudo]
  sudo=${1:-}
  # A stale list of somebody else's packages is no reason to stop: hence no error from the first.
  $sudo apt-get -qq update || true
  problem=$(attempt 0 2>&1) && return
  case $problem in
  *"Could not get lock"*)
    say "waiting for up to 300 s:$(echo "$problem" | sed -n 's/^E:\( Could not get lock.*\)/\1/p')"
    attempt 300 ;;
  *) echo "$problem" >&2; return 1 ;;
  esac
}
attempt() {  # attempt SECONDS: which it waits for another program that installs
  $sudo env LC_ALL=C DEBIAN_FRONTEND=noninteractive apt-get -qq -o "DPkg::Lock::Timeout=$1" \
    install --no-install-recommends $packages >/dev/null
}

may_sudo() {
  command -v sudo >/dev/null || return 1
  say "with root: sudo apt-get update; sudo apt-get install $packages"
  if [ "${CI:-}" = true ]; then
    sudo -n true 2>/dev/null
    return
  fi
  [ -t 0 ] || return 1
  otherwise="unpack the packages under build/ instead, without root"
  [ "$directory" != - ] || otherwise="go on without"
  printf 'Run this now? (n: %s) [y/N] ' "$otherwise"
  read -r answer
  case $answer in [yY]*) ;; *) return 1 ;; esac
}

# Downloads the packages, and those they need that the system lacks, and unpacks them.
unpack() {  # unpack [APT OPTIONS]
  missing=$(apt-get "$@" install --simulate --no-install-recommends $packages 2>/dev/null |
    sed -n 's/^Inst \([^ ]*\) .*/\1/p')
  [ -n "$missing" ] || return 1
  (cd "$directory/apt/archives" && apt-get "$@" -qq download $missing) || return 1
  for archive in "$directory"/apt/archives/*.deb; do
    dpkg-deb --extract "$archive" "$directory" && rm "$archive" || return 1
  done
  at_home
}

# What an installation would have done to packages that mind where they lie: only those there are.
at_home() {
  for file in "$directory"/usr/share/cmake/Gloo/*.cmake; do  # names its library by absolute path
    [ ! -f "$file" ] || sed -i "s|\"/usr/lib/|\"$directory/usr/lib/|" "$file" || return 1
  done
  for plugins in "$directory"/usr/lib/*/graphviz; do  # dot wants a list of its plugins
    [ ! -d "$plugins" ] || LD_LIBRARY_PATH="$(dirname "$plugins")" GVBINDIR=$plugins \
      "$directory/usr/bin/dot" -c || return 1
  done
}

if [ "$(id -u)" = 0 ]; then
  say "running: apt-get update; apt-get install $packages"
  install
  exit
elif may_sudo; then
  install sudo
  exit
fi
[ "$directory" != - ] || { say "without root: no $packages"; exit 1; }
say "without root: unpacking $packages under $directory"
mkdir -p "$directory/apt/archives" "$directory/apt/lists/partial" "$directory/apt/cache"
# The system's package lists may be missing or out of date; then fetch our own.
unpack 2>/dev/null || {
  set -- -o "Dir::State::Lists=$directory/apt/lists" -o "Dir::Cache=$directory/apt/cache" \
    -o Acquire::Languages=none
  apt-get "$@" -qq update || true
  unpack "$@"
}
