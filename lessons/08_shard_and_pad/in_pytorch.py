"""The lines of lesson 08 in PyTorch, on 3 ranks."""

from prelude import *

model = GPT(vocabulary=65)

#! [lines]
rows = model.head.weight.shape[0]
fully_shard(model, mesh=mesh)
weight = model.head.weight  # a DTensor
assert weight.placements[0].is_shard(dim=0) and weight.shape[0] == rows
shard = weight.to_local()   # the rows of this rank
assert shard.shape[0] == len(torch.arange(rows).chunk(world_size)[rank])
#! [lines]

elements, units = page("nanoGPT,")
everything = torch.tensor(sum(local(p).numel() for p in model.parameters()))
dist.all_reduce(everything)
seen.calls.clear()
model(torch.zeros(1, 64, dtype=torch.long))
padding = sum(whole for _, whole, _ in seen.calls) // 4 - numel_of(model)
compare("parameters", elements, numel_of(model))
compare("padding on 3 ranks, elements", page("W = 3: padding")[0], padding, page("padding, W = 3", lesson="23")[1],
        "FSDP2 pads each parameter to a multiple of 3 rows, we pad each unit (lesson 23)")
compare("elements of all ranks", elements, everything.item())
finish()
