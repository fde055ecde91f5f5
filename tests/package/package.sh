#!/bin/sh
# package.sh BUILD: a project of somebody else's (CMakeLists.txt, perceptron.cpp) gets nanofsdp in
# every way there is, and prints the same gradient norms each time, to the bit: over Gloo and over threads,
# under every strategy. BUILD is a configured build directory.
set -eu
build=$(readlink -f "$1")
here=$(dirname "$(readlink -f "$0")")
out=$build/package
prefix="$out/a prefix, \"süß\""  # as folders may be called
plain=$out/plain                # the same for pkg-config, which quotes nothing
warnings="-Wall -Wextra -Wpedantic -Wshadow -Werror"
rm -rf "$out"
mkdir -p "$out" "$prefix/include/nanofsdp"
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
  quietly "$name" cmake --build "$out/$name" --parallel 2 --target perceptron module
}

same_norms() {  # same_norms NAME COMMAND...
  name=$1; shift
  "$@" >"$out/norms" || fail "$name: exit code $?"
  [ -e "$out/expected" ] || cp "$out/norms" "$out/expected"
  diff "$out/expected" "$out/norms" || fail "$name: other norms"
  [ "$(sed 's/.* //' "$out/norms" | uniq -c | tr -s ' ' | cut -d ' ' -f 2)" = 7 ] ||
    fail "$name: not one norm of seven strategies: $(cat "$out/norms")"
  echo "$name: the same gradient norms"
}

quietly "the library" cmake --build "$build" --target nanofsdp_library
touch "$prefix/include/nanofsdp/of_an_older_version.h"
install() {
  if [ "$build" -ef "$here/../../build/release" ]; then  # what `make` builds
    make -C "$here/../.." -o build install "PREFIX=$prefix"
  else
    (umask 022 && cmake --install "$build" --prefix "$prefix")
  fi
}
(umask 077 && quietly "installation" install)
ln -s "$prefix" "$plain"
[ ! -e "$prefix/include/nanofsdp/of_an_older_version.h" ] || fail "a header of an older version stays"
closed=$(find "$prefix"/*/ -mindepth 1 ! -perm -a+r)
[ -z "$closed" ] || fail "not everybody can read $closed"
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
  echo "#include <$1>" | "$CXX" -std=c++20 '"$warnings"' -fno-exceptions -fsyntax-only -I. -x c++ - ||
    { echo "$1"; exit 1; }' header
cd "$out"
echo "headers and symbols: ours alone"

compile find_package "-DCMAKE_PREFIX_PATH=$prefix"
same_norms "find_package, processes" find_package/perceptron
same_norms "find_package, threads" find_package/perceptron threads
in_python() { python3 -c "import ctypes, sys; sys.exit(ctypes.CDLL('$1/module.so').train($2))"; }
same_norms "a module of Python, threads" in_python "$out/find_package" 2
same_norms "a module of Python, processes" in_python "$out/find_package" 1
compile "rivals" "-DCMAKE_PREFIX_PATH=$prefix" -DRIVAL_FMT=ON
same_norms "beside another fmt and another gloo" rivals/perceptron threads
! cmake -S "$here" -B "$out/components" "-DCMAKE_PREFIX_PATH=$prefix" -DNANOFSDP_COMPONENTS=tea \
  >log 2>&1 && grep -q "nanofsdp has no components, got: tea" log || fail "components: $(cat log)"
echo "an unknown component: an error"

quietly "an older processor" cmake -S "$here/processor" -B "$out/processor"
quietly "an older processor" cmake --build "$out/processor"
if [ "$(uname -m)" = x86_64 ]; then
  code=0
  "$out/processor/older" >log 2>&1 || code=$?
  [ $code = 1 ] && [ "$(wc -l <log)" = 1 ] && grep -q '^nanofsdp: this processor lacks .*NANOFSDP_ARCH' log ||
    fail "a program for another processor: exit code $code, $(cat log)"
  echo "a program for another processor: one line"
fi

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
sed "s/ $warnings / /" commands | grep -E -e ' -(march|mcpu|W|O|f|D)' && fail "our flags in somebody else's commands"
grep -qE -e '-isystem [^ ]*nanofsdp/include' commands || fail "our headers are no system's headers"

compile add_subdirectory -DNANOFSDP_GLOO=OFF
same_norms "without Gloo, threads" add_subdirectory/perceptron threads
code=0
add_subdirectory/perceptron 2>without_gloo || code=$?
grep -q '^nanofsdp: backend gloo: expected a build with Gloo' without_gloo && [ $code = 2 ] ||
  fail "without Gloo, processes: exit code $code, $(cat without_gloo)"
echo "without Gloo, processes: an error"

PKG_CONFIG_PATH=$(echo "$plain"/lib*/pkgconfig)${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH}
export PKG_CONFIG_PATH
if pkg-config --exists nanofsdp; then
  quietly pkg-config "$CXX" $warnings "$here/perceptron.cpp" -o bare $(pkg-config --cflags --libs nanofsdp)
  same_norms "pkg-config, processes" ./bare
  same_norms "pkg-config, threads" ./bare threads
else
  echo "pkg-config: skipped, as it is missing"
fi

staged="$out/stage$prefix"
mkdir -p "$staged"
cp -R "$prefix/." "$staged"
quietly "make uninstall, staged" make -C "$here/../.." uninstall "PREFIX=$prefix" "DESTDIR=$out/stage"
left=$(find "$staged" ! -type d)
[ -z "$left" ] || fail "make uninstall with a DESTDIR leaves $left"
[ -n "$(find "$prefix" ! -type d)" ] || fail "make uninstall with a DESTDIR takes what is outside it"
quietly "make uninstall" make -C "$here/../.." uninstall "PREFIX=$prefix"
left=$(find "$prefix" ! -type d)
[ -z "$left" ] || fail "make uninstall leaves $left"
echo "make uninstall: nothing is left"
