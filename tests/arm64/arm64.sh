#!/bin/sh
# arm64.sh NANOFSDP [CMAKE OPTIONS]: builds for Linux on arm64 and runs that in an emulator: the tests
# of nine rooms, less those of not_emulated.txt, and a training on 2 ranks whose losses must be those of
# NANOFSDP, this machine's own build. Everything is under build/arm64. `make test-arm64` calls it.
set -eu
nanofsdp=$1
shift
here=tests/arm64
build=build/arm64/release
root=$PWD/build/arm64/root
JOBS=${JOBS:-2}
rooms="base ops nn gpt launch comm data fsdp store"

missing=
command -v aarch64-linux-gnu-g++ >/dev/null || missing="$missing g++-aarch64-linux-gnu"
command -v qemu-aarch64-static >/dev/null || missing="$missing qemu-user-static"
if [ -n "$missing" ]; then
  echo "nanofsdp: arm64 needs$missing (some 150 MB to download)"
  sh src/cmake/install_dependencies.sh - $missing || {
    echo "nanofsdp: arm64 cannot be tested here. On Debian: sudo apt-get install$missing" >&2
    exit 1
  }
fi
sh $here/root.sh "$root"

cmake --log-level=NOTICE -S . -B $build --toolchain "$PWD/src/cmake/arm64.cmake" \
  "-DNANOFSDP_ARM64_ROOT=$root" "$@" -DNANOFSDP_ARCH=armv8-a -DNANOFSDP_CUDA=OFF -DNANOFSDP_TESTS=ON
targets=nanofsdp labels=none
for room in $rooms; do
  targets="$targets test_$room" labels="$labels|$room"
done
cmake --build $build --parallel "$JOBS" --target $targets

# The loop of the widest tile keeps its 24 sums in registers: between its first multiply-add and its
# last, nothing goes to the stack. There is one for each order in which A is packed.
aarch64-linux-gnu-objdump -d -C "$(find $build -name gemm.cpp.o | grep nanofsdp_ops)" | awk '
  /^[0-9a-f]+ </ { inside = /make_tile<12,/; tiles += inside; since = 0 }
  inside && /\[sp/ { since++ }
  inside && /fmla/ { spills += sums[tiles]++ > 0 ? since : 0; since = 0 }
  END { print tiles " tiles of 12 rows: " sums[1] " and " sums[2] " multiply-adds a step, " spills + 0 \
          " accesses to the stack among them"
        exit tiles != 2 || sums[1] != 24 || sums[2] != 24 || spills > 0 }'

# A test a line, then why it does not run in the emulator.
excluded=$(sed -n 's/^\([a-z]*: [^ ]*\) .*/\1/p' $here/not_emulated.txt | paste -sd '|' -)
ctest --test-dir $build --parallel "$JOBS" --output-on-failure -LE long -L "^($labels)\$" \
  -E "^($excluded)\$"

# The losses of a training.
train="--ranks=2 --threads=1 --batch_size=4 --block_size=32 --max_iters=100 --eval_interval=100 --eval_iters=1 --log_interval=10 --sample=0"
"$nanofsdp" train $train --metrics=build/arm64/here.jsonl >build/arm64/here.txt
qemu-aarch64-static -L "$root" $build/nanofsdp train $train --metrics=build/arm64/arm64.jsonl |
  tee build/arm64/arm64.txt
losses() { sed -n 's/.*"iter":\([0-9]*\),"loss":\([^,}]*\).*/\1 \2/p' "build/arm64/$1.jsonl"; }
losses here >build/arm64/here.losses
losses arm64 | paste -d ' ' build/arm64/here.losses - | awk '
  { difference = $2 - $4; if (difference < 0) difference = -difference
    if (difference > most) most = difference
    wrong += $1 != $3 || !($2 > 0) || difference > 1e-6; last = $1 ": " $2 " here, " $4 " on arm64" }
  END { print "losses of " NR " steps differ by at most " most "; step " last
        exit wrong > 0 || NR != 100 }'
