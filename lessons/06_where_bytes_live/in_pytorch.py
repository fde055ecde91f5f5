"""The lines of lesson 06 in PyTorch, on 2 ranks."""

from prelude import *

model = GPT(vocabulary=65)
x, y = next_batch()

#! [lines]
optimizer = torch.optim.AdamW(model.parameters())
loss_of(model(x), y).backward()
optimizer.step()
parameters = list(model.parameters())
moments = [t for s in optimizer.state.values() for t in s.values() if t.dim() > 0]  # no step counters
tensors = parameters + [p.grad for p in parameters] + moments
kept = sum(t.numel() * t.element_size() for t in tensors)
assert kept == 16 * sum(p.numel() for p in parameters)
#! [lines]

ledger = [page(kind) for kind in ("parameter shards", "gradient shards", "optimizer")]
compare("no_shard: parameters", ledger[0][0], parameters_of(model))
compare("no_shard: gradients", ledger[1][0], gradients_of(model))
compare("no_shard: optimizer", ledger[2][0], moments_of(optimizer))
compare("no_shard: all", page("ZeRO-0")[1], kept)
for module in (*model.layers, model):
    fully_shard(module, mesh=mesh)
optimizer = torch.optim.AdamW(model.parameters())
loss_of(model(x), y).backward()
optimizer.step()
more = 4 * (rows_of(65) * 128 - 65 * 128 // 2)  # bytes
why = "rank 0 has 33 of the 65 rows of the token table; our cut is at 32.5 rows"
compare("full_shard: parameters", ledger[0][1], parameters_of(model), ledger[0][1] + more, why)
compare("full_shard: gradients", ledger[1][1], gradients_of(model), ledger[1][1] + more,
        "the same half row")
compare("full_shard: optimizer", ledger[2][1], moments_of(optimizer), ledger[2][1] + 2 * more,
        "two moments of the same half row")
finish()
