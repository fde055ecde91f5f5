#!/usr/bin/env bash
# Everything that needs a GPU, in one run of at most nine minutes, each step under a time-out of its
# own. A step that fails does not stop the next. What it saw: $OUT/*.log, summary.json, summary.md.
#
#   make gpu-check        on any machine with an NVIDIA GPU, CUDA 12 or newer, NCCL, CMake, Python 3
#
# Without root or packages there: `make gpu-deps` beforehand, and take the folder .gpu-deps along.
set -uo pipefail
cd "$(dirname "$0")/../.."
out=${OUT:-build/gpu-out}
build=build/gpu
mkdir -p "$out"
: > "$out/steps.tsv"

# step NAME SECONDS COMMAND...: runs it, keeps what it prints, notes how it ended.
step() {
  local name=$1 limit=$2 begin=$SECONDS
  shift 2
  timeout --kill-after=10 "$limit" "$@" > "$out/$name.log" 2>&1
  local code=$?
  printf '%s\t%d\t%d\n' "$name" "$code" "$((SECONDS - begin))" | tee -a "$out/steps.tsv"
}

nccl_of_python() {  # where PyTorch's wheels have put NCCL, if nothing else has
  python3 -c 'import nvidia.nccl; print(list(nvidia.nccl.__path__)[0])' 2>/dev/null
}

build_it() {
  local nccl flags=()
  nccl=$(nccl_of_python) && flags+=("-DNCCL_ROOT=$nccl")
  [[ -d .gpu-deps ]] && flags+=("-DCMAKE_PREFIX_PATH=$PWD/.gpu-deps/usr" -DNANOFSDP_INSTALL=OFF)
  cmake -S . -B $build -DNANOFSDP_CUDA=ON -DNANOFSDP_TESTS=ON -DCMAKE_CUDA_ARCHITECTURES=native \
    "${flags[@]}" && cmake --build $build --parallel "$(nproc)" --target nanofsdp test_gpu test_nccl
}

train() {  # train NAME OPTIONS...: 250 steps of the CPU recipe, and their numbers
  local name=$1
  shift
  $build/nanofsdp train --max_iters=250 --eval_interval=250 --eval_iters=1 \
    --metrics="$out/$name.jsonl" "$@"
}

killed_rank() {  # a rank dies in mid-step: the others say so and end within ten seconds
  train killed --device=cuda --ranks=2 --max_iters=100000 &
  local run=$!
  sleep 15
  pkill -KILL -n -f "max_iters=100000" || return 1
  local begin=$SECONDS
  wait $run
  local code=$?
  echo "ended with $code after $((SECONDS - begin)) s"
  [[ $code -ne 0 && $((SECONDS - begin)) -le 10 ]]
}
export -f build_it nccl_of_python train killed_rank
export build out

# Several ranks share one GPU here: to NCCL each then looks like a machine of its own.
export NCCL_SOCKET_IFNAME=lo NCCL_IB_DISABLE=1 NCCL_NVLS_ENABLE=0 NCCL_MNNVL_ENABLE=0
export NCCL_NET=Socket NCCL_ALGO=Ring NCCL_PROTO=Simple NCCL_DEBUG=WARN

step probe 30 nvidia-smi
step build 150 bash -c build_it
export LD_LIBRARY_PATH=$PWD/.gpu-deps/usr/lib:$PWD/.gpu-deps/usr/lib/x86_64-linux-gnu:${LD_LIBRARY_PATH:-}
step operators 60 $build/tests/gpu/test_gpu
for tool in memcheck racecheck initcheck synccheck; do
  step $tool 45 compute-sanitizer --tool $tool --error-exitcode 1 $build/tests/gpu/test_gpu \
    --gtest_filter='-*Big*:*Long*'
done
step nccl 60 $build/tests/gpu/test_nccl
step killed_rank 45 bash -c killed_rank
step cpu 60 bash -c 'train cpu'
for ranks in 1 2 4; do
  step cuda_$ranks 90 bash -c "train cuda_$ranks --device=cuda --ranks=$ranks"
done
step parity 20 python3 tests/gpu/report.py parity "$out"
python3 tests/gpu/report.py summary "$out"
