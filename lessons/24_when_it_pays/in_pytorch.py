"""The lines of lesson 24 in PyTorch, on 4 ranks."""

from prelude import *

model = GPT()
x, y = next_batch()

#! [lines]
half = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.bfloat16)
for block in model.layers:  # full_shard; with reshard_after_forward=False: shard_grad_op
    fully_shard(block, mesh=mesh, mp_policy=half, reshard_after_forward=True)
fully_shard(model, mesh=mesh, mp_policy=half)
loss_of(model(x), y).backward()
#! [lines]

U = 5  # units
blocks, root = 4 * 196864, 14976  # elements
compare("full_shard: all-gathers", 2 * U - 1, seen.count("all-gather"))
compare("full_shard: reduce-scatters", U, seen.count("reduce-scatter"))
compare("full_shard: bytes to send", 2 * (3 * blocks + 2 * root) * 3 // 4, seen.sent())
model = GPT()
for module in (*model.layers, model):
    fully_shard(module, mesh=mesh, mp_policy=half, reshard_after_forward=False)
seen.calls.clear()
loss_of(model(x), y).backward()
compare("shard_grad_op: all-gathers", U, seen.count("all-gather"))
compare("shard_grad_op: bytes to send", 2 * (2 * blocks + 2 * root) * 3 // 4, seen.sent())

model = GPT()
seen.calls.clear()

#! [hybrid]
grid = init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard"))  # hybrid_shard
for block in model.layers:
    fully_shard(block, mesh=grid, mp_policy=half)
fully_shard(model, mesh=grid, mp_policy=half)
#! [hybrid]

loss_of(model(x), y).backward()
compare("hybrid_shard: all-reduces", U, seen.count("all-reduce"))
compare("hybrid_shard: bytes to send", 2 * (3 * blocks + 2 * root) // 2 + 2 * (blocks + root) // 2, seen.sent())
finish()
