#!/bin/sh
# builds.sh BUILD: builds of nanofsdp without some of its libraries train what they can, and name in one
# line what they cannot. One has neither Gloo nor CUDA; where BUILD has CUDA, another has CUDA and NCCL
# but no Gloo. BUILD is a configured build directory.
set -eu
build=$(readlink -f "$1")
source=$(readlink -f "$(dirname "$0")/../..")
of_cache() { sed -n "s/^$1:[A-Z]*=//p" "$build/CMakeCache.txt"; }
CXX=$(of_cache CMAKE_CXX_COMPILER)
export CXX

fail() { echo "FAILED: $name: $*"; tail -n 5 "$out/said" "$out/complaint"; exit 1; }

make_build() {  # make_build NAME CMAKE OPTIONS
  name=$1 out=$build/builds/$1
  shift
  mkdir -p "$out"
  { cmake -S "$source" -B "$out" -DNANOFSDP_GLOO=OFF -DCMAKE_BUILD_TYPE=Quick \
    -DCMAKE_CXX_FLAGS="-O1 -DNDEBUG" "-DNANOFSDP_ARCH=$(of_cache NANOFSDP_ARCH)" "$@" &&
    cmake --build "$out" --parallel 2 --target nanofsdp; } >"$out/said" 2>"$out/complaint" ||
    fail "does not build"
  grep -q "without Gloo: ranks on CPUs are threads" "$out/said" || fail "no word of Gloo"
}

runs() {  # runs TEXT OPTION...: and prints a line with TEXT
  text=$1
  shift
  "$out/nanofsdp" "$@" >"$out/said" 2>"$out/complaint" || fail "$*: exit code $?"
  grep -q -e "$text" "$out/said" || fail "$*: no '$text'"
  echo "$name: nanofsdp $*"
}

refuses() {  # refuses TEXT COMMAND...: one line that begins with TEXT, exit code 2
  text=$1 code=0
  shift
  "$@" >"$out/said" 2>"$out/complaint" || code=$?
  [ $code = 2 ] || fail "$*: exit code $code"
  [ "$(wc -l <"$out/complaint")" = 1 ] || fail "$*: more than a line"
  grep -q "^nanofsdp: $text" "$out/complaint" || fail "$*: not '$text'"
  echo "$name: $(cat "$out/complaint")"
}

without_gloo() {
  small="--max_iters=2 --n_layer=1 --n_embd=64"
  runs "2 ranks of [0-9]* threads\{0,1\}, local$" train --ranks=2 --eval_iters=1 $small
  runs "^The same bits in every row" compare --ranks=2 $small
  runs "collectives, 2 ranks" bench --only=collectives --rounds=1 --rows=" 4 KB"
  expected="backend gloo: expected a build with Gloo, got one without; use the backend local"
  refuses "$expected" "$out/nanofsdp" train --ranks=2 --backend=gloo
  refuses "$expected" "$out/nanofsdp" bench --only=collectives --backend=gloo
  export WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=29531 NANOFSDP_TOKEN=sesame
  RANK=1 "$out/nanofsdp" train >"$out/other" 2>&1 &
  expected="--ranks, --backend: expected 2 processes, .*this build has no Gloo"
  refuses "$expected" env RANK=0 "$out/nanofsdp" train
  unset WORLD_SIZE MASTER_ADDR MASTER_PORT NANOFSDP_TOKEN
  wait
}

make_build bare -DNANOFSDP_CUDA=OFF
without_gloo
refuses "--device: expected cpu, got cuda" "$out/nanofsdp" train --device=cuda
if [ "$(of_cache NANOFSDP_CUDA)" = ON ]; then
  make_build nccl -DNANOFSDP_CUDA=ON -DCMAKE_CUDA_ARCHITECTURES=90
  without_gloo
  nvidia-smi >/dev/null 2>&1 ||
    refuses "--device: expected cpu, got cuda" "$out/nanofsdp" train --device=cuda --ranks=2
fi
