#!/usr/bin/env bash
# Everything that needs a GPU, in nine minutes at most. Each step has a time-out of its own, and never
# more than is left of the nine minutes; one that fails does not stop the next. What shows most in the
# shortest time comes first, and last what can best be missed.
#
#   make gpu-check          where an NVIDIA GPU, CUDA 12 or newer, NCCL, CMake, Python 3 and PyTorch are
#   DEVICE=cpu MODEL=2,2,64,64,4 make gpu-check                              a rehearsal without a GPU
#   MINUTES=30 make gpu-check                             on a slow machine: for each step as much more
#   ONLY=table make gpu-check               speed, memory and losses beside PyTorch's: four minutes more than the build
#
# Without packages or root there: `make gpu-deps` beforehand, and take the folder .gpu-deps along.
# What it saw becomes tests/gpu/results/GPU_DATE.json and .md. $OUT, if set, gets both, and all logs.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit
device=${DEVICE:-cuda}
model=${MODEL:-12,12,768,1024,64}  # of the speed: layers, heads, width, context, rows; GPT-2 124M
steps=250                          # of the parity
has_pytorch=yes
build=build/gpu
work=$PWD/build/gpu-out
out=${OUT:-$work}
minutes=${MINUTES:-9}
deadline=$((SECONDS + 60 * minutes))
quiet="--eval_interval=100000 --eval_iters=1 --sample=0"  # training, and little else
tiny="--n_layer=2 --n_head=2 --n_embd=32 --block_size=16 --batch_size=4 --threads=1"
rm -rf "$work" "$out"/{running,logs.txt}
mkdir -p "$work/logs" "$out/running"
export device model steps build work out quiet
export PATH=$PATH:/usr/local/cuda/bin
if [[ -d .gpu-deps ]]; then
  deps=$PWD/.gpu-deps
  export LD_LIBRARY_PATH=$deps/usr/lib:$deps/usr/lib/x86_64-linux-gnu:$deps/lib/x86_64-linux-gnu${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
else
  echo "note: no .gpu-deps here (make gpu-deps): CMake looks for the libraries, or fetches them"
fi
# Several ranks share one GPU: to NCCL each is a machine of its own (PyTorch's, too: reference.py).
export NCCL_SOCKET_IFNAME=lo NCCL_IB_DISABLE=1 NCCL_NVLS_ENABLE=0 NCCL_MNNVL_ENABLE=0 NCCL_NET=Socket
export NCCL_RAS_ENABLE=0 NCCL_ALGO=Ring NCCL_PROTO=Simple NCCL_MAX_CTAS=2 NCCL_DEBUG=WARN

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
  } 2>/dev/null
  echo "$(nproc) cores"
}

pytorch() {  # its first import may take a minute
  python3 -c 'import torch; print("PyTorch", torch.__version__, "NCCL", torch.version.cuda and torch.cuda.nccl.version())'
}

configure() {
  local flags=(-DNANOFSDP_TESTS=ALL) capability
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
  [[ $device == cuda ]] && targets+=(test_gpu overlap_gpu)
  configure || with_wheels || return
  cmake --build $build --parallel "$(nproc)" --target "${targets[@]}" &&
    $build/tests/print_tales > "$work/tales.txt"
}

train() {  # train NAME STEPS OPTIONS...: some steps of the CPU recipe, and their numbers
  $build/nanofsdp train --max_iters="$2" $quiet --metrics="$work/$1.jsonl" "${@:3}"
}

torch() {  # torch NAME OPTIONS...: the same of nanoGPT in PyTorch
  python3 tests/parity/reference.py --text="$work/tales.txt" --max_iters="$steps" \
    --metrics="$work/$1.jsonl" "${@:2}"
}

