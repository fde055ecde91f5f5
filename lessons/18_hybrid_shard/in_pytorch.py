"""The lines of lesson 18 in PyTorch, on 4 ranks."""

from prelude import *

model = GPT()
x, y = invented_rows(rank, 1)

#! [lines]
grid = init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard"))
for layer in model.layers:
    fully_shard(layer, mesh=grid)
fully_shard(model, mesh=grid)
loss_of(model(x), y).backward()
#! [lines]


def inside():
    return seen.sent(["all-gather", "reduce-scatter"])


optimizer = torch.optim.AdamW(model.parameters())
compare("bytes received inside", page("receives inside, bytes")[1], inside())
compare("bytes received across", page("receives across, bytes")[1], seen.sent(["all-reduce"]))
compare("all-reduces across", page("all-reduces across")[1], seen.count("all-reduce"))
optimizer.step()
compare("bytes kept by rank 0", page("keeps between steps, bytes")[1],
        parameters_of(model) + gradients_of(model) + moments_of(optimizer))
seen.calls.clear()
for micro in range(3):
    model.set_requires_all_reduce(micro == 2)
    loss_of(model(x), y).backward()
compare("3 micro-batches: inside", page("receives inside, bytes", 1)[1], inside())
compare("3 micro-batches: across", page("receives across, bytes", 1)[1], seen.sent(["all-reduce"]))
compare("3 micro-batches: all-reduces", page("all-reduces across", 1)[1], seen.count("all-reduce"))
torch.manual_seed(1337)
model = GPT(layers=2, width=64, context=32)
for module in (*model.layers, model):
    fully_shard(module, mesh=grid)
optimizer = adamw(model)
for i in range(20):
    loss, _ = step(model, optimizer, *next_batch(context=32))
compare("loss of step 20", page("loss of step 20: full_shard")[1], loss)
finish()
