#!/usr/bin/env bash
# Every program that check.sh calls, as far as check_test.py needs it: links to this file bear their
# names. $ABSENT is what this machine lacks; $FAILS and $HANGS are steps, of which the latter may take
# $LIMIT seconds; and the import of PyTorch lasts until the step $IMPORT has ended.
step=${gpu_check:-:}
step=${step#*:}
name=$(basename "$0")

if [[ $name == timeout ]]; then
  if [[ $step == "${HANGS:-}" ]]; then set -- --kill-after=1 "$LIMIT" "${@:3}"; fi
  exec "$TIMEOUT" "$@"
fi

if [[ -n $step && $step != "${HANGS:-none}" ]] && grep -qs sleep "$work/orphan/cmdline"; then
  echo "a process of the step $HANGS is still there" && exit 4
fi
case $step in
  "${FAILS:-none}") printf 'line %d of 30\n' {1..30} && exit 3 ;;
  "${HANGS:-none}")
    trap '' TERM
    setsid sleep 1000 &
    ln -s /proc/$! "$work/orphan"
    echo "this hangs"
    sleep 1000 ;;
esac

# A loss for each step, in the file that --metrics names.
curve() {
  local argument metrics steps i
  for argument; do
    case $argument in
      --metrics=*) metrics=${argument#*=} ;;
      --max_iters=*) steps=${argument#*=} ;;
    esac
  done
  if ((steps > 250)); then sleep 1000 & sleep 1000 & fi  # ranks, of which one will be killed
  for ((i = 0; i < steps && i < 250; ++i)); do
    echo "{\"iter\":$i,\"loss\":4.0,\"grad_norm\":2.0}"
  done > "${metrics:-/dev/null}"
  if ((steps > 250)); then
    wait -n
    kill "$(jobs -pr)"
    exit 137
  fi
}

case "$name $*" in
  nvidia-smi*)
    if [[ $ABSENT == gpu ]]; then echo "No devices were found" && exit 6; fi
    case $* in
      dmon*) exec sleep 1000 ;;
      *compute_cap*) echo 9.0 ;;
      *) echo "Stand-in, 580.0, 1 MiB" ;;
    esac ;;
  "cmake --build"*)
    mkdir -p build/gpu/tests/gpu
    for program in nanofsdp tests/print_tales tests/test_nccl tests/gpu/test_gpu \
      tests/gpu/overlap_gpu; do
      ln -sf "$(realpath "$0")" build/gpu/$program
    done ;;
  *"import torch"*)
    for _ in {1..300}; do [[ -e $work/logs/$IMPORT ]] || sleep 0.1; done
    if [[ $ABSENT == pytorch ]]; then echo "No module named 'torch'" && exit 1; fi
    echo "PyTorch 2" ;;
  python3*reference.py* | nanofsdp*) curve "$@" ;;
  python3*speed.py*) ;;
  python3*) exec "$PYTHON" "$@" ;;
  *) echo "$name passes" ;;
esac
