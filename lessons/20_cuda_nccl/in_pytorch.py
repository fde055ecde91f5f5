"""The lines of lesson 20 in PyTorch, on 2 ranks."""

from prelude import *

#! [lines]
device = "cpu"                                  # "cuda" where GPUs are: then NCCL sends
mesh = init_device_mesh(device, (world_size,))
model = GPT().to(device)
for block in model.layers:
    fully_shard(block, mesh=mesh)
fully_shard(model, mesh=mesh)
#! [lines]

optimizer = adamw(model)
for i in range(3):
    seen.calls.clear()
    loss, _ = step(model, optimizer, *next_batch(), warm_up(i))
compare("2 ranks: loss of step 3", page("2 ")[0], loss)
compare("2 ranks: bytes to send", page("2 ")[1], seen.sent())
finish()
