"""The lines of lesson 04 in PyTorch, on 2 ranks."""

from prelude import *

#! [lines]
n = 1000000
rows = torch.arange(float(n)) * (rank + 1)
chunk = torch.empty(n // world_size)
dist.reduce_scatter_tensor(chunk, rows)
both = torch.empty(n)
dist.all_gather_into_tensor(both, chunk)
dist.all_reduce(rows)
assert torch.equal(both, rows)
#! [lines]

scatter, gather, reduce = page("W = 2: reduce-scatter")
compare("reduce-scatter: bytes to send", scatter, seen.sent(["reduce-scatter"]))
compare("all-gather: bytes to send", gather, seen.sent(["all-gather"]))
compare("all-reduce: bytes to send", reduce, seen.sent(["all-reduce"]))
finish()
