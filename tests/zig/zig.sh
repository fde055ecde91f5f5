#!/bin/sh
# zig.sh BUILD SYSTEM: builds nanofsdp for a system that is not here. zig's Clang has the headers and the
# C libraries of many. SYSTEM is `macos` (on arm64: compiled and linked, nothing here can run it) or `musl`
# (Linux on x86-64: it also trains, and prints the same losses as the program in BUILD). Gloo is left out,
# because no package has its sources. All is under BUILD/zig. Exit code 77: zig cannot be installed here.
set -eu
case $2 in
macos) target=aarch64-macos system=Darwin processor=arm64 arch=apple_m1 ;;
musl) target=x86_64-linux-musl system=Linux processor=x86_64 arch=x86_64_v3 ;;
*) echo "zig.sh: expected macos or musl, got $2" >&2; exit 2 ;;
esac
build=$(readlink -f "$1")/zig
here=$(dirname "$(readlink -f "$0")")
out=$build/$2
mkdir -p "$out/bin" "$out/include"

[ -e "$build/python/ziglang" ] ||
  python3 -m pip install --quiet --target "$build/python" ziglang 2>"$out/pip" || {
  tail -n 1 "$out/pip"
  echo "zig.sh: skipped, pip cannot install ziglang"
  exit 77
}
export ZIG_GLOBAL_CACHE_DIR="$build/cache" ZIG_LOCAL_CACHE_DIR="$build/cache"
tool() {  # tool NAME ARGUMENT...: a program BIN/NAME that calls zig with these arguments and its own
  name=$1
  shift
  printf '#!/bin/sh\nexec "%s" %s "$@"\n' "$build/python/ziglang/zig" "$*" >"$out/bin/$name"
  chmod +x "$out/bin/$name"
}
tool c++ c++ -target $target
tool ar ar
tool ranlib ranlib
tool install_name_tool version  # CMake wants one for macOS, and does not call it
# Headers are the same on every system, but not all of /usr/include is.
for library in eigen3/Eigen eigen3/unsupported nlohmann fmt; do
  ln -sfn "/usr/include/$library" "$out/include/${library#*/}"
done

cmake --log-level=NOTICE -S "$here/../.." -B "$out" -DCMAKE_SYSTEM_NAME=$system \
  -DCMAKE_SYSTEM_PROCESSOR=$processor -DCMAKE_CXX_COMPILER="$out/bin/c++" -DCMAKE_AR="$out/bin/ar" \
  -DCMAKE_RANLIB="$out/bin/ranlib" -DCMAKE_INSTALL_NAME_TOOL="$out/bin/install_name_tool" \
  "-DCMAKE_PROJECT_INCLUDE=$here/libraries.cmake" "-DNANOFSDP_HEADERS=$out/include" \
  -DNANOFSDP_ARCH=$arch -DNANOFSDP_GLOO=OFF -DNANOFSDP_CUDA=OFF \
  -DCMAKE_BUILD_TYPE=Quick -DCMAKE_CXX_FLAGS="-O1 -DNDEBUG -Werror"
cmake --build "$out" --parallel 2 --target nanofsdp
echo "$2: compiled and linked"
[ "$2" = musl ] || exit 0

losses() {  # losses NANOFSDP: what it prints every ten steps
  "$1" train --ranks=2 --threads=1 --backend=local --max_iters=100 --eval_interval=100 --eval_iters=1 \
    --sample=0 | sed -n 's/^\(iter [0-9]*: loss [0-9.]*\).*/\1/p'
}
losses "$build/../nanofsdp" >"$out/here"
losses "$out/nanofsdp" >"$out/there"
diff "$out/here" "$out/there"
[ "$(wc -l <"$out/there")" = 10 ]
echo "musl: trains, and prints the same losses"
