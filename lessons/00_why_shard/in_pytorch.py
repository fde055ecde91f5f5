"""The lines of lesson 00 in PyTorch, on 4 ranks."""

from prelude import *

model = GPT(layers=2)
x, y = next_batch()
replica_kept = 16 * numel_of(model)

#! [lines]
for layer in model.layers:
    fully_shard(layer, mesh=mesh)
fully_shard(model, mesh=mesh)  # the root unit: all other parameters
optimizer = torch.optim.AdamW(model.parameters())  # of this rank's shards
loss_of(model(x), y).backward()
optimizer.step()
#! [lines]

blocks = [sum(local(p).numel() for p in layer.parameters()) for layer in model.layers]
root = sum(local(p).numel() for p in model.parameters()) - sum(blocks)
compare("parameters", page("a GPT of")[0], numel_of(model))
compare("data parallel: bytes kept", page("data parallel", 1), replica_kept)
compare("sharded: bytes kept by rank 0", page("sharded", 1)[0],
        parameters_of(model) + gradients_of(model) + moments_of(optimizer))
for name, at_rest, elements in zip(("root", "h.0", "h.1"), page("at rest"), (root, *blocks)):
    compare(f"elements of {name} at rest", at_rest, elements)
finish()
