"""The lines of lesson 21 in PyTorch, on 2 ranks."""

from prelude import *

#! [lines]
with torch.device("meta"):
    big = GPT()                                  # your 70B here
n = sum(p.numel() for p in big.parameters())
blocks = [sum(p.numel() for p in block.parameters()) for block in big.layers]
kept = 16 * n // world_size                      # bytes: parameters, gradients, Adam's moments
borrowed = 8 * (n - sum(blocks) + 2 * max(blocks))  # the root and two blocks, with gradients
#! [lines]

tales = page("tales ")
compare("bytes kept, by formula", tales[1], kept)
compare("bytes borrowed, by formula", tales[2], borrowed)
model = GPT()
for module in (*model.layers, model):
    fully_shard(module, mesh=mesh)
optimizer = adamw(model)
golden = (pathlib.Path(__file__).parents[2] / "tests/parity/golden/curve_tales_nanogpt.txt").read_text()
within = 0
for i, line in enumerate(golden.splitlines()[1:21]):  # losses of PyTorch in one process
    loss, _ = step(model, optimizer, *next_batch(), warm_up(i))
    within += abs(loss / float(line.split()[1]) - 1) < 2e-6
compare("of 20 losses on 2 ranks, right", 20, within)
finish()
