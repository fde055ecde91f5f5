"""The lines of lesson 10 in PyTorch, on 4 ranks."""

from prelude import *

model = GPT(vocabulary=65)
batches = [next_batch(rows=4) for _ in range(3)]
x, y = (torch.cat(parts) for parts in zip(*batches))  # this rank's row of each of 3 micro-batches

#! [lines]
for module in [*model.layers, model]:  # the blocks first, the root last
    fully_shard(module, mesh=mesh, reshard_after_forward=False)
for tokens, targets in zip(x.chunk(3), y.chunk(3)):  # three micro-batches
    (loss_of(model(tokens), targets) / 3).backward()  # reduces, and adds to the shards
grad = model.head.weight.grad
assert grad.to_local().numel() < grad.numel()
#! [lines]

_, scatters, gathers, sent = page("3, by hand")
compare("reduce-scatters", scatters, seen.count("reduce-scatter"))
compare("all-gathers", gathers, seen.count("all-gather"), 3 * gathers,
        "FSDP2 also shards parameters, so it gathers them in each micro-batch")
more = rows_of(65) * 128 - 65 * 128 // 4
compare("bytes of gradients on rank 0", page("", 0)[0], gradients_of(model), numel_of(model) + 4 * more,
        "rank 0 has 17 of the 65 rows of the token table; our cut is at 16.25 rows")
compare("gradient norm", page("step 1 ")[3], clip(model))
compare("loss of step 1", page("step 1 ")[2], average(loss_of(model(x), y)))
finish()
