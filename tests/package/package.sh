#!/bin/sh
# package.sh BUILD: a project of somebody else's (CMakeLists.txt, perceptron.cpp) gets nanofsdp in
# every way there is, and prints the same gradient norms each time, to the bit: over Gloo and over threads,
# under every strategy. BUILD is a configured build directory.
set -eu
build=$(readlink -f "$1")
here=$(dirname "$(readlink -f "$0")")
out=$build/package
prefix=$out/prefix
rm -rf "$out"
mkdir -p "$out"
of_cache() { sed -n "s/^$1:[A-Z]*=//p" "$build/CMakeCache.txt"; }
CXX=$(of_cache CMAKE_CXX_COMPILER)
export CXX

fail() { echo "FAILED: $*"; exit 1; }

quietly() {  # quietly NAME COMMAND...: shows what the command said if it failed
  name=$1; shift
  "$@" >"$out/log" 2>&1 || { cat "$out/log"; fail "$name"; }
}

compile() {  # compile NAME CMAKE OPTIONS
  name=$1; shift
  quietly "$name" cmake -S "$here" -B "$out/$name" -DCMAKE_EXPORT_COMPILE_COMMANDS=ON "$@"
  quietly "$name" cmake --build "$out/$name" --parallel 2 --target perceptron
}

same_norms() {  # same_norms NAME COMMAND...
  name=$1; shift
  "$@" >"$out/norms" || fail "$name: exit code $?"
  [ -e "$out/expected" ] || cp "$out/norms" "$out/expected"
  diff "$out/expected" "$out/norms" || fail "$name: other norms"
  [ "$(sed 's/.* //' "$out/norms" | uniq -c | tr -s ' ' | cut -d ' ' -f 2)" = 6 ] ||
    fail "$name: not one norm of six strategies: $(cat "$out/norms")"
  echo "$name: the same gradient norms"
}

quietly "the library" cmake --build "$build" --target nf_library
quietly "installation" cmake --install "$build" --prefix "$prefix"
[ "$(ls "$prefix/include")" = nanofsdp ] || fail "headers outside nanofsdp/"
macros=$(grep -rhE '^ *# *define' "$prefix/include" | grep -vE 'define NANOFSDP_' || true)
[ -z "$macros" ] || fail "macros without our prefix: $macros"
foreign=$(grep -rhE '#include <(fmt|gloo|Eigen|nlohmann|nccl|cuda)' "$prefix/include" || true)
[ -z "$foreign" ] || fail "headers that need headers of others: $foreign"
symbols=$(nm --defined-only --extern-only "$prefix"/lib*/libnanofsdp.a 2>/dev/null |
  awk '$2 ~ /^[A-TX-Z]$/ { print $3 }' | grep -v 8nanofsdp || true)
[ -z "$symbols" ] || fail "symbols outside namespace nanofsdp: $symbols"
cd "$prefix/include"
find nanofsdp -name '*.h' | quietly "headers alone" xargs -P 2 -n 1 sh -c '
  echo "#include <$1>" | "$CXX" -std=c++20 -Wall -Wextra -Werror -fsyntax-only -I. -x c++ - ||
    { echo "$1"; exit 1; }' header
cd "$out"
echo "headers and symbols: ours alone"

compile find_package "-DCMAKE_PREFIX_PATH=$prefix"
same_norms "find_package, processes" find_package/perceptron
same_norms "find_package, threads" find_package/perceptron threads

# What lesson 22 prints, by a program of the installed library.
quietly "lesson 22" cmake --build "$out/find_package" --target llama
page=$here/../../lessons/22_your_own_model/README.md
sed -n '/^<!-- output:/,/^```$/p' "$page" | sed -e '1,2d' -e '$d' >"$out/printed"
(cd "$out" && find_package/llama) >"$out/prints" || fail "lesson 22: exit code $?"
diff "$out/printed" "$out/prints" || fail "lesson 22 prints something else"
echo "lesson 22: prints what its page says"

compile add_subdirectory "-DNANOFSDP_SOURCE=$here/../.." -DNANOFSDP_CUDA=OFF -DNANOFSDP_GLOO=ON \
  "-DNANOFSDP_ARCH=$(of_cache NANOFSDP_ARCH)"
same_norms "add_subdirectory, processes" add_subdirectory/perceptron
same_norms "add_subdirectory, threads" add_subdirectory/perceptron threads
# Nothing of ours reaches the compiler of somebody else's code.
grep 'command.*/perceptron.cpp"' add_subdirectory/compile_commands.json >commands ||
  fail "no command for perceptron.cpp"
! grep -E -e ' -(march|mcpu|W|O|f|D)' commands || fail "our flags in somebody else's commands"

compile add_subdirectory -DNANOFSDP_GLOO=OFF
same_norms "without Gloo, threads" add_subdirectory/perceptron threads
code=0
add_subdirectory/perceptron 2>without_gloo || code=$?
grep -q '^nanofsdp: backend gloo: expected a build with Gloo' without_gloo && [ $code = 2 ] ||
  fail "without Gloo, processes: exit code $code, $(cat without_gloo)"
echo "without Gloo, processes: an error"

PKG_CONFIG_PATH=$(echo "$prefix"/lib*/pkgconfig)${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH}
export PKG_CONFIG_PATH
if pkg-config --exists nanofsdp; then
  quietly pkg-config "$CXX" "$here/perceptron.cpp" -o bare $(pkg-config --cflags --libs nanofsdp)
  same_norms "pkg-config, processes" ./bare
  same_norms "pkg-config, threads" ./bare threads
else
  echo "pkg-config: skipped, as it is missing or does not know fmt"
fi
