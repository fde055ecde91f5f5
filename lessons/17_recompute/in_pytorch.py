"""The lines of lesson 17 in PyTorch, on 2 ranks."""

from prelude import *

model = GPT(vocabulary=65)
x, y = next_batch()

#! [lines]
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper

for i, layer in enumerate(model.layers):
    model.layers[i] = fully_shard(checkpoint_wrapper(layer), mesh=mesh)
fully_shard(model, mesh=mesh)
loss_of(model(x), y).backward()
#! [lines]

recomputed = [p.grad.full_tensor() for p in model.parameters()]
seen.calls.clear()
loss_of(model(x), y).backward()
compare("all-gathers, recomputed", page("recomputed")[1], seen.count("all-gather"))
torch.manual_seed(1337)
model = GPT(vocabulary=65)
for module in (*model.layers, model):
    fully_shard(module, mesh=mesh)
seen.calls.clear()
loss_of(model(x), y).backward()
compare("all-gathers, kept", page("kept", 1)[1], seen.count("all-gather"))
kept = [p.grad.full_tensor() for p in model.parameters()]
compare("gradients that are equal", len(kept), sum(torch.equal(a, b) for a, b in zip(kept, recomputed)))
finish()
