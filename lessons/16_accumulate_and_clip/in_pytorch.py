"""The lines of lesson 16 in PyTorch, on 3 ranks."""

from prelude import *

model = GPT(vocabulary=65)
parts = [invented_rows((micro * 3 + rank) * 2, 2, 65) for micro in range(4)]
x, y = (torch.cat(part) for part in zip(*parts))
y = y.clone()
y[:, 64 >> rank:] = -100  # the lesson's unequal rows: rank 1 counts half of the tokens, rank 2 a quarter

#! [lines]
for module in (*model.layers, model):
    fully_shard(module, mesh=mesh)
tokens = (y != -100).sum()  # a target of -100 does not count
dist.all_reduce(tokens)
micro_batches = list(zip(x.chunk(4), y.chunk(4)))
for i, (inputs, targets) in enumerate(micro_batches):
    model.set_requires_gradient_sync(i + 1 == len(micro_batches))  # no_sync
    loss = F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten(), reduction="sum")
    (loss * world_size / tokens).backward()
norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
#! [lines]

compare("no_sync: reduce-scatters", page("no_sync")[0], seen.count("reduce-scatter"))
compare("no_sync: all-gathers", page("no_sync")[2], seen.count("all-gather"))
compare("divided by all tokens: norm", page("3 ranks, divided by all tokens")[1], norm.full_tensor().item())
seen.calls.clear()
model.zero_grad()
for inputs, targets in micro_batches:
    (loss_of(model(inputs), targets) / 4).backward()
compare("each micro-step: reduce-scatters", page("each micro-step")[0], seen.count("reduce-scatter"))
compare("each micro-step: all-gathers", page("each micro-step")[2], seen.count("all-gather"))
compare("mean of means: norm", page("3 ranks, mean of means")[1], clip(model))
finish()
