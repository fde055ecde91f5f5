"""The lines of lesson 05 in PyTorch, on 2 ranks."""

from prelude import *

model = GPT(layers=2, width=64, context=32)
optimizer = adamw(model)
x, y = next_batch(context=32)

#! [lines]
loss = loss_of(model(x), y)
loss.backward()
for parameter in model.parameters():
    dist.all_reduce(parameter.grad)
    parameter.grad /= world_size
norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)  # returns the norm before clipping
#! [lines]

reductions, sent = page("2 ranks, 6 of 12 rows each:")
compare("all-reduces of a step", reductions, seen.count("all-reduce"))
compare("bytes to send", sent, seen.sent())
for i in range(1, 11):
    if i > 1:
        x, y = next_batch(context=32)
        optimizer.zero_grad()
        loss = loss_of(model(x), y)
        loss.backward()
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
            parameter.grad /= world_size
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    if i in (1, 2, 5, 10):
        compare(f"loss of step {i}", page(f"step {i} ")[2], average(loss))
        compare(f"norm of step {i}", page(f"step {i} ")[3], norm.item())
seen.calls.clear()
replica = nn.parallel.DistributedDataParallel(model)
loss_of(replica(x), y).backward()
compare("all-reduces, if DDP does it", reductions, seen.count("all-reduce"), 1,
        "DDP copies gradients into buckets of 25 MB, and reduces a bucket at once")
finish()
