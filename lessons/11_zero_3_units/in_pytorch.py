"""The lines of lesson 11 in PyTorch, on 4 ranks."""

from prelude import *

model = GPT(vocabulary=65)
x, y = next_batch()

#! [lines]
for block in model.layers:
    fully_shard(block, mesh=mesh)  # gather, compute, discard
fully_shard(model, mesh=mesh)      # the root, after its blocks
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)  # after fully_shard: it sees shards
loss = loss_of(model(x), y)
loss.backward()
optimizer.step()
#! [lines]

_, scatters, gathers, sent = page("by hand ")
more = rows_of(65) * 128 - 65 * 128 // 4  # FSDP2 cuts between rows
kept = parameters_of(model) + gradients_of(model) + moments_of(optimizer)
compare("parameters", page("")[0], numel_of(model))
compare("bytes kept by rank 0", page("by hand ")[0], kept, page("by hand ")[0] + 16 * more,
        "rank 0 has 17 of the 65 rows of the token table; our cut is at 16.25 rows")
compare("reduce-scatters", scatters, seen.count("reduce-scatter"))
compare("all-gathers", gathers, seen.count("all-gather"))
compare("bytes to send", sent, seen.sent(), sent + 2 * 3 * 4 * more,
        "the token table is padded to 4 times 17 rows, in a gather and in a reduction")
first_loss, first_norm = page("step 1 ")[:2]
compare("loss of step 1", first_loss, average(loss))
compare("gradient norm", first_norm, clip(model))
finish()
