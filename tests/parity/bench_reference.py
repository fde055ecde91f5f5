"""reference.py as PyTorch is used for speed: any size, fused attention, the AdamW that is asked for.

    python3 bench_reference.py --model=12,12,768,64,4 --adamw=fused --text=input.txt --max_iters=5

The model is layers, heads, width, context, rows. Attention is scaled_dot_product_attention where
PyTorch has it, as in nanoGPT; AdamW is PyTorch's default, or one of its other implementations.
"compiled" is torch.compile, with the fused AdamW.
"""

import argparse
import functools
import sys

import torch
from torch.nn import functional as F

import reference


def fused_attention(self, x):
    B, T, C = x.shape
    heads = (B, T, reference.HEADS, C // reference.HEADS)
    q, k, v = (t.view(heads).transpose(1, 2) for t in self.c_attn(x).split(C, 2))
    y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    return self.c_proj(y.transpose(1, 2).reshape(B, T, C))


def configure(model, adamw):
    sizes = map(int, model.split(","))
    reference.LAYERS, reference.HEADS, reference.WIDTH, reference.CONTEXT, reference.ROWS = sizes
    if hasattr(F, "scaled_dot_product_attention"):
        reference.Attention.forward = fused_attention
    if adamw == "compiled":
        reference.GPT.forward = torch.compile(reference.GPT.forward)
    if adamw != "default":
        kind = "fused" if adamw == "compiled" else adamw
        torch.optim.AdamW = functools.partial(torch.optim.AdamW, **{kind: True})


def run_rank(rank, ours, args):
    configure(ours.model, ours.adamw)  # in every process: they are spawned
    reference.run_rank(rank, args)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", required=True)
    parser.add_argument("--adamw", choices=("default", "foreach", "fused", "compiled"), default="default")
    ours, rest = parser.parse_known_args(sys.argv[1:])
    args = reference.parse(rest)
    if args.how == "single":
        run_rank(0, ours, args)
    else:
        torch.multiprocessing.spawn(run_rank, (ours, args), nprocs=args.ranks)


if __name__ == "__main__":
    main()