killed_rank() {  # one of two ranks is killed as it trains: the run says so, and ends soon
  $build/nanofsdp train --device="$device" --ranks=2 --max_iters=100000 $quiet \
    --metrics="$work/killed.jsonl" &
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

# sanitize TOOL COMMAND...; 77 where there is none, or it refuses this machine.
sanitize() {
  command -v compute-sanitizer || { echo "no compute-sanitizer here" && return 77; }
  local code=0
  compute-sanitizer --tool "$1" --error-exitcode 1 "${@:2}" || code=$?
  ! grep -q 'Device not supported' "$out/running/${gpu_check#*:}" || code=77
  return $code
}

# sanitize_operators TOOL [TESTS]: the operators' tests without TESTS, and without products of
# matrices: cuBLAS is slow under a sanitizer. Gemm and Exponential use no GPU.
sanitize_operators() {
  sanitize "$1" $build/tests/gpu/test_gpu --gtest_filter="-*Matmul*:Gemm.*:Exponential.*${2:+:$2}"
}

# Under racecheck some tests of attention take a minute. These two take seconds.
race_attention() {
  sanitize racecheck $build/tests/gpu/test_gpu \
    --gtest_filter='Attention.LargeScores:AttentionBfloat16.GivesTheSameBitsOnEveryRun'
}
export -f probe pytorch configure with_wheels build_it train torch killed_rank sanitize sanitize_operators race_attention

source tests/gpu/step.sh
trap 'end_processes ".*"; wait' EXIT
trap 'exit 143' HUP INT TERM
parity() { step parity 20 python3 tests/gpu/report.py parity "$work"; }  # of the curves so far
on_gpu() { [[ $device != cuda ]] || "$@"; }
with_pytorch() { [[ $has_pytorch == no ]] || "$@"; }

# ONLY=table: what is wanted of the speed, and what it is.
table() {
  local same=(--device="$device" --max_iters=50 --threads=1)
  step speed_ours 100 python3 tests/gpu/speed.py ours "" medium
  with_pytorch step speed_eager 100 python3 tests/gpu/speed.py eager "" medium
  with_pytorch step speed_compile 120 python3 tests/gpu/speed.py compile
  run bfloat16 40 train bfloat16 50 "${same[@]}" --n_head=2 --param_dtype=bfloat16
  with_pytorch step autocast 60 python3 tests/parity/bench_reference.py --model=4,2,128,64,12 --adamw=fused \
    --text="$work/tales.txt" --metrics="$work/autocast.jsonl" --autocast "${same[@]}"
  step speed_ours_xl 100 python3 tests/gpu/speed.py ours xl
  with_pytorch step speed_eager_xl 100 python3 tests/gpu/speed.py eager xl
  python3 tests/gpu/table.py "$work" | tee "$out/table.md"
}

if ! run probe 30 probe; then
  echo "gpu-check: no GPU answers. DEVICE=cpu rehearses without one" >&2
  exit 1
fi
if [[ $device == cuda ]]; then  # a process on the GPU until the end: opening an idle one takes seconds
  gpu_check=$$:load timeout "${minutes}m" nvidia-smi dmon -s um -d 5 -o T > "$out/load.txt" 2>&1 &
  disown
fi
run pytorch 120 pytorch &
importing=$!
if run build 180 build_it; then
  if [[ ${ONLY:-} == table ]]; then
    wait $importing || has_pytorch=no
    table
    exit
  fi
  run smoke 30 train smoke 3 --device="$device" $tiny
  on_gpu step operators 90 $build/tests/gpu/test_gpu
  # Side by side: they hardly use the GPU.
  run cpu 90 train cpu $steps --threads=1 &
  run ours_1 90 train ours_1 $steps --device="$device" --threads=1 &
  wait $importing || has_pytorch=no
  with_pytorch run torch_1 90 torch torch_1 --device="$device" &
  with_pytorch run fsdp2_1 90 torch fsdp2_1 --device="$device" --how=fsdp2 &
  wait
  for ranks in 2 4; do  # threads of one process: streams and FSDP, without NCCL
    run local_$ranks 60 train local_$ranks $steps --device="$device" --backend=local \
      --ranks=$ranks --threads=1
  done
  parity

  step speed_ours 75 python3 tests/gpu/speed.py ours
  with_pytorch step speed_eager 60 python3 tests/gpu/speed.py eager

  on_gpu run memcheck 75 sanitize_operators memcheck &
  on_gpu run racecheck 75 sanitize_operators racecheck "'Attention*'" &
  on_gpu run race_attention 75 race_attention &
  on_gpu run memcheck_train 75 sanitize memcheck $build/nanofsdp train --device=cuda --backend=local \
    --ranks=2 --max_iters=2 $quiet $tiny &
  wait

  step nccl 120 $build/tests/test_nccl
  run ours_2 90 train ours_2 $steps --device="$device" --ranks=2
  with_pytorch run fsdp2_2 90 torch fsdp2_2 --device="$device" --how=fsdp2 --ranks=2
  run killed_rank 40 killed_rank
  parity

  with_pytorch step speed_compile 120 python3 tests/gpu/speed.py compile
  run ours_4 90 train ours_4 50 --device="$device" --ranks=4  # ranks on one GPU take turns: few steps
  parity
  on_gpu step overlap 60 $build/tests/gpu/overlap_gpu
  on_gpu run synccheck 75 sanitize_operators synccheck
fi
wait  # for PyTorch, if the build failed
python3 tests/gpu/report.py summary "$work"
