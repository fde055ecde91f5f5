#!/bin/sh
# zig.sh BUILD SYSTEM: builds nanofsdp for a system that is not here. SYSTEM is
#
#   macos  on arm64: compiled and linked, with Gloo over libuv; nothing here can run it
#   musl   Linux on x86-64, with Gloo over TCP: it also trains on 2 processes
#   libuv  this system with its own compiler, but with Gloo over libuv, as on macOS: it trains, too, and
#          its communicators pass their tests
#
# What trains prints the same losses as the program in BUILD. zig's Clang has the headers and the C
# libraries of many systems. Horovod's package brings Gloo's sources along, uvloop's those of libuv. All
# is under BUILD/zig. Exit code 77: they cannot be fetched here.
set -eu
case $2 in
macos) target=aarch64-macos system=Darwin processor=arm64 arch=apple_m1 ;;
musl) target=x86_64-linux-musl system=Linux processor=x86_64 arch=x86_64_v3 ;;
libuv) target='' ;;
*) echo "zig.sh: expected macos, musl or libuv, got $2" >&2; exit 2 ;;
esac
build=$(readlink -f "$1")/zig
here=$(dirname "$(readlink -f "$0")")
out=$build/$2
mkdir -p "$out/bin" "$out/include"

get() {  # get NAME ARGUMENT...: what pip does with these arguments becomes BUILD/NAME
  name=$1
  shift
  [ ! -e "$build/$name" ] || return 0
  python3 -m pip --quiet "$@" 2>"$out/pip" || {
    tail -n 1 "$out/pip"
    echo "zig.sh: skipped, pip cannot fetch $name"
    exit 77
  }
}
sources() {  # sources NAME PACKAGE VERSION FOLDER: that folder of a package becomes BUILD/NAME
  get "$1" download --no-deps --no-binary "$2" --dest "$out" "$2==$3"
  [ -e "$build/$1" ] || {
    tar -C "$out" -xf "$out/$2-$3.tar.gz"
    mv "$out/$2-$3/$4" "$build/$1"
  }
}
sources gloo horovod 0.28.1 third_party/gloo
sources libuv uvloop 0.23.0 vendor/libuv

gloo=$build/gloo
set -- "$2"
if [ -n "$target" ]; then
  get ziglang install --target "$build" ziglang
  export ZIG_GLOBAL_CACHE_DIR="$build/cache" ZIG_LOCAL_CACHE_DIR="$build/cache"
  tool() {  # tool NAME ARGUMENT...: a program BIN/NAME that calls zig with these arguments and its own
    name=$1
    shift
    printf '#!/bin/sh\nexec "%s" %s "$@"\n' "$build/ziglang/zig" "$*" >"$out/bin/$name"
    chmod +x "$out/bin/$name"
  }
  tool cc cc -target $target
  tool c++ c++ -target $target
  tool ar ar
  tool ranlib ranlib
  tool install_name_tool version  # CMake wants one for macOS, and does not call it
  # Headers are the same on every system, but not all of /usr/include is.
  for library in eigen3/Eigen eigen3/unsupported nlohmann fmt; do
    ln -sfn "/usr/include/$library" "$out/include/${library#*/}"
  done
  set -- "$@" -DCMAKE_SYSTEM_NAME=$system -DCMAKE_SYSTEM_PROCESSOR=$processor \
    -DCMAKE_C_COMPILER="$out/bin/cc" -DCMAKE_CXX_COMPILER="$out/bin/c++" \
    -DCMAKE_AR="$out/bin/ar" -DCMAKE_RANLIB="$out/bin/ranlib" \
    -DCMAKE_INSTALL_NAME_TOOL="$out/bin/install_name_tool" \
    -DNANOFSDP_HEADERS="$out/include" -DNANOFSDP_ARCH=$arch
else  # a Gloo without the TCP that Linux has
  gloo=$out/gloo
  rm -rf "$gloo"
  cp -R "$build/gloo" "$gloo"
  sed -i 's/set(GLOO_HAVE_TRANSPORT_TCP 1)/set(GLOO_HAVE_TRANSPORT_TCP 0)/' "$gloo/gloo/CMakeLists.txt"
  set -- "$@" -DNANOFSDP_TESTS=ON
fi
[ "$1" = musl ] || set -- "$@" -DNANOFSDP_LIBUV="$build/libuv"
name=$1
shift
cmake --log-level=NOTICE -Wno-dev -S "$here/../.." -B "$out" "$@" \
  -DCMAKE_PROJECT_nanofsdp_INCLUDE="$here/libraries.cmake" -DNANOFSDP_CUDA=OFF \
  -DNANOFSDP_GLOO=ON -DCMAKE_DISABLE_FIND_PACKAGE_Gloo=ON -DFETCHCONTENT_SOURCE_DIR_GLOO="$gloo" \
  -DCMAKE_BUILD_TYPE=Quick -DCMAKE_C_FLAGS=-O1 -DCMAKE_CXX_FLAGS="-O1 -DNDEBUG" -DNANOFSDP_WERROR=ON
cmake --build "$out" --parallel 2 --target nanofsdp
echo "$name: compiled and linked"
[ "$name" != macos ] || exit 0

losses() {  # losses NANOFSDP: what it prints every ten steps
  "$1" train --ranks=2 --threads=1 --transport=gloo --max_iters=100 --eval_interval=100 --eval_iters=1 \
    --sample=0 | sed -n 's/^\(iter [0-9]*: loss [0-9.]*\).*/\1/p'
}
losses "$build/../nanofsdp" >"$out/here"
losses "$out/nanofsdp" >"$out/there"
diff "$out/here" "$out/there"
[ "$(wc -l <"$out/there")" = 10 ]
echo "$name: trains on two processes, and prints the same losses"
[ "$name" = libuv ] || exit 0

# Left out: ranks that fail or disagree. Over libuv the others may hear of it late, or Gloo ends a process.
cmake --build "$out" --parallel 2 --target test_comm
"$out/tests/test_comm" --gtest_brief=1 \
  --gtest_filter='-Ranks/Disagreement.*/gloo:Ranks/Groups.Abort*:Launch.TellsTheCause*'
