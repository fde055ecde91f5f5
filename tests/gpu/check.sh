#!/usr/bin/env bash
# Everything that needs a GPU, in nine minutes at most. Each step has a time-out of its own, and never
# more than is left of the nine minutes; one that fails does not stop the next. Last come those that
# can best be missed.
#
#   make gpu-check          where an NVIDIA GPU, CUDA 12 or newer, NCCL, CMake, Python 3 and PyTorch are
#   DEVICE=cpu MODEL=2,2,64,64,4 make gpu-check                              a rehearsal without a GPU
#
# Without packages or root there: `make gpu-deps` beforehand, and take the folder .gpu-deps along.
# What it saw becomes tests/gpu/results/GPU_DATE.json and .md. $OUT, if set, gets both, and all logs.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit
device=${DEVICE:-cuda}
model=${MODEL:-12,12,768,1024,64}  # of the speed: layers, heads, width, context, rows; GPT-2 124M
steps=250                          # of the parity
build=build/gpu
work=$PWD/build/gpu-out
deadline=$((SECONDS + 540))
rm -rf "$work"
mkdir -p "$work/logs"
export device model steps build work
export PATH=$PATH:/usr/local/cuda/bin
if [[ -d .gpu-deps ]]; then
  deps=$PWD/.gpu-deps
  export LD_LIBRARY_PATH=$deps/usr/lib:$deps/usr/lib/x86_64-linux-gnu:$deps/lib/x86_64-linux-gnu${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
fi
# Several ranks share one GPU: to NCCL each is a machine of its own (PyTorch's, too: reference.py).
export NCCL_SOCKET_IFNAME=lo NCCL_IB_DISABLE=1 NCCL_NVLS_ENABLE=0 NCCL_MNNVL_ENABLE=0 NCCL_NET=Socket
export NCCL_RAS_ENABLE=0 NCCL_ALGO=Ring NCCL_PROTO=Simple NCCL_MAX_CTAS=2 NCCL_DEBUG=WARN

# step NAME SECONDS COMMAND...: runs it, keeps what it prints, notes how it ended.
step() {
  local name=$1 limit=$2 left=$((deadline - SECONDS - 10)) begin=$SECONDS code=124
  shift 2
  if ((left > 5)); then
    timeout --kill-after=5 $((limit < left ? limit : left)) "$@" > "$work/logs/$name" 2>&1
    code=$?
  else
    echo "none of the nine minutes was left" > "$work/logs/$name"
  fi
  printf '%s\t%d\t%d\n' "$name" $code $((SECONDS - begin)) | tee -a "$work/steps.tsv"
  return $code
}

# The machine, a fact a line: they head the report.
probe() {
  if [[ $device == cuda ]]; then
    nvidia-smi --id=0 --query-gpu=name,driver_version,memory.total --format=csv,noheader || return
  fi
  uname -srm
  {
    nvcc --version | grep release
    c++ --version | head -n 1
    cmake --version | head -n 1
    python3 -c 'import torch; print("PyTorch", torch.__version__, "NCCL", torch.cuda.nccl.version())'
  } 2>/dev/null
  echo "$(nproc) cores"
}

configure() {
  local flags=(-DNANOFSDP_TESTS=ON) capability
  if [[ $device == cuda ]]; then
    capability=$(nvidia-smi --id=0 --query-gpu=compute_cap --format=csv,noheader | tr -d .)
    flags+=(-DNANOFSDP_CUDA=ON "-DCMAKE_CUDA_ARCHITECTURES=$capability")
  else
    flags+=(-DNANOFSDP_CUDA=OFF)
  fi
  command -v ninja && flags+=(-G Ninja)
  [[ -d .gpu-deps ]] && flags+=("-DCMAKE_PREFIX_PATH=$PWD/.gpu-deps/usr")
  cmake -S . -B $build "${flags[@]}" "$@"
}

# NCCL and cuBLAS where PyTorch's wheels have put them, under the names that CMake looks for.
with_wheels() {
  local wheels library
  wheels=$(python3 -c 'import nvidia; print(list(nvidia.__path__)[0])') || return
  mkdir -p $build/lib
  for library in "$wheels"/*/lib/lib{nccl,cublas,cublasLt}.so.*; do
    [[ -e $library ]] || continue
    ln -sf "$library" "$build/lib/"
    ln -sf "$library" "$build/lib/$(basename "${library%.so.*}").so"
  done
  configure "-DCMAKE_LIBRARY_PATH=$PWD/$build/lib" \
    "-DCMAKE_INCLUDE_PATH=$(echo "$wheels"/*/include | tr ' ' ';')"
}

