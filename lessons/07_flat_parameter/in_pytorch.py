"""The lines of lesson 07 in PyTorch, on 2 ranks."""

from prelude import *

#! [row]
row = torch.zeros(25)
sizes, shapes = [6, 5, 14], [(2, 3), (1, 5), (7, 2)]
A, B, C = (part.view(shape) for part, shape in zip(row.split(sizes), shapes))
C[3][1] = 70
assert row[18] == 70
#! [row]

model = GPT(vocabulary=65)
x, y = next_batch()

#! [units]
for block in model.layers:
    fully_shard(block, mesh=mesh)  # a unit
fully_shard(model, mesh=mesh)      # the root unit: the parameters that are in no block
units = [module for module in model.modules() if isinstance(module, FSDPModule)]
#! [units]

begins = page("A, B and C begin at")
compare("A begins at", begins[0], A.storage_offset())
compare("B begins at", begins[1], B.storage_offset())
compare("C begins at", begins[2], C.storage_offset())
compare("the row ends at", begins[3], row.numel())
compare("element that C[3][1] is", page("through the view")[3], int(row.argmax()))
broadcasts = page("broadcasts:")
for part in (A, B, C):
    dist.broadcast(part.contiguous(), 0)
compare("broadcasts, one a parameter", broadcasts[0], seen.count("broadcast"))
compare("their bytes", broadcasts[1], sum(whole for _, whole, _ in seen.calls))
seen.calls.clear()
loss_of(model(x), y)
parameters, rows = page("nanoGPT:")
compare("parameters of nanoGPT", parameters, len(list(model.parameters())))
compare("units", rows, len(units))
compare("all-gathers of a forward", rows, seen.count("all-gather"))
finish()
