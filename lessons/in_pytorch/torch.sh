#!/bin/sh
# torch.sh [N]: what `make torch` does: the lines of PyTorch of lesson N, or of all lessons.
# PYTHON may name interpreters. The first that has a PyTorch with FSDP2 is used.
set -eu
[ -f tests/parity/llama.py ] || {  # what `make handout` packs
  echo "make torch: needs tests/parity, which is not in this tree" >&2
  exit 2
}
for python in ${PYTHON:-build/torch/bin/python python3 /usr/bin/python3}; do
  "$python" -c 'from torch.distributed.fsdp import fully_shard' 2>/dev/null || continue
  "${MAKE:-make}" --no-print-directory tales
  exec "$python" lessons/in_pytorch/run.py --tales=build/tales.txt ${1:+"$1"}
done
echo "make torch: not run, because no PyTorch with FSDP2 was found (2.6 or later; lesson 25 needs 2.9). To get one:
\`python3 -m pip install torch numpy\`, or \`make parity TORCH=install\`, which puts it into build/torch.
PYTHON=... names another interpreter."