build_it() {
  local targets=(nanofsdp print_tales test_nccl)
  [[ $device == cuda ]] && targets+=(test_gpu)
  configure || with_wheels || return
  cmake --build $build --parallel "$(nproc)" --target "${targets[@]}" &&
    $build/tests/print_tales > "$work/tales.txt"
}

train() {  # train NAME OPTIONS...: some steps of the CPU recipe, and their numbers
  local name=$1
  shift
  $build/nanofsdp train --max_iters="$steps" --eval_interval=100000 --eval_iters=1 \
    --metrics="$work/$name.jsonl" "$@"
}

torch() {  # torch NAME OPTIONS...: the same of nanoGPT in PyTorch
  local name=$1
  shift
  python3 tests/parity/reference.py --text="$work/tales.txt" --max_iters="$steps" \
    --metrics="$work/$name.jsonl" "$@"
}

killed_rank() {  # one of two ranks is killed as it trains: the run says so, and ends soon
  $build/nanofsdp train --device="$device" --ranks=2 --max_iters=100000 --eval_interval=100000 \
    --eval_iters=1 --metrics="$work/killed.jsonl" &
  local run=$! ranks begin code
  until grep -q '"iter":3,' "$work/killed.jsonl" 2>/dev/null; do
    kill -0 $run || return
    sleep 0.1
  done
  read -ra ranks < "/proc/$run/task/$run/children"
  kill -KILL "${ranks[1]}"
  begin=$SECONDS
  wait $run
  code=$?
  echo "ended with $code after $((SECONDS - begin)) s"
  [[ $code -eq 137 && $((SECONDS - begin)) -le 10 ]]
}

sanitize() {  # sanitize TOOL; 77 where there is none, or it refuses this machine
  command -v compute-sanitizer || return 77
  local code=0
  compute-sanitizer --tool "$1" --error-exitcode 1 $build/tests/gpu/test_gpu || code=$?
  ! grep -q 'Device not supported' "$work/logs/$1" || code=77
  return $code
}
export -f probe configure with_wheels build_it train torch killed_rank sanitize
run() { step "$1" "$2" bash -o pipefail -c "${*:3}"; }  # a step that is a function of this file

if ! run probe 30 probe; then
  echo "gpu-check: no GPU answers: $(head -n 1 "$work/logs/probe"). DEVICE=cpu rehearses without one" >&2
  exit 1
fi
if run build 180 build_it; then
  [[ $device == cuda ]] && step operators 45 $build/tests/gpu/test_gpu
  step nccl 60 $build/tests/test_nccl
  run cpu 60 train cpu --threads=1 &  # side by side, as are the sanitizers: they hardly use the GPU
  run ours_1 60 train ours_1 --device="$device" --threads=1 &
  run torch_1 60 torch torch_1 --device="$device" &
  run fsdp2_1 60 torch fsdp2_1 --device="$device" --how=fsdp2 &
  wait
  for ranks in 2 4; do
    run ours_$ranks 90 train ours_$ranks --device="$device" --ranks=$ranks
  done
  run fsdp2_2 60 torch fsdp2_2 --device="$device" --how=fsdp2 --ranks=2
  step parity 10 python3 tests/gpu/report.py parity "$work"
  step speed_ours 75 python3 tests/gpu/speed.py ours
  step speed_eager 45 python3 tests/gpu/speed.py eager
  run killed_rank 40 killed_rank
  step speed_compile 120 python3 tests/gpu/speed.py compile
  for tool in memcheck racecheck initcheck synccheck; do
    [[ $device == cuda ]] && run $tool 75 sanitize $tool &
  done
  wait
fi
python3 tests/gpu/report.py summary "$work"
