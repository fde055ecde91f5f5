#!/usr/bin/env python3
"""What torch.optim.Muon makes of three matrices in 50 steps: writes golden.txt beside this file.

    python3 tests/muon/golden.py

muon_test.cpp makes the same steps. PyTorch computes the iteration of Newton and Schulz in bfloat16. To
compare digits, this program gives it float32 there: while the optimizer steps, the name torch.bfloat16
means torch.float32. Then it steps with bfloat16 too, and prints how far the weights are apart.
"""

import math
import pathlib

import torch

STEPS = 50
SHAPES = [(6, 4), (4, 6), (5, 5)]


def trained(shape, dtype):
    n = shape[0] * shape[1]
    weight = torch.nn.Parameter(torch.tensor([0.1 * math.sin(e + 1) for e in range(n)]).view(shape))
    optimizer = torch.optim.Muon([weight], lr=0.01, weight_decay=0.1, adjust_lr_fn="match_rms_adamw")
    bfloat16 = torch.bfloat16
    for step in range(STEPS):
        push = torch.tensor([math.cos(0.37 * (e + 1) * (step + 1)) for e in range(n)]).view(shape)
        weight.grad = push + 0.5 * weight.detach()
        torch.bfloat16 = dtype
        optimizer.step()
        torch.bfloat16 = bfloat16
    return weight.detach().flatten()


def main():
    rows = [trained(shape, torch.float32) for shape in SHAPES]
    apart = max((trained(s, torch.bfloat16) - row).abs().max().item() for s, row in zip(SHAPES, rows))
    largest = max(row.abs().max().item() for row in rows)
    print(f"with bfloat16 a weight differs by {apart:.1e} at most; the largest weight is {largest:.2f}")
    lines = [" ".join(f"{x:.9g}" for x in row.tolist()) for row in rows]
    pathlib.Path(__file__).with_name("golden.txt").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
