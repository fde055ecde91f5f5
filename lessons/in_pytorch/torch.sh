#!/bin/sh
# torch.sh [N]: what `make torch` does: the lines of PyTorch of lesson N, or of all lessons.
# PYTHON may name interpreters. The first that has a PyTorch with FSDP2 is used.
set -eu
for python in ${PYTHON:-build/torch/bin/python python3 /usr/bin/python3}; do
  "$python" -c 'from torch.distributed.fsdp import fully_shard' 2>/dev/null || continue
  "${MAKE:-make}" --no-print-directory tales
  exec "$python" lessons/in_pytorch/run.py --tales=build/tales.txt ${1:+"$1"}
done
echo "make torch: not run: found no PyTorch with FSDP2 (2.6 or later). \`make parity TORCH=install\` puts
one into build/torch; or: python3 -m pip install torch numpy; or name an interpreter: PYTHON=..."
